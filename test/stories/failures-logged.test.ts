/**
 * The log names the cause of a failure of a storage, whichever protocol or task meets it; the clients do not see it.
 */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'
import { flaky } from '../drivers/flaky.js'
import { startGateway } from '../gateway.js'
import { altered, bare } from '../tree/tree-fixture.js'
import { connectAll } from './protocols.js'
import { connect, ended } from './task-client.js'

/** Storages whose listings and writes fail. */
const causes: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  Disk: ['unavailable', 'EIO'],
  Unreachable: ['unavailable', 'ECONNREFUSED'],
  Broken: ['internal', 'ERR_INVALID_ARG_TYPE'],
  Refusing: ['denied', 'AccessDenied'],
  Full: ['no_space', 'ENOSPC'],
}

const driverTypes: readonly AnyDriverType[] = Object.entries(causes).map(([name, [code, systemCode]]) => {
  const open = async () => {
    const cause = Object.assign(new Error(`the cause at /srv/${name}`), { code: systemCode })
    const fault = { kind: 'fail', error: new GatewayError(code, { cause }) } as const
    const plan = [
      { method: 'pages', fault },
      { method: 'write', fault },
    ] as const
    return flaky(altered(new MemoryDriver(0), bare), plan).driver
  }
  return { name, fields: {}, open }
})

type Line = Record<string, unknown>

/** A log, and its warnings and errors. */
function recorded(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = []
  const logOf = (fields: object): Log => {
    const add = (level: string) => (details: object, message: string) => {
      if (level !== 'info' && level !== 'debug') lines.push({ level, ...fields, ...details, message })
    }
    const methods = { debug: add('debug'), info: add('info'), warn: add('warn'), error: add('error') }
    return { ...methods, child: (more) => logOf({ ...fields, ...more }) }
  }
  return { log: logOf({}), lines }
}

void t.test('failures of storages are in the log, of every protocol and of tasks', async (t) => {
  const { log, lines } = recorded()
  const running = await startGateway(t, { driverTypes, log })
  const { gateway, adminPassword: password } = running
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  const mount = (mountPath: string, driver: string) =>
    gateway.storages.create({ ...like, mountPath, driver, addition: '{}' })
  const clients = await connectAll(running, { username: 'admin', password })
  t.teardown(() => Promise.all(clients.map((client) => client.close())))

  for (const [driver, [code, systemCode]] of Object.entries(causes)) {
    for (const client of clients) {
      const mountPath = `/${client.protocol} ${driver}`
      await mount(mountPath, driver)
      lines.length = 0
      t.notMatch(JSON.stringify(await client.names(mountPath)), /cause|srv/)
      const expected =
        code === 'internal'
          ? {
              level: 'error',
              user: 'admin',
              protocol: client.protocol,
              storage: mountPath,
              err: { code: systemCode },
              message: /^list: .*: internal error$/,
            }
          : { level: 'warn', storage: mountPath, code, cause: { code: systemCode }, message: `list: ${mountPath}: ` }
      t.match(lines, [expected], `${driver} over ${client.protocol}`)
      t.equal(lines.length, 1)
    }
  }

  await mount('/task', 'Full')
  lines.length = 0
  await clients[0]?.put('/file', Buffer.from('abc'))
  const tasks = await connect(running)
  await tasks.post('/api/fs/copy', { src_dir: '/', dst_dir: '/task', names: ['file'] })
  t.match(await ended(tasks, 'copy'), [{ error: /no space left/ }])
  const ofStorage = lines.filter(({ storage }) => storage === '/task')
  t.match(ofStorage, [{ level: 'warn', cause: { code: 'ENOSPC' }, message: /^write: \/task\/file/ }])
  t.equal(ofStorage.length, 1)
})

void t.test('an unexpected error in the middle of a file that is sent has one line in the log', async (t) => {
  const { log, lines } = recorded()
  const unexpected = new TypeError('the cause')
  const open = async () => {
    const driver = altered(new MemoryDriver(0), bare)
    return flaky(driver, [{ method: 'read', fault: { kind: 'cut', after: 100_000, error: unexpected } }]).driver
  }
  const running = await startGateway(t, { driverTypes: [{ name: 'Streamed', fields: {}, open }], log })
  const { gateway, adminPassword: password } = running
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  await gateway.storages.create({ ...like, mountPath: '/s', driver: 'Streamed', addition: '{}' })
  const clients = await connectAll(running, { username: 'admin', password })
  t.teardown(() => Promise.all(clients.map((client) => client.close())))
  await clients[0]?.put('/s/file', Buffer.alloc(300_000))
  lines.length = 0
  for (const client of clients) {
    const isSent = await client.get('/s/file').then(
      (content) => Buffer.isBuffer(content),
      () => false,
    )
    t.notOk(isSent, client.protocol)
    // A download is authorized by the signature of its URL.
    const user = client.protocol === 'http' ? '' : 'admin'
    const line = { level: 'error', user, protocol: client.protocol, storage: '/s', err: unexpected }
    t.match(lines, [{ ...line, message: 'read: /s/file: internal error' }], client.protocol)
    t.equal(lines.length, 1)
    lines.length = 0
  }
})

void t.test('a storage that does not start has one line in the log, in the form of other failures', async (t) => {
  const { log, lines } = recorded()
  const unexpected = new TypeError('x of undefined')
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', password: 'secret' })
  const failing = (name: string, error: Error): AnyDriverType => ({
    name,
    fields: {},
    open: () => Promise.reject(error),
  })
  const failures = [
    failing('Unreachable', new GatewayError('unavailable', { reason: 'no answer', cause: refused })),
    failing('Broken', unexpected),
  ]
  const { gateway } = await startGateway(t, { driverTypes: failures, log })
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  for (const { name } of failures) {
    lines.length = 0
    const mountPath = `/${name}`
    await t.rejects(gateway.storages.create({ ...like, mountPath, driver: name, addition: '{}' }), {
      code: 'unavailable',
    })
    t.strictSame(lines, [
      name === 'Broken'
        ? { level: 'error', storage: mountPath, err: unexpected, message: `start: ${mountPath}: internal error` }
        : {
            level: 'warn',
            storage: mountPath,
            code: 'unavailable',
            cause: { name: 'Error', code: 'ECONNREFUSED', message: 'connect ECONNREFUSED' },
            message: `start: ${mountPath}: no answer`,
          },
    ])
  }
})
