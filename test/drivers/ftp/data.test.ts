/** Data connections of faulty FTP servers: not accepted, without a TLS handshake, or not closed. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { at, put, refuses, source } from '../../driver-conformance/subject.js'
import { makeCertificate } from '../../servers/certificates.js'
import { startFtpFront, type Fate } from '../../servers/ftp-front.js'
import { startFullPort } from '../../servers/full-port.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'

async function listening(t: Test, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    await once(server.close(), 'close')
  })
  return (server.address() as AddressInfo).port
}

/** Data connections are directed to this port. */
const dataAt = (port: number): Fate => ({ answer: `229 Extended passive mode (|||${port}|)` })

/**
 * A storage whose data connections lead to `data`. `answer` replaces the server's reply to commands that start with
 * `verb`.
 */
async function mountedWithData(t: Test, data: Server, verb: string, answer: string) {
  const server = await started(t, () => startPureFtpd())
  const { path } = await emptyFolder(server)
  const port = await listening(t, data)
  const front = await startFtpFront(server.port, (command) => {
    if (command === 'EPSV') return dataAt(port)
    return command.startsWith(`${verb} `) ? { answer } : 'pass'
  })
  t.teardown(() => front.stop())
  const driver = await open(server, path, { address: `127.0.0.1:${front.port}` })
  t.teardown(() => driver.close?.())
  return { driver, front }
}

/** Timeouts of ten seconds and more run thirty times faster. */
function hurry(t: Test): void {
  const real = globalThis.setTimeout
  const hurried = (work: () => void, wait = 0) => real(work, wait >= 10_000 ? wait / 30 : wait)
  globalThis.setTimeout = Object.assign(hurried, real)
  t.teardown(() => (globalThis.setTimeout = real))
}

void t.test('FTP: an abort ends a call whose data connection is not accepted', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const full = await startFullPort()
  t.teardown(() => full.stop())
  const { path } = await emptyFolder(server)
  const front = await startFtpFront(server.port, (command) => (command === 'EPSV' ? dataAt(full.port) : 'pass'))
  t.teardown(() => front.stop())
  const driver = await open(server, path, { address: `127.0.0.1:${front.port}` })
  t.teardown(() => driver.close?.())
  const before = Date.now()
  const read = (signal: AbortSignal) => driver.read(at('/file'), undefined, { signal })
  await refuses(t, () => read(AbortSignal.timeout(100)), 'aborted', 'a read')
  const list = async (signal: AbortSignal) => driver.pages(at('/'), { signal })[Symbol.asyncIterator]().next()
  await refuses(t, () => list(AbortSignal.timeout(100)), 'aborted', 'a listing')
  t.ok(Date.now() - before < 5000, 'at once')
})

void t.test('FTP: a data connection without a TLS handshake times out', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const { path } = await emptyFolder(server)
  const { certificate, key } = await makeCertificate(t.testdir())
  const [cert, secret] = await Promise.all([readFile(certificate, 'utf8'), readFile(key, 'utf8')])
  const silent = await listening(t, createServer())
  const front = await startFtpFront(
    server.port,
    (command) => {
      if (command === 'EPSV') return dataAt(silent)
      if (/^(PBSZ|PROT) /.test(command)) return { answer: '200 Fine.' }
      return /^(STOR|RETR) /.test(command) ? { answer: '150 Go.' } : 'pass'
    },
    { cert, key: secret },
  )
  t.teardown(() => front.stop())
  const driver = await open(server, path, { address: `ftps://localhost:${front.port}`, ca_certificate: cert })
  t.teardown(() => driver.close?.())
  hurry(t)
  await refuses(t, () => put(driver, '/file', 'x'), 'timeout', 'a write')
  await refuses(t, async () => buffer(await driver.read(at('/file'))), 'timeout', 'a read')
  t.equal((await driver.stat(at('/'))).kind, 'folder', 'the server answers the next call')
})

void t.test('FTP closes a data connection that the server leaves open', { skip }, async (t) => {
  const data = createServer({ allowHalfOpen: true })
  const { driver, front } = await mountedWithData(t, data, 'STOR', '150 Go.')
  const coming = once(data, 'connection') as Promise<[Socket]>
  const writing = refuses(
    t,
    () => driver.write(at('/file'), source('x')),
    'not_found',
    'the written file does not exist',
  )
  const [socket] = await coming
  await once(socket.resume(), 'end')
  front.say('226 Done.')
  await writing
  const closed = new Promise((resolve) => socket.once('close', () => resolve(true)))
  // A closed socket resets the connection when more bytes arrive.
  const timer = setInterval(() => socket.write('x'), 10)
  t.equal(await Promise.race([closed, pause(2000, false)]), true)
  clearInterval(timer)
})

void t.test('FTP: a download whose connection was reset is not complete', { skip }, async (t) => {
  const data = createServer()
  const { driver } = await mountedWithData(t, data, 'RETR', '150 Go.\r\n226 Done.')
  for (let round = 0; round < 20; round++) {
    const coming = once(data, 'connection') as Promise<[Socket]>
    const reading = refuses(t, async () => buffer(await driver.read(at('/file'))), 'unavailable', `round ${round}`)
    const [socket] = await coming
    await pause(10)
    // Both arrive before the client reads the bytes: the reset is reported to it together with the last of them.
    socket.write(Buffer.alloc(10_000))
    socket.resetAndDestroy()
    await reading
  }
})
