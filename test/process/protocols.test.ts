/**
 * What a protocol gets by one entry in the list of protocols: addresses, users, rules, and a stop that waits for it.
 */
import { once } from 'node:events'
import { createServer, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { mock } from 'node:test'
import { setImmediate as turn, setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { protocols as usual } from '../../protocols/index.js'
import { listen } from '../../protocols/lib/listen.js'
import type { Protocol } from '../../protocols/lib/protocol.js'
import { toGatewayError } from '../../src/base/errors.js'
import { asPath, cleanPath } from '../../src/base/path.js'
import { listenAddresses, loadConfig } from '../../src/installation/config.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { splitAddress } from '../../src/net/addresses.js'
import { startDaemon } from '../../src/process/daemon.js'
import { createLog } from '../../src/process/log.js'
import { ruleRow } from '../database/store-rows.js'
import { sourceOf } from '../tree/tree-fixture.js'

/** Sends the file of each line `USER PASSWORD PATH`, or the code of the error, and closes the connection. */
const line: Protocol = {
  name: 'line',
  appPasswords: true,
  listen: { default: '127.0.0.1:5999', description: 'address of the line protocol, or "off"', optional: true },
  async server({ opening }, address) {
    const gateway = await opening
    const sockets = new Set<Socket>()
    const server = createServer((socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket)).on('error', () => undefined)
      void answer(gateway, socket).catch((error: unknown) => socket.end(toGatewayError(error).code))
    })
    return {
      connections: () => [],
      start: () => listen(server, address),
      async stop(signal) {
        const closed = once(server.close(), 'close')
        signal.addEventListener('abort', () => sockets.forEach((socket) => socket.destroy()))
        await closed
      },
    }
  },
}

async function answer(gateway: ProtocolGateway, socket: Socket): Promise<void> {
  const [asked = ''] = (await once(createInterface(socket), 'line')) as string[]
  const [username = '', plain = '', path = ''] = asked.split(' ')
  const principal = await gateway.accounts.signIn.byPassword(
    { username, password: { plain }, address: socket.remoteAddress ?? '' },
    line,
  )
  await pipeline(await gateway.as(principal).read(cleanPath(path)), socket)
}

/** Greets below its path of the HTTP address. */
const greeting: Protocol = {
  name: 'greeting',
  appPasswords: false,
  path: '/greeting',
  handler: async () => (request, response) => response.end(`hello from ${request.url}`),
}

const all = [...usual, line, greeting]
const addressNames = [...listenAddresses(all).keys()]
const addresses = { http: '127.0.0.1:0', sftp: 'off', line: '127.0.0.1:0' }

async function start(t: Test, protocols: readonly Protocol[] = all) {
  const flags = { data: join(t.testdir(), 'data'), ...addresses }
  const config = await loadConfig({ flags, environment: {}, protocols })
  const daemon = await startDaemon(
    { ...config, site_url: '/site' },
    createLog('silent'),
    { password: 'tide' },
    { protocols },
  )
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= daemon.stop())
  t.teardown(stop)
  const { gateway } = daemon
  const fs = gateway.as(gateway.accounts.principals.forTask(gateway.accounts.users.byName('admin')?.id ?? 0))
  for (const path of ['/open.txt', '/closed/file.txt']) {
    if (path.startsWith('/closed')) await fs.mkdir(asPath('/closed'))
    await fs.write(asPath(path), sourceOf(`content of ${path}`))
  }
  const dial = () => connect(splitAddress(daemon.addresses.line ?? ''))
  const ask = async (asked: string) => {
    const socket = dial()
    socket.write(`${asked}\n`)
    return text(socket)
  }
  return { ...daemon, stop, dial, ask }
}

void t.test('its address is a key, a flag and a variable, and one of the bound addresses', async (t) => {
  const load = async (flags: object, environment: Record<string, string>) =>
    (await loadConfig({ flags: { ...flags }, environment, protocols: all })).addresses
  t.same(Object.keys(await load({}, {})), addressNames)
  t.match(await load({}, {}), { http: '0.0.0.0:5244', https: 'off', sftp: '0.0.0.0:5222', line: '127.0.0.1:5999' })
  t.match(await load({}, { TIDEGATE_LINE: '1.1.1.1:1' }), { line: '1.1.1.1:1' })
  t.match(await load({ line: 'off' }, { TIDEGATE_LINE: '1.1.1.1:1' }), { line: 'off' })
  const config = join(t.testdir({ 'tidegate.json': '{ "line": "2.2.2.2:2" }' }), 'tidegate.json')
  t.match(await load({ config }, {}), { line: '2.2.2.2:2' })
  await t.rejects(loadConfig({ flags: { config }, environment: {}, protocols: usual }), { code: 'invalid' })

  const daemon = await start(t)
  t.match(daemon.addresses.line, /^127\.0\.0\.1:[1-9]\d*$/)
  t.same(Object.keys(daemon.addresses), addressNames)
})

void t.test('its users, their app passwords and the rules of the tree are those of every protocol', async (t) => {
  const { ask, gateway } = await start(t)
  t.equal(await ask('admin tide /open.txt'), 'content of /open.txt')
  t.equal(await ask('admin wrong /open.txt'), 'unauthenticated')
  t.equal(await ask('admin tide /none'), 'not_found')
  const { id } = await gateway.accounts.users.create({
    ...{ username: 'ann', password: 'secret', basePath: '/', role: 'general', permission: 0 },
    ...{ disabled: false, ssoId: '' },
  })
  await gateway.rules.create(ruleRow({ path: asPath('/closed'), password: 'sesame', passwordSub: true }))
  t.equal(await ask('ann secret /open.txt'), 'content of /open.txt')
  t.equal(await ask('ann secret /closed/file.txt'), 'password_required')
  const add = async (...protocols: string[]) =>
    (await gateway.accounts.appPasswords.add(id, { name: protocols.join(), protocols, readOnly: true })).password
  t.equal(await ask(`ann ${await add('line')} /open.txt`), 'content of /open.txt')
  t.equal(await ask(`ann ${await add('sftp')} /open.txt`), 'denied')
})

void t.test('an app password is for it too, unless others are selected', async (t) => {
  const { addresses, gateway } = await start(t)
  const accepting = all.filter(({ appPasswords }) => appPasswords).map(({ name }) => name)
  const headers = { Authorization: gateway.settings.get('token'), 'Content-Type': 'application/json' }
  const add = async (fields: object) => {
    const url = `http://${addresses.http}/site/api/me/app_password/add`
    const body = JSON.stringify({ name: JSON.stringify(fields), ...fields })
    return (await fetch(url, { method: 'POST', headers, body })).json()
  }
  t.match(await add({}), { code: 200, data: { protocols: accepting } })
  t.match(await add({ protocols: ['line'] }), { code: 200, data: { protocols: ['line'] } })
  t.match(await add({ protocols: ['greeting'] }), { code: 400, message: new RegExp(`${accepting.join(', ')}$`) })
})

void t.test('one without an address answers below its path of the HTTP address', async (t) => {
  const { addresses } = await start(t)
  const response = await fetch(`http://${addresses.http}/site/greeting/ann`)
  t.equal(await response.text(), 'hello from /site/greeting/ann')
})

void t.test('a stop waits for its connections and accepts no others, even if another protocol fails', async (t) => {
  const failing: Protocol = {
    ...{ name: 'failing', appPasswords: false },
    listen: { default: '127.0.0.1:5997', description: 'address of the failing protocol, or "off"', optional: true },
    server: async () => ({
      connections: () => [],
      start: async () => '127.0.0.1:1',
      stop: () => Promise.reject(new Error('cannot stop')),
    }),
  }
  const { dial, ask, stop } = await start(t, [...all, failing])
  const open = dial()
  await once(open, 'connect')
  open.write('admin tide ')
  t.equal(await ask('admin tide /open.txt'), 'content of /open.txt', 'the first connection is accepted')
  const stopped = stop()
  const refused = async () => {
    const socket = dial()
    try {
      await once(socket, 'connect')
      return false
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
    } finally {
      socket.destroy()
    }
  }
  while (!(await refused())) await wait(10)
  open.write('/open.txt\n')
  t.equal(await text(open), 'content of /open.txt')
  await stopped
})

void t.test('a protocol that does not close its connections does not prevent the stop', async (t) => {
  const stuck: Protocol = {
    ...{ name: 'stuck', appPasswords: false },
    listen: { default: '127.0.0.1:5998', description: 'address of the stuck protocol, or "off"', optional: true },
    server: async () => ({
      connections: () => [],
      start: async () => '127.0.0.1:1',
      stop: () => new Promise<never>(() => undefined),
    }),
  }
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { stop } = await start(t, [...all, stuck])
  const stopped = stop()
  while (!(await Promise.race([stopped.then(() => true), turn(false)]))) mock.timers.tick(1000)
  t.pass('it stopped')
})
