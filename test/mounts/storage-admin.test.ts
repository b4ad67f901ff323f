/** Storages of a gateway are added, changed and removed, also concurrently; their configuration is checked. */
import { join } from 'node:path'
import knex from 'knex'
import t, { type Test } from 'tap'
import { cryptType } from '../../drivers/crypt/index.js'
import { memoryType } from '../../drivers/memory/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { configSchema } from '../../src/installation/config.js'
import { Gateway } from '../../src/gateway/gateway.js'
import { checkConfiguration, StorageNotStarted, type StorageConfiguration } from '../../src/mounts/storage-admin.js'
import { createLog } from '../../src/process/log.js'
import { newStorage } from '../../src/database/new-storage.js'
import { protocols } from '../../protocols/index.js'

/** A driver type that counts its open and closed drivers. */
class Observed {
  readonly open: DriverEnv[] = []
  closed = 0
  /** Starts wait for this promise. */
  hold: Promise<void> = Promise.resolve()
  failure: string | undefined

  readonly type: AnyDriverType = {
    name: 'Observed',
    fields: { text: { type: 'string', required: true }, number: { type: 'number', default: 7 } },
    open: async (_options: never, env: DriverEnv): Promise<Driver> => {
      const { failure } = this
      await this.hold
      if (failure !== undefined) throw new GatewayError('unavailable', { reason: failure })
      this.open.push(env)
      const driver: Driver = await memoryType.open({ size_limit: 0, case_sensitive: true }, env)
      driver.close = async () => {
        this.closed++
      }
      return driver
    },
  }
}

async function open(t: Test): Promise<{ gateway: Gateway; observed: Observed }> {
  const observed = new Observed()
  const local: AnyDriverType = {
    name: 'Local',
    fields: {},
    open: () => memoryType.open({ size_limit: 0, case_sensitive: true }, undefined as never),
  }
  const config = { ...configSchema(protocols).parse({}), data: join(t.testdir(), 'data') }
  const log = createLog('silent')
  const gateway = await Gateway.open({
    config,
    log,
    drivers: [local, observed.type],
    protocols,
    admin: { password: 'x' },
  })
  t.teardown(() => gateway.close())
  return { gateway, observed }
}

function configuration(fields: Partial<StorageConfiguration>): StorageConfiguration {
  const {
    status: _status,
    modified: _modified,
    ...rest
  } = newStorage({
    mountPath: asPath('/a'),
    driver: 'Observed',
    addition: '{"text":"x"}',
  })
  return { ...rest, ...fields }
}

void t.test('Gateway.open() closes the storages if a later step fails', async (t) => {
  const observed = new Observed()
  const config = { ...configSchema(protocols).parse({}), data: join(t.testdir(), 'data') }
  const log = createLog('silent')
  const local = { ...observed.type, name: 'Local', fields: {} }
  const begin = () => Gateway.open({ config, log, drivers: [local], protocols, admin: { password: 'x' } })
  const gateway = await begin()
  const [admin] = await gateway.store.users.all()
  const task = await gateway.tasks.add(gateway.accounts.principals.forTask(admin?.id ?? 0), {
    kind: 'offline_download',
    subject: { text: 'download' },
    plan: {},
    totalBytes: 0,
  })
  await gateway.tasks.close()
  await gateway.store.tasks.update({ ...task, plan: 'not JSON' })
  await gateway.close()
  t.same([observed.open.length, observed.closed], [1, 1])
  await t.rejects(begin(), { code: 'internal', reason: /plan of this task/ })
  t.same([observed.open.length, observed.closed], [2, 2])
})

void t.test('checkConfiguration() cleans the mount path and adds the default options', async (t) => {
  const types = [new Observed().type]
  const checked = checkConfiguration(configuration({ mountPath: 'a//b/', addition: '{"text":"x","other":1}' }), types)
  t.equal(checked.mountPath, '/a/b')
  t.strictSame(JSON.parse(checked.addition), { text: 'x', other: 1, number: 7 })
  t.equal(
    checkConfiguration(configuration({ addition: '{}' }), types).addition,
    '{}',
    'options that lack a required field are left unchanged',
  )
  for (const faulty of [
    { driver: 'Nothing' },
    { mountPath: '/../x' },
    { mountPath: '/x\u0001' },
    { mountPath: '/.tidegate-x' },
    { cacheExpiration: -1 },
  ]) {
    t.throws(() => checkConfiguration(configuration(faulty), types), { code: 'invalid' }, JSON.stringify(faulty))
  }
})

void t.test(
  'checkConfiguration() stores a boolean as text for an option whose values are true and false',
  async (t) => {
    const addition = JSON.stringify({ remote_path: '/kept', password: 'secret', directory_name_encryption: true })
    const checked = checkConfiguration(configuration({ driver: 'Crypt', addition }), [cryptType])
    t.match(JSON.parse(checked.addition), { directory_name_encryption: 'true', encrypted_suffix: '.bin' })
  },
)

void t.test('a storage can be added or removed while another one starts', async (t) => {
  const { gateway, observed } = await open(t)
  const { storages } = gateway
  let release: () => void = () => undefined
  observed.hold = new Promise((resolve) => (release = resolve))
  const slow = t.rejects(storages.create(configuration({ mountPath: '/slow' })), {
    code: 'unavailable',
    reason: 'the storage was removed meanwhile',
  })
  await storages.create(configuration({ mountPath: '/quick', driver: 'Local' }))
  const row = storages.list().find(({ mountPath }) => mountPath === '/slow')
  await storages.delete(row?.id ?? 0)
  t.notOk(storages.list().some(({ mountPath }) => mountPath === '/slow'))
  release()
  await slow
  t.equal(observed.closed, 1, 'the driver that opened too late is closed')
})

void t.test('concurrent changes of one storage leave one open driver, mounted as stored', async (t) => {
  const { gateway, observed } = await open(t)
  const { storages, store } = gateway
  const { id } = await storages.create(configuration({}))
  await Promise.all(['/b', '/c', '/d'].map((mountPath) => storages.update(id, configuration({ mountPath }))))
  const stored = (await store.storages.all()).find((row) => row.id === id)
  t.equal(storages.get(id)?.mountPath, stored?.mountPath)
  t.equal(stored?.status, 'work')
  t.equal(observed.open.length - observed.closed, 1, 'all others are closed')
  const running = observed.open.filter((env) => !env.signal.aborted)
  t.equal(running.length, 1)
})

void t.test('a driver that was replaced can no longer store options', async (t) => {
  const { gateway, observed } = await open(t)
  const { storages, store } = gateway
  const { id } = await storages.create(configuration({}))
  await observed.open[0]?.save({ token: 'first' })
  t.match(JSON.parse(storages.get(id)?.addition ?? ''), { text: 'x', token: 'first' })
  await storages.update(id, configuration({ addition: '{"text":"new"}' }))
  await observed.open[0]?.save({ token: 'late' })
  const [, row] = await store.storages.all()
  t.strictSame(JSON.parse(row?.addition ?? ''), { text: 'new', number: 7 })
})

void t.test('properties of files are moved and deleted with their storage', async (t) => {
  const { gateway } = await open(t)
  const { storages, store } = gateway
  const color = { namespace: 'x', name: 'color', value: 'red', language: '' }
  const { id } = await storages.create(configuration({}))
  await store.properties.change(asPath('/a/file'), [{ set: color }])
  await storages.update(id, configuration({ mountPath: '/b' }))
  t.match(await store.properties.of(asPath('/b/file')), [color])

  const inner = await storages.create(configuration({ mountPath: '/b/inner' }))
  await store.properties.change(asPath('/b/inner/file'), [{ set: color }])
  await storages.delete(id)
  t.match(await store.properties.of(asPath('/b/inner/file')), [color], 'properties of another storage remain')
  await storages.delete(inner.id)
  t.strictSame(await store.properties.of(asPath('/b/inner/file')), [])
})

void t.test('the path of a storage and the metadata of its files change together or not at all', async (t) => {
  const { gateway } = await open(t)
  const { storages, store } = gateway
  const [from, to] = [asPath('/a/file'), asPath('/b/file')]
  const color = { namespace: 'x', name: 'color', value: 'red', language: '' }
  const { id } = await storages.create(configuration({}))
  await store.properties.change(from, [{ set: color }])
  await store.attributes.set(from, { mode: 0o600 })
  await store.folders.put(from, new Date(1000))
  const connection = { filename: join(gateway.config.data, 'data.db') }
  const database = knex({ client: 'sqlite3', connection, useNullAsDefault: true })
  t.teardown(() => database.destroy())
  // The table is written last.
  await database.raw('alter table folders rename to folders_away')
  await t.rejects(storages.update(id, configuration({ mountPath: '/b' })))
  await database.raw('alter table folders_away rename to folders')
  t.equal((await store.storages.all()).find((row) => row.id === id)?.mountPath, '/a')
  t.equal(storages.get(id)?.mountPath, '/a')
  t.match(await store.properties.of(from), [color])
  t.same(await store.attributes.of(from), { modified: undefined, mode: 0o600 })
  await storages.update(id, configuration({ mountPath: '/b' }))
  t.match(await store.properties.of(to), [color])
  t.same(await store.attributes.of(to), { modified: undefined, mode: 0o600 })
  t.same(await store.folders.of(to), new Date(1000))
  t.equal(await store.folders.of(from), undefined)
})

void t.test('a storage that does not start is reported with its id and reason', async (t) => {
  const { gateway, observed } = await open(t)
  const { storages } = gateway
  observed.failure = 'no <answer>'
  const error: unknown = await storages.create(configuration({})).catch((thrown: unknown) => thrown)
  if (!(error instanceof StorageNotStarted)) throw new Error('it started')
  t.match(storages.get(error.id), { status: 'no <answer>', mountPath: '/a' })
  await storages.restartAll()
  observed.failure = undefined
  await storages.restartAll()
  t.match(storages.get(error.id), { status: 'work' })
  await storages.disable(error.id)
  await t.rejects(storages.disable(error.id), { code: 'invalid' })
  t.match(storages.get(error.id), { status: 'disabled', disabled: true })
})
