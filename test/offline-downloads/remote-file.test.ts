/** Files of web servers that break off, change their content, send wrong lengths, redirect, or never end. */
import { randomBytes } from 'node:crypto'
import type { LookupAddress } from 'node:dns'
import type { ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { GatewayError } from '../../src/base/errors.js'
import { RemoteFile, type RemoteOptions } from '../../src/offline-downloads/remote-file.js'
import { EgressGuard } from '../../src/net/egress.js'
import { rangeStart, startScripted } from './scripted-server.js'

// These tests spend most of their time waiting, each for its own server.
t.jobs = 4

const content = randomBytes(300_000)
const loopback = new EgressGuard(() => '127.0.0.0/8')
const usual: Omit<RemoteOptions, 'signal'> = { egress: loopback, limit: Infinity, timeout: 10_000 }

function opened(address: string, options: Partial<RemoteOptions> = {}): Promise<RemoteFile> {
  return RemoteFile.open(address, { ...usual, signal: new AbortController().signal, ...options })
}

async function fetched(address: string, options: Partial<RemoteOptions> = {}): Promise<Buffer> {
  const file = await opened(address, options)
  return buffer(await file.source.read())
}

/** Sends so many bytes of the rest, and destroys the connection if that is not all of it. */
function sendPart(answer: ServerResponse, from: number, bytes: number, headers: object): void {
  const part = content.subarray(from, from + bytes)
  const length = content.length - from
  const range = from > 0 ? { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` } : {}
  answer.writeHead(from > 0 ? 206 : 200, { 'content-length': length, ...range, ...headers })
  answer.write(part, () => {
    if (part.length === length) answer.end()
    else setTimeout(() => answer.destroy(), 50)
  })
}

void t.test('a file has the name, size and bytes that the server sends', async (t) => {
  const server = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': content.length, 'content-disposition': 'attachment; filename="x.bin"' })
    answer.end(content)
  })
  const file = await opened(`${server.url}/other`)
  t.equal(file.name, 'x.bin')
  t.equal(file.size, content.length)
  t.ok((await buffer(await file.source.read())).equals(content))
})

void t.test('a file without Content-Length is complete when its body ends', async (t) => {
  const server = await startScripted(t, (_request, answer) => {
    answer.flushHeaders()
    answer.end(content)
  })
  const file = await opened(server.url)
  t.equal(file.size, undefined)
  t.ok((await buffer(await file.source.read())).equals(content))
})

void t.test('a broken connection is resumed at the offset where it broke', async (t) => {
  const server = await startScripted(t, (request, answer, turn) => {
    sendPart(answer, rangeStart(request), turn < 4 ? 80_000 : content.length, { etag: '"one"' })
  })
  t.ok((await fetched(server.url)).equals(content))
  t.match(server.asked, [{}, { ifRange: '"one"' }, { ifRange: '"one"' }, { ifRange: '"one"' }])
  t.ok(server.asked.slice(1).every(({ range }) => /^bytes=[1-9]\d*-$/.test(range ?? '')))
})

void t.test('a Last-Modified that is old enough serves as validator of a resumed request', async (t) => {
  const modified = new Date(Date.now() - 60_000).toUTCString()
  const server = await startScripted(t, (request, answer, turn) => {
    sendPart(answer, rangeStart(request), turn < 2 ? 80_000 : content.length, { 'last-modified': modified })
  })
  t.ok((await fetched(server.url)).equals(content))
  t.equal(server.asked[1]?.ifRange, modified)
})

void t.test('if the server ignores ranges, the bytes already received are skipped', async (t) => {
  const server = await startScripted(t, (_request, answer, turn) => {
    sendPart(answer, 0, turn < 3 ? 80_000 * turn : content.length, { etag: '"one"' })
  })
  t.ok((await fetched(server.url)).equals(content))
  t.equal(server.asked.length, 3)
})

void t.test('parts of two versions of a file are never combined', async (t) => {
  const changed = await startScripted(t, (_request, answer, turn) => {
    if (turn === 1) sendPart(answer, 0, 80_000, { etag: '"one"' })
    else answer.writeHead(200, { etag: '"two"' }).end(content)
  })
  await t.rejects(fetched(changed.url), { code: 'unavailable', reason: 'the file changed while it was fetched' })
  const ignorant = await startScripted(t, (request, answer, turn) => {
    sendPart(answer, rangeStart(request), 80_000, { etag: turn === 1 ? '"one"' : '"two"' })
  })
  await t.rejects(fetched(ignorant.url), { code: 'unavailable', reason: 'the file changed while it was fetched' })
  const wrong = await startScripted(t, (request, answer, turn) => {
    sendPart(answer, turn === 1 ? 0 : rangeStart(request) - 1, 80_000, { etag: '"one"' })
  })
  await t.rejects(fetched(wrong.url), { code: 'unavailable', reason: 'the file changed while it was fetched' })
  for (const headers of [{}, { etag: 'W/"weak"' }, { 'last-modified': new Date(Date.now() + 5000).toUTCString() }]) {
    const mute = await startScripted(t, (_request, answer) => sendPart(answer, 0, 80_000, headers))
    await t.rejects(fetched(mute.url), {
      code: 'unavailable',
      reason: /^the server announced 300000 bytes and sent \d+$/,
    })
    t.equal(mute.asked.length, 1, 'without a strong validator the download is not resumed')
  }
})

void t.test('a wrong Content-Length is reported', async (t) => {
  const more = await startScripted(t, (request, answer) => {
    const from = rangeStart(request)
    if (from > 0) answer.writeHead(416, { 'content-range': `bytes */${content.length}` }).end()
    else {
      answer.writeHead(200, { 'content-length': 10_000_000, etag: '"one"' })
      answer.write(content, () => setTimeout(() => answer.destroy(), 50))
    }
  })
  const announced = { code: 'unavailable', reason: 'the server announced 10000000 bytes and sent 300000' }
  await t.rejects(fetched(more.url), announced)
  const silent = await startScripted(t, (request, answer) => {
    answer.writeHead(rangeStart(request) > 0 ? 503 : 200, { 'content-length': 10_000_000, etag: '"one"' })
    answer.write(content, () => setTimeout(() => answer.destroy(), 50))
  })
  await t.rejects(fetched(silent.url), { code: 'unavailable' })
  const less = await startScripted(t, (_request, answer) => {
    answer.socket?.end(`HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n${'x'.repeat(5000)}`)
  })
  t.equal((await fetched(less.url)).length, 1000, 'bytes after the announced length are ignored')
  const nonsense = await startScripted(t, (_request, answer) => {
    answer.socket?.end('HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nx')
  })
  await t.rejects(fetched(nonsense.url), { code: 'invalid' })
})

void t.test('a body that never ends is cut off at the limit', async (t) => {
  const server = await startScripted(t, (_request, answer) => {
    const more = () => answer.write(content, (error) => error ?? more())
    more()
  })
  const limit = 4 * 1024 * 1024
  await t.rejects(fetched(server.url, { limit }), { code: 'too_large', reason: /4 MB/ })
  const announced = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': 2 ** 40 }).flushHeaders()
  })
  await t.rejects(fetched(announced.url, { limit }), { code: 'too_large' })
})

void t.test('a server that stalls, or sends bytes too slowly, is given up', async (t) => {
  const silent = await startScripted(t, () => undefined)
  await t.rejects(fetched(silent.url, { timeout: 200 }), { code: 'timeout' })
  const stalling = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': 1000 }).write('x')
  })
  // Long enough for the headers to arrive on a busy machine.
  await t.rejects(fetched(stalling.url, { timeout: 2000 }), { code: 'unavailable' })
  const trickling = await startScripted(t, (_request, answer) => {
    const timer = setInterval(() => answer.write('x'), 20)
    answer.once('close', () => clearInterval(timer))
  })
  await t.rejects(fetched(trickling.url, { timeout: 2000 }), {
    code: 'unavailable',
    reason: /^the connection broke after/,
  })
})

void t.test('a server that goes on in another protocol has failed', async (t) => {
  const server = await startScripted(t, (_request, answer) => {
    answer.socket?.write('HTTP/1.1 101 Other\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n')
  })
  await t.rejects(fetched(server.url), { code: 'unavailable', reason: 'the server sent no response' })
})

void t.test('a server that sends too slowly is given up after five connections', async (t) => {
  const headers = { etag: '"one"', 'accept-ranges': 'bytes' }
  const trickling = await startScripted(t, (request, answer) => {
    const from = rangeStart(request)
    const range = from > 0 ? { 'content-range': `bytes ${from}-999999/1000000` } : {}
    answer.writeHead(from > 0 ? 206 : 200, { 'content-length': 1_000_000 - from, ...headers, ...range })
    const timer = setInterval(() => answer.write('x'), 20)
    answer.once('close', () => clearInterval(timer))
  })
  const given = { code: 'unavailable', reason: /^the server announced 1000000 bytes and sent \d+$/ }
  await t.rejects(fetched(trickling.url, { timeout: 200 }), given)
  t.equal(trickling.asked.length, 5)
  const breaking = await startScripted(t, (request, answer) => {
    sendPart(answer, rangeStart(request), 10, headers)
  })
  await t.rejects(fetched(breaking.url, { timeout: 200 }), { code: 'unavailable' })
  t.equal(breaking.asked.length, 5, 'five connections that bring a few bytes each are the limit')
})

void t.test('all redirects together share the timeout of one response', async (t) => {
  const slow = await startScripted(t, (_request, answer, turn) => {
    setTimeout(() => answer.writeHead(302, { location: `/${turn}` }).end(), 150)
  })
  await t.rejects(fetched(slow.url, { timeout: 400 }), { code: 'timeout' })
  t.ok(slow.asked.length <= 3)
})

void t.test('an error status becomes the matching error code', async (t) => {
  const statuses = new Map([
    [404, 'not_found'],
    [410, 'not_found'],
    [403, 'denied'],
    [401, 'denied'],
    [429, 'throttled'],
    [503, 'unavailable'],
    [400, 'invalid'],
    [206, 'invalid'],
    [304, 'invalid'],
  ])
  for (const [status, code] of statuses) {
    const server = await startScripted(t, (_request, answer) => answer.writeHead(status, { 'retry-after': '7' }).end())
    await t.rejects(fetched(server.url), { code, reason: `the server answers with status ${status}` })
  }
  for (const wait of ['7', new Date(Date.now() + 3600_000).toUTCString()]) {
    const server = await startScripted(t, (_request, answer) => answer.writeHead(503, { 'retry-after': wait }).end())
    const error = await fetched(server.url).catch((caught: unknown) => caught)
    const { retryAfter = 0 } = error as GatewayError
    t.ok(wait === '7' ? retryAfter === 7 : retryAfter > 3500 && retryAfter <= 3600, `${wait}: ${retryAfter} s`)
  }
})

void t.test('an abort ends the download', async (t) => {
  const server = await startScripted(t, (_request, answer) => {
    answer.writeHead(200, { 'content-length': content.length }).write('x')
  })
  const controller = new AbortController()
  const file = await opened(server.url, { signal: controller.signal })
  const bytes = buffer(await file.source.read())
  setTimeout(() => controller.abort(), 50)
  await t.rejects(bytes)
})

async function redirecting(t: Test, to: (turn: number) => string) {
  return startScripted(t, (_request, answer, turn) => answer.writeHead(302, { location: to(turn) }).end())
}

void t.test('every redirect passes the egress guard', async (t) => {
  const secret = await startScripted(t, (_request, answer) => answer.end('secret'))
  const only = new EgressGuard(() => '127.0.0.1/32')
  const through = (address: string) => fetched(address, { egress: only })
  const open = await redirecting(t, () => `${secret.url}/found`)
  t.equal((await through(`${open.url}/here`)).toString(), 'secret')
  const relative = await startScripted(t, (request, answer) => {
    if (request.url === '/b/file') answer.end('here')
    else answer.writeHead(301, { location: '../b/file' }).end()
  })
  t.equal((await through(`${relative.url}/a/x`)).toString(), 'here')
  t.equal((await opened(`${relative.url}/a/x`, { egress: only })).name, 'file')
  const accented = await startScripted(t, (request, answer) => {
    if (request.url === '/caf%E9?%C3%A9') answer.end('accented')
    else answer.writeHead(301, { location: '/caf\xe9?\xc3\xa9' }).end()
  })
  t.equal((await through(`${accented.url}/x`)).toString(), 'accented', 'the bytes of an address are kept')
  const inside = ['http://127.0.0.2', 'http://[::1]', 'http://169.254.169.254', 'http://[::ffff:169.254.169.254]']
  const spelled = [
    'http://[::ffff:127.0.0.2]',
    'http://2130706434',
    'http://0177.0.0.2',
    'http://0x7f.2',
    'http://10.0.0.1',
  ]
  for (const host of [...inside, ...spelled]) {
    const server = await redirecting(t, () => `${host}:${secret.port}/latest/meta-data/`)
    await t.rejects(through(server.url), { code: 'denied' }, host)
    await t.rejects(through(`${host}:${secret.port}/`), { code: 'denied' }, `${host}, requested directly`)
  }
  const locations = ['file:///etc/passwd', 'ftp://127.0.0.1/x', 'data:,x', 'http://name:word@127.0.0.1/', 'http://[']
  for (const location of locations) {
    const server = await redirecting(t, () => location)
    await t.rejects(through(server.url), { code: 'invalid' }, location)
    await t.rejects(through(location), { code: 'invalid' }, `${location}, requested directly`)
  }
  const round = await redirecting(t, (turn) => `/${turn}`)
  await t.rejects(through(round.url), { code: 'invalid', reason: 'the server redirects more than 10 times' })
  t.equal(secret.asked.length, 1)
})

void t.test('DNS rebinding between two connections does not bypass the egress guard', async (t) => {
  const server = await startScripted(t, (request, answer, turn) => {
    sendPart(answer, rangeStart(request), turn < 2 ? 80_000 : content.length, { etag: '"one"' })
  })
  const answers: string[] = ['127.0.0.1', '127.0.0.2']
  const egress = new EgressGuard(
    () => '127.0.0.1/32',
    (_hostname, _options, done) => {
      const address = answers.shift() ?? '127.0.0.1'
      done(null, [{ address, family: 4 } satisfies LookupAddress])
    },
  )
  const address = `http://rebinding.example:${server.port}/`
  await t.rejects(fetched(address, { egress }), { code: 'denied' }, 'the resumed connection is checked again')
  t.equal(server.asked.length, 1)
  answers.push('127.0.0.2')
  await t.rejects(fetched(address, { egress }), { code: 'denied' })
  t.equal(server.asked.length, 1)
})
