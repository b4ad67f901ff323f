/** Configurations of storages are tried: the driver is opened and closed, and nothing is stored. */
import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { newStorage } from '../../src/database/new-storage.js'
import { StorageTrials } from '../../src/mounts/storage-trials.js'
import { altered, newTree } from '../tree/tree-fixture.js'

/** Trials of the driver `Tried`, which is opened by `open`. */
async function trialsOf(
  t: Test,
  open: (env: DriverEnv) => Promise<Driver>,
  over: Partial<AnyDriverType> = {},
  processes = 1,
) {
  const tree = await newTree(t, { '/disk': {} })
  const tried: AnyDriverType = {
    name: 'Tried',
    fields: {
      token: { type: 'string', singleUse: true },
      size: { type: 'number', required: true, default: 1 },
      key: { type: 'string', required: true },
    },
    open: (_options: never, env: DriverEnv) => open(env),
    ...over,
  }
  const dependencies = { ...tree.supervisor.dependencies, driverTypes: [tried], processes: () => processes }
  const trials = new StorageTrials(dependencies)
  const run = (options: object = { key: 'x' }, { mountPath = '/new', ...rest }: RunOptions = {}) => {
    const row = newStorage({ mountPath: asPath(mountPath), driver: 'Tried', addition: JSON.stringify(options) })
    return trials.run(row, rest)
  }
  return { ...tree, run }
}

interface RunOptions {
  readonly mountPath?: string
  readonly id?: number
  readonly signal?: AbortSignal
}

void t.test('a driver that opens is asked for its root, and closed; nothing is stored', async (t) => {
  const calls: string[] = []
  const envs: DriverEnv[] = []
  const { run, store, mounts } = await trialsOf(t, async (env) => {
    envs.push(env)
    await env.save({ key: 'hidden' })
    await env.state.set('token', 'renewed')
    calls.push(`state ${await env.state.get('token')}`)
    await env.state.exclusively('token', async () => void calls.push('alone'))
    const journal = env.state.journal('changes')
    await journal.adopt(() => calls.push('adopts'))
    await journal.entry().set({ left: true })
    return altered(new MemoryDriver(0), {
      stat: async (path) => {
        calls.push(`stat ${path}`)
        return new MemoryDriver(0).stat(path)
      },
      close: async () => void calls.push('close'),
    })
  })
  const before = await store.storages.all()
  await run()
  t.strictSame(calls, ['state renewed', 'alone', 'stat /', 'close'])
  t.equal(envs[0]?.signal.aborted, true, 'what it does in the background ends')
  t.equal(envs[0]?.instance.isOver('another'), false, 'it removes nothing of earlier runs')
  t.strictSame(await store.storages.all(), before)
  t.notOk(mounts.isMountPoint(asPath('/new')))
  for (const { id } of before) t.equal(await store.driverState.get(id, 'token'), undefined)
})

void t.test('a trial of a stored storage knows what its driver has stored, and changes none of it', async (t) => {
  const seen: (string | undefined)[] = []
  const { run, store, mounts, mount } = await trialsOf(t, async (env) => {
    seen.push(await env.state.get('host key'))
    await env.state.set('host key', undefined)
    seen.push(await env.state.get('host key'))
    return new MemoryDriver(0)
  })
  await mount('/tried', { driver: 'Tried' }).catch(() => undefined)
  const id = mounts.rows().find(({ mountPath }) => mountPath === '/tried')?.id ?? 0
  const other = mounts.rows().find(({ mountPath }) => mountPath === '/disk')?.id ?? 0
  for (const each of [id, other]) await store.driverState.set(each, 'host key', 'SHA256:abc')
  await run({ key: 'x' }, { id })
  await run({ key: 'x' }, { id: other })
  await run()
  t.strictSame(seen, ['SHA256:abc', undefined, undefined, undefined, undefined, undefined], 'not of another driver')
  t.equal(await store.driverState.get(id, 'host key'), 'SHA256:abc')
})

void t.test('a trial fails with the error of the driver, whether it opens or not', async (t) => {
  const denied = new GatewayError('denied', { reason: 'wrong password' })
  const refused = await trialsOf(t, () => Promise.reject(denied))
  await t.rejects(refused.run(), { code: 'denied', reason: 'wrong password' })
  let closed = 0
  const gone = await trialsOf(t, async () =>
    altered(new MemoryDriver(0), {
      stat: () => Promise.reject(new GatewayError('not_found')),
      close: async () => {
        closed++
      },
    }),
  )
  await t.rejects(gone.run(), { code: 'not_found' })
  t.equal(closed, 1)
})

void t.test('what cannot be a storage is refused before the driver is opened', async (t) => {
  const open = () => Promise.reject(new Error('was opened'))
  const { run } = await trialsOf(t, open)
  await t.rejects(run({}), { code: 'invalid', reason: 'the field key is required' })
  await t.rejects(run({ key: 'x', size: 'large' }), { code: 'invalid' })
  await t.rejects(run({ key: 'x' }, { mountPath: '/.tidegate-x' }), { code: 'invalid' })
  await t.rejects(run({ key: 'x', token: 'once' }), { code: 'unsupported', reason: /token can be used once/ })
  const alone = await trialsOf(t, open, { facts: { perProcess: true } }, 2)
  await t.rejects(alone.run(), { code: 'unavailable', reason: /several processes/ })
  await t.rejects((await trialsOf(t, open, { name: 'Other' })).run(), { code: 'invalid', detail: 'driver_unknown' })
})

void t.test('four trials run at once, also those that nobody waits for, and each for half a minute', async (t) => {
  const release: (() => void)[] = []
  let closed = 0
  const { run } = await trialsOf(t, async () => {
    await new Promise<void>((resolve) => void release.push(resolve))
    return altered(new MemoryDriver(0), {
      close: async () => {
        closed++
      },
    })
  })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const left = new AbortController()
  const first = run({ key: 'x' }, { signal: left.signal })
  const others = [2, 3, 4].map(() => run())
  await t.rejects(run(), { code: 'busy' })
  left.abort()
  await t.rejects(first, { code: 'aborted' })
  await t.rejects(run(), { code: 'busy' }, 'the driver is still being opened')
  const late = others.map((each) => t.rejects(each, { code: 'timeout' }))
  mock.timers.tick(30_000)
  await Promise.all(late)
  for (const each of release) each()
  while (closed < 4) await turn()
  const last = run()
  while (release.length < 5) await turn()
  release[4]?.()
  await last
})
