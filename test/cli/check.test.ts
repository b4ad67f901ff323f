/** `tidegate check` of storages whose backend accepts each token once, as many cloud storage services do. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { memoryType } from '../../drivers/memory/index.js'
import { check } from '../../src/cli/check.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { configSchema } from '../../src/installation/config.js'
import { processStartTime } from '../../src/installation/instance.js'
import { newStorage } from '../../src/database/new-storage.js'
import { startGateway } from '../gateway.js'
import { storeOf, storeVariables } from '../store-location.js'
import { protocols } from '../../protocols/index.js'

/** A backend that exchanges its current token for a new one and rejects every other token. */
class Rotating {
  token = 'first'
  opened = 0
  /** Whether it answers requests once it is open. */
  answers = true

  exchange(token: string | undefined): string {
    if (token !== this.token) throw new GatewayError('denied', { reason: 'this token was used before' })
    this.opened++
    return (this.token = randomUUID())
  }
}

/** Drivers of these backends: one stores its token in its options, the other in its state. */
function rotatingTypes(saved: Rotating, state: Rotating): readonly AnyDriverType[] {
  const fields = { token: { type: 'string', default: '' } } as const
  const opened = async (backend: Rotating, env: DriverEnv): Promise<Driver> => {
    const driver = await memoryType.open({ size_limit: 0, case_sensitive: true }, env)
    const stat: Driver['stat'] = async (path, options) => {
      if (!backend.answers) throw new GatewayError('unavailable', { reason: 'the backend is out of order' })
      return driver.stat(path, options)
    }
    return new Proxy(driver, {
      get: (target, name) => {
        if (name === 'stat') return stat
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }
  return [
    {
      name: 'Saving',
      fields,
      open: async ({ token }: { token: string }, env: DriverEnv) => {
        await env.save({ token: saved.exchange(token) })
        return opened(saved, env)
      },
    },
    {
      name: 'Remembering',
      fields,
      open: async (_options: never, env: DriverEnv) => {
        await env.state.set('token', state.exchange((await env.state.get('token')) ?? 'first'))
        return opened(state, env)
      },
    },
  ]
}

async function rotating(t: Test) {
  const [saved, state] = [new Rotating(), new Rotating()]
  const types = rotatingTypes(saved, state)
  const start = (dataFolder?: string) =>
    startGateway(t, { driverTypes: types, ...(dataFolder !== undefined && { dataFolder }) })
  const first = await start()
  const { dataFolder, gateway } = first
  const create = (mountPath: string, driver: string) =>
    gateway.storages.create(
      newStorage({ mountPath: asPath(mountPath), driver, addition: JSON.stringify({ token: 'first' }) }),
    )
  await create('/saved', 'Saving')
  await create('/state', 'Remembering')
  const store = await storeOf(dataFolder)
  const config = (http = '127.0.0.1:0') => ({
    ...configSchema(protocols).parse({ http, sftp: 'off' }),
    data: dataFolder,
    store,
  })
  return {
    ...{ saved, state, first, start, dataFolder },
    check: async (http?: string) => {
      const findings = await check(config(http), { drivers: types })
      return Object.fromEntries(findings.map(({ what, ok, detail }) => [what, { ok, detail }]))
    },
  }
}

const statuses = (gateway: Awaited<ReturnType<typeof startGateway>>['gateway']) =>
  gateway.storages
    .list()
    .filter(({ mountPath }) => mountPath !== '/')
    .map(({ status }) => status)

await t.test('check without a daemon stores the new token of a storage, and the next start uses it', async (t) => {
  const { first, start, dataFolder, check, saved, state } = await rotating(t)
  await first.stop()
  for (const count of [2, 3]) {
    const found = await check()
    t.match(found, { 'storage /saved': { ok: true }, 'storage /state': { ok: true } }, 'repeated checks succeed')
    t.same([saved.opened, state.opened], [count, count])
    t.notOk('daemon' in found)
  }
  const second = await start(dataFolder)
  t.same(statuses(second.gateway), ['work', 'work'])
})

await t.test('check reports a timeout for a storage whose driver ignores its signal', async (t) => {
  const never = () => new Promise<never>(() => undefined)
  const memory = async (env: DriverEnv) => memoryType.open({ size_limit: 0, case_sensitive: true }, env)
  const types: readonly AnyDriverType[] = [
    { name: 'Silent', fields: {}, open: never },
    {
      name: 'Deaf',
      fields: {},
      open: async (_options: never, env: DriverEnv) => Object.assign(await memory(env), { stat: never, close: never }),
    },
  ]
  const running = await startGateway(t, { driverTypes: types })
  const { gateway, dataFolder } = running
  for (const driver of ['Silent', 'Deaf']) {
    await gateway.store.storages.insert(newStorage({ mountPath: asPath(`/${driver}`), driver, addition: '{}' }))
  }
  await running.stop()
  const config = {
    ...configSchema(protocols).parse({ http: '127.0.0.1:0', sftp: 'off' }),
    data: dataFolder,
    store: await storeOf(dataFolder),
  }
  const findings = await check(config, { drivers: types, timeout: 200 })
  for (const driver of ['Silent', 'Deaf']) {
    const detail = 'it does not answer within 0.2 seconds'
    t.match(
      findings.find(({ what }) => what === `storage /${driver}`),
      { ok: false, detail },
    )
  }
})

await t.test('check exits although a driver has left a connection open', async (t) => {
  const running = await startGateway(t)
  const { dataFolder, gateway } = running
  await gateway.store.storages.insert(newStorage({ mountPath: asPath('/open'), driver: 'Open', addition: '{}' }))
  await running.stop()
  const url = (path: string) => JSON.stringify(new URL(`../../${path}`, import.meta.url).href)
  const program = `
    import { driverTypes } from ${url('drivers/index.js')}
    import { memoryType } from ${url('drivers/memory/index.js')}
    const open = async (options, env) => {
      setInterval(() => undefined, 1000)
      return memoryType.open({ size_limit: 0, case_sensitive: true }, env)
    }
    driverTypes.push({ name: 'Open', fields: {}, open })
    await import(${url('src/main.js')})
  `
  const file = join(t.testdir(), 'program.mjs')
  await writeFile(file, program)
  const words = [file, 'check', '--data', dataFolder, '--sftp', 'off', '--http', '127.0.0.1:0']
  const child = spawn(process.execPath, words, {
    env: { ...process.env, ...(await storeVariables(dataFolder)) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000)
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  const [status] = (await once(child, 'close')) as [number | null]
  clearTimeout(timer)
  t.equal(status, 0)
  t.match(out, /^ok +storage \/open +Open opens$/m)
})

await t.test('check beside a daemon opens no storage and reports what the daemon says of each backend', async (t) => {
  const { first, check, saved, state } = await rotating(t)
  const tokens = [saved.token, state.token]
  const found = await check()
  t.match(found, {
    daemon: { ok: true, detail: `process ${process.pid} answers at ${first.url}` },
    'storage /': { ok: true, detail: 'Local answers' },
    'storage /saved': { ok: true, detail: 'Saving answers' },
    'storage /state': { ok: true, detail: 'Remembering answers' },
  })
  t.same([saved.token, state.token], tokens, 'no token was used')
  await first.gateway.storages.restartAll()
  t.same(statuses(first.gateway), ['work', 'work'], 'the daemon’s tokens are still valid')

  saved.answers = false
  t.match(await check(), {
    'storage /saved': { ok: false, detail: 'the backend is out of order' },
    'storage /state': { ok: true },
  })
  state.token = 'revoked'
  await first.gateway.storages.restartAll()
  t.match(
    await check(),
    { 'storage /state': { ok: false, detail: 'this token was used before' } },
    'the storage does not start',
  )
})

await t.test('check opens no storage beside a daemon that does not answer, and reports that', async (t) => {
  const { first, check, saved, state, dataFolder } = await rotating(t)
  await first.stop()
  const tokens = [saved.token, state.token]
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  t.teardown(() => child.kill())
  const pid = child.pid ?? 0
  // The port is free: nothing listens on it any more.
  await writeFile(join(dataFolder, 'daemon.pid'), `${pid} ${processStartTime(pid) ?? ''}\n${first.url}`)
  const detail = `only the daemon may open it while process ${pid} runs`
  t.match(await check(), {
    daemon: { ok: false, detail: `process ${pid} serves the data folder, but does not answer at ${first.url}` },
    'storage /saved': { ok: null, detail },
    'storage /state': { ok: null, detail },
  })
  t.same([saved.token, state.token], tokens)
})

await t.test('check sends the API token to the daemon only, even if another server listens at --http', async (t) => {
  const { check } = await rotating(t)
  const seen: unknown[] = []
  const stranger = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.end('pong')
  }).listen(0, '127.0.0.1')
  await once(stranger, 'listening')
  t.teardown(() => stranger.close())
  const { port } = stranger.address() as AddressInfo
  t.match(await check(`127.0.0.1:${port}`), { 'storage /saved': { ok: true } })
  t.ok(seen.length > 0, 'the other server was asked to identify itself')
  t.ok(
    seen.every((authorization) => authorization === undefined),
    'no request carried credentials',
  )
})

await t.test('check recognizes the ports of a running Tidegate, and no others', async (t) => {
  // As behind a balancer on the same machine.
  const proxied = { proxy_protocol: ['127.0.0.1'] }
  const { url, sftpPort, dataFolder } = await startGateway(t, { config: proxied })
  const other = createServer().listen(0, '127.0.0.1')
  t.teardown(() => other.close())
  await once(other, 'listening')
  const http = url.replace('http://', '')
  const found = async (sftp: string) =>
    check({
      ...configSchema(protocols).parse({ ...proxied, http, sftp }),
      data: dataFolder,
      store: await storeOf(dataFolder),
    })
  const detail = 'is answered by a running Tidegate'
  const all = await found(`127.0.0.1:${sftpPort}`)
  t.match(
    all.filter(({ what }) => what === 'daemon' || what.startsWith('storage')),
    [{ ok: true }, { ok: true }],
  )
  t.match(all.slice(-2), [
    { what: 'http', ok: true, detail },
    { what: 'sftp', ok: true, detail },
  ])
  const taken = `127.0.0.1:${(other.address() as AddressInfo).port}`
  t.match((await found(taken)).slice(-1), [{ what: 'sftp', ok: false, detail: 'is taken by another program' }])
})
