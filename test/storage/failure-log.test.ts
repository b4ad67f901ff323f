/** The log lines about the failures of a backend. */
import { mock } from 'node:test'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { logInternal, type DriverLog } from '../../src/base/log.js'
import { asPath } from '../../src/base/path.js'
import { flaky, type Planned } from '../drivers/flaky.js'
import { altered, sourceOf } from '../tree/tree-fixture.js'
import { newGuardedDriver } from './new-guarded-driver.js'

const x = asPath('/x')

/** A driver of a storage at `/mnt`, with a file `/x` of three bytes, that fails as planned, and the lines about it. */
async function failing(plan: readonly Planned[], inner: Driver = new MemoryDriver(0)) {
  await inner.write?.(x, sourceOf('abc'))
  const lines: object[] = []
  const log = { warn: (details: object, message: string) => lines.push({ ...details, message }) }
  const { driver } = flaky(inner, plan)
  return {
    driver: newGuardedDriver(driver, {}, log),
    lines,
  }
}

const system = (code: string, message: string) => Object.assign(new Error(message), { code, password: 'secret' })
const error = (code: ErrorCode, cause?: unknown) => new GatewayError(code, { reason: 'for clients', cause })

/** Sets the clock. */
function clock(t: Test): (milliseconds: number) => void {
  let now = 0
  const { mock: mocked } = mock.method(performance, 'now', () => now)
  t.teardown(() => mocked.restore())
  return (milliseconds) => (now = milliseconds)
}

const failures = [
  { what: 'a disk error', code: 'unavailable', cause: system('EIO', 'EIO: i/o error, read') },
  { what: 'an unreachable backend', code: 'unavailable', cause: system('ECONNREFUSED', 'connect ECONNREFUSED') },
  { what: 'a timeout', code: 'timeout', cause: system('ETIMEDOUT', 'connect ETIMEDOUT') },
  { what: 'a full disk', code: 'no_space', cause: system('ENOSPC', 'ENOSPC: no space left on device, write') },
  { what: 'a refusal of the credentials', code: 'denied', cause: system('530', '530 Login incorrect') },
] as const

for (const { what, code, cause } of failures) {
  void t.test(`${what} is logged with the operation, the path and the cause`, async (t) => {
    const nested = error(code, error(code, cause))
    const { driver, lines } = await failing([{ method: 'stat', fault: { kind: 'fail', error: nested } }])
    const detail = code === 'denied' ? 'storage_refused' : undefined
    await t.rejects(driver.stat(x), {
      name: 'GatewayError',
      message: nested.message,
      code,
      detail,
      cause: nested.cause,
    })
    const { name, message } = cause
    t.strictSame(lines, [
      {
        code,
        cause: { name, code: cause.code, message },
        suppressed: undefined,
        message: 'stat: /mnt/x: for clients',
      },
    ])
  })
}

void t.test('a refusal that names no cause is logged, and the calls of a handle report one, too', async (t) => {
  const known = new GatewayError('denied', { detail: 'storage_refused', reason: 'for clients' })
  const { driver, lines } = await failing([{ method: 'stat', fault: { kind: 'fail', error: known } }])
  await t.rejects(driver.stat(x), known)
  t.match(lines, [{ code: 'denied', message: 'stat: /mnt/x: for clients' }])

  const refusing = new MemoryDriver(0)
  const { driver: ofHandle } = await failing([], refusing)
  refusing.open = async () => ({
    entry: await refusing.stat(x),
    read: () => Promise.reject(error('denied', system('EACCES', 'read'))),
    close: () => Promise.resolve(),
  })
  const file = await ofHandle.open(x, 'read')
  await t.rejects(file.read(Buffer.alloc(1), 0), { code: 'denied', detail: 'storage_refused', reason: 'for clients' })
})

for (const code of ['not_found', 'denied', 'busy', 'aborted', 'internal'] as const) {
  void t.test(`${code} is not logged as a failure of the backend`, async (t) => {
    const { driver, lines } = await failing([{ method: 'stat', fault: { kind: 'fail', error: error(code) } }])
    await t.rejects(driver.stat(x), { code })
    t.same(lines, [])
  })
}

void t.test('the line about an unexpected error has the operation, the path, the cause and the storage', async (t) => {
  const unexpected = new TypeError('x of undefined')
  const { driver, lines } = await failing([{ method: 'stat', fault: { kind: 'fail', error: unexpected } }])
  await t.rejects(driver.stat(x), unexpected)
  const outer = newGuardedDriver(
    altered(driver, { stat: () => Promise.reject(unexpected) }),
    {},
    {} as DriverLog,
    '/crypt',
  )
  await t.rejects(outer.stat(x), unexpected)
  const log = { error: (details: object, message: string) => lines.push({ ...details, message }) }
  logInternal(log as unknown as DriverLog, toGatewayError(unexpected).at('stat', '/home/x'), { user: 'ada' })
  t.strictSame(lines, [{ user: 'ada', storage: '/mnt', err: unexpected, message: 'stat: /home/x: internal error' }])
})

void t.test('a thousand failures in a row write one line, and the next minute another with their number', async (t) => {
  const setClock = clock(t)
  const { driver, lines } = await failing([{ method: 'stat', fault: { kind: 'fail' } }])
  for (let times = 0; times < 1000; times++) await t.rejects(driver.stat(x))
  t.equal(lines.length, 1)
  setClock(59_999)
  await t.rejects(driver.stat(x))
  t.equal(lines.length, 1)
  setClock(60_000)
  await t.rejects(driver.stat(x))
  t.match(lines, [{ suppressed: undefined }, { suppressed: 1000 }])
  t.equal(lines.length, 2)
})

void t.test('each code has its own line', async (t) => {
  const { driver, lines } = await failing([
    { method: 'stat', fault: { kind: 'fail', error: error('timeout') } },
    { method: 'pages', fault: { kind: 'fail', error: error('unavailable') } },
    { method: 'mkdir', fault: { kind: 'fail', error: error('unavailable') } },
  ])
  await t.rejects(driver.stat(x))
  await t.rejects(driver.pages(asPath('/'))[Symbol.asyncIterator]().next())
  await t.rejects(driver.mkdir(x))
  t.match(lines, [{ code: 'timeout' }, { code: 'unavailable', message: 'list: /mnt: for clients' }])
  t.equal(lines.length, 2)
})

void t.test('the call of a driver has the name of the operation that users see', async (t) => {
  const { driver, lines } = await failing([
    { method: 'mkdir', fault: { kind: 'fail', error: error('unavailable') } },
    { method: 'removeTree', fault: { kind: 'fail', error: error('timeout') } },
    { method: 'setAttributes', fault: { kind: 'fail', error: error('no_space') } },
  ])
  await t.rejects(driver.mkdir(x))
  await t.rejects(driver.removeTree(x))
  await t.rejects(driver.setAttributes(x, {}))
  t.match(lines, [
    { message: 'make folder: /mnt/x: for clients' },
    { message: 'remove: /mnt/x: for clients' },
    { message: 'set attributes: /mnt/x: for clients' },
  ])
})

void t.test('a failure in the middle of a stream, and of a handle, is logged', async (t) => {
  const cut = { kind: 'cut', after: 1, error: error('unavailable', system('EIO', 'read')) } as const
  const ofStream = await failing([{ method: 'read', fault: cut }])
  await t.rejects(buffer(await ofStream.driver.read(x)))
  t.match(ofStream.lines, [{ cause: { code: 'EIO' }, message: 'read: /mnt/x: for clients' }])

  const { driver, lines } = await failing(
    [],
    new (class extends MemoryDriver {
      override async open(...args: Parameters<MemoryDriver['open']>) {
        return {
          ...(await super.open(...args)),
          read: () => Promise.reject(error('timeout')),
          close: () => Promise.resolve(),
        }
      }
    })(0),
  )
  const file = await driver.open(x, 'read')
  await t.rejects(file.read(Buffer.alloc(1), 0))
  t.match(lines, [{ message: 'read: /mnt/x: for clients' }])
})

void t.test('a failure of the body is not one of the backend that receives it', async (t) => {
  const { driver, lines } = await failing([])
  const fails = () => Promise.reject(error('unavailable'))
  await t.rejects(driver.write(x, sourceOf('', { read: fails })), { code: 'unavailable' })
  const body: Readable = new Readable({ read: () => body.destroy(error('timeout')) })
  await t.rejects(driver.write(x, sourceOf('', { read: async () => body })), { code: 'timeout' })
  t.same(lines, [])
})
