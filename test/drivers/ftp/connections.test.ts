/** The FTP connection pool with fake connections: which caller gets a connection, and when. */
import { once } from 'node:events'
import { FTPError } from 'basic-ftp'
import t from 'tap'
import type { FtpConnection } from '../../../drivers/ftp/connection.js'
import { FtpConnections } from '../../../drivers/ftp/connections.js'
import { GatewayError } from '../../../src/base/errors.js'
import { refuses } from '../../driver-conformance/subject.js'

/** A fake connection. `isSilent`: it does not answer. */
class Fake {
  idleSince = 0
  broken = false
  isSilent = false
  #end: (() => void) | undefined

  close(): void {
    this.broken = true
    this.#end?.()
  }

  async send(): Promise<void> {
    if (this.isSilent && !this.broken) await new Promise<void>((resolve) => (this.#end = resolve))
    if (this.broken) throw new GatewayError('unavailable')
  }
}

/** A pool on a server that accepts this many connections. */
function pool(room: number) {
  const made: Fake[] = []
  const seen = { tries: 0 }
  const connections = new FtpConnections(async (signal) => {
    seen.tries++
    const ignore = () => undefined
    signal.addEventListener('abort', ignore)
    await new Promise((resolve) => setImmediate(resolve))
    signal.removeEventListener('abort', ignore)
    if (made.filter(({ broken }) => !broken).length >= room) {
      throw new GatewayError('unavailable', { cause: new FTPError({ code: 421, message: '421 Too many.' }) })
    }
    const fake = new Fake()
    made.push(fake)
    return fake as unknown as FtpConnection
  })
  return { connections, made, seen }
}

void t.test('FTP pool: a caller that stops waiting does not free a connection', async (t) => {
  const { connections, seen } = pool(1)
  const first = await connections.acquire('ask', undefined)
  for (let tries = 0; tries < 3; tries++) {
    const controller = new AbortController()
    const waiting = connections.acquire('ask', controller.signal)
    setTimeout(() => controller.abort(), 20)
    await refuses(t, () => waiting, 'aborted', 'one too many')
  }
  t.equal(seen.tries, 2, 'the server was asked once for more than it accepts')
  let isHad = false
  const next = connections.acquire('ask', undefined).then((connection) => {
    isHad = true
    return connection
  })
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(seen.tries, 2, 'the server is not asked again')
  t.notOk(isHad)
  connections.release('ask', first)
  t.equal(await next, first)
  connections.close()
})

void t.test('FTP pool: a connection that is released while its waiter aborts is not lost', async (t) => {
  const { connections } = pool(1)
  const first = await connections.acquire('ask', undefined)
  const controller = new AbortController()
  const waiting = connections.acquire('ask', controller.signal)
  await new Promise((resolve) => setTimeout(resolve, 20))
  controller.abort()
  connections.release('ask', first)
  await refuses(t, () => waiting, 'aborted', 'the one that waited')
  t.equal(await connections.acquire('ask', AbortSignal.timeout(1000)), first)
  connections.close()
})

void t.test('FTP pool: a caller can abort while an idle connection is checked', async (t) => {
  const { connections, made } = pool(3)
  const taken = await Promise.all([0, 1, 2].map(() => connections.acquire('ask', undefined)))
  for (const connection of taken) connections.release('ask', connection)
  for (const fake of made) Object.assign(fake, { idleSince: 0, isSilent: true })
  const before = Date.now()
  await refuses(
    t,
    () => connections.acquire('ask', AbortSignal.timeout(50)),
    'aborted',
    'the call that checks a silent connection',
  )
  t.ok(Date.now() - before < 4500, 'before the pool’s own timeout')
  t.equal(made.filter(({ broken }) => broken).length, 1)
  connections.close()
})

void t.test('FTP pool: after one idle connection has failed, the others are replaced without a check', async (t) => {
  const { connections, made } = pool(3)
  const taken = await Promise.all([0, 1, 2].map(() => connections.acquire('ask', undefined)))
  for (const connection of taken) connections.release('ask', connection)
  for (const fake of made) Object.assign(fake, { idleSince: 0, isSilent: true })
  made.at(-1)?.close()
  t.not(await connections.acquire('ask', undefined), undefined)
  t.equal(made.length, 4, 'a new connection')
  t.equal(made.filter(({ broken }) => broken).length, 3, 'the idle connections are closed')
  connections.close()
})

void t.test(
  'FTP pool: a wait for a connection that is about to be released ends with its signal or when the pool closes',
  async (t) => {
    const { connections } = pool(2)
    const first = await connections.acquire('ask', undefined)
    connections.announceRelease(first)
    await refuses(t, () => connections.acquire('ask', AbortSignal.timeout(20)), 'aborted', 'a wait that is aborted')
    const stopped = refuses(
      t,
      () => connections.acquire('ask', undefined),
      'aborted',
      'a wait when the storage is stopped',
    )
    await new Promise((resolve) => setImmediate(resolve))
    connections.close()
    await stopped
  },
)

void t.test('FTP pool: connections that are opened concurrently add no listeners to a common signal', async (t) => {
  const { connections } = pool(32)
  const warned = once(process, 'warning').then(() => true)
  await Promise.all(Array.from({ length: 20 }, () => connections.acquire('ask', undefined)))
  const isWarned = await Promise.race([warned, new Promise((resolve) => setTimeout(resolve, 50, false))])
  t.equal(isWarned, false)
  connections.close()
})
