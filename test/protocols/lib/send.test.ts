/** Responses with the content of a file: ranges, preconditions, changes meanwhile, and slow or disconnected clients. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type TAP } from 'tap'
import { sendFile, type SendOptions } from '../../../protocols/lib/send.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { rawRequest } from '../http/raw-request.js'
import { servedFile, type ServedFile } from './served-file.js'

interface Served {
  readonly port: number
  readonly url: string
  readonly errors: GatewayError[]
  readonly sent: Promise<void>[]
}

async function serve(
  test: Pick<TAP, 'teardown'>,
  file: ServedFile,
  options: Partial<SendOptions> = {},
): Promise<Served> {
  const errors: GatewayError[] = []
  const sent: Promise<void>[] = []
  const server = createServer((request, response) => {
    const done = sendFile(request, response, { fs: file.fs, path: file.path, ...options })
    sent.push(
      done.catch((error: unknown) => {
        errors.push(toGatewayError(error))
        if (!response.headersSent) response.writeHead(500).end()
      }),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, url: `http://127.0.0.1:${port}/`, errors, sent }
}

/** A response with its body as bytes. */
async function get(url: string, headers: Record<string, string> = {}, method = 'GET') {
  const response = await fetch(url, { headers, method })
  return { status: response.status, headers: response.headers, body: Buffer.from(await response.arrayBuffer()) }
}

for (const handles of [true, false]) {
  void t.test(`a read that fails before anything was sent: ${handles ? 'of a handle' : 'of a stream'}`, async (t) => {
    let failsAt = 0
    const file = await servedFile(t, randomBytes(3_000_000), {
      handles,
      onRead: (position) => {
        if (position >= failsAt) throw new GatewayError('unavailable')
      },
    })
    const { url, errors } = await serve(t, file)
    for (const range of [undefined, 'bytes=5-', 'bytes=0-9', 'bytes=0-99999,200000-299999']) {
      const { status, body } = await get(url, range === undefined ? {} : { range })
      t.same([status, body.length], [500, 0], range ?? 'the whole file')
    }
    t.ok(errors.length === 4 && errors.every(({ code }) => code === 'unavailable'))
    failsAt = 1_000_000
    await t.rejects(get(url), 'later, the connection is closed')
    t.equal(file.open(), 0)
  })

  void t.test(handles ? 'a file with a handle' : 'a file that can only be streamed', async (t) => {
    const content = randomBytes(3_000_001)
    const modified = new Date('2024-05-17T16:05:36.465Z')
    const file = await servedFile(t, content, { handles, revision: 'rev-1', modified })
    const { url } = await serve(t, file)

    await t.test('is sent completely, as an attachment', async (t) => {
      const { status, headers, body } = await get(url)
      t.equal(status, 200)
      t.ok(body.equals(content))
      t.equal(headers.get('content-length'), '3000001')
      t.equal(headers.get('etag'), '"rev-1"')
      t.equal(headers.get('last-modified'), 'Fri, 17 May 2024 16:05:36 GMT')
      t.equal(headers.get('accept-ranges'), 'bytes')
      t.equal(headers.get('content-type'), 'application/octet-stream')
      t.equal(headers.get('x-content-type-options'), 'nosniff')
      t.match(headers.get('content-security-policy'), /sandbox/)
      t.equal(headers.get('content-disposition'), `attachment; filename="file.bin"; filename*=utf-8''file.bin`)
    })

    await t.test('answers HEAD with the same headers and no body', async (t) => {
      const { status, headers, body } = await get(url, { range: 'bytes=0-1' }, 'HEAD')
      t.equal(status, 200)
      t.equal(headers.get('content-length'), '3000001')
      t.equal(body.length, 0)
    })

    await t.test('sends one range', async (t) => {
      for (const [range, from, to] of [
        ['bytes=0-0', 0, 0],
        ['bytes=10-1999999', 10, 1_999_999],
        ['bytes=2999999-', 2_999_999, 3_000_000],
        ['bytes=-5', 2_999_996, 3_000_000],
        ['bytes=2999000-99999999999999999999', 2_999_000, 3_000_000],
        ['bytes=9000000-, 5-6', 5, 6],
      ] as const) {
        const { status, headers, body } = await get(url, { range })
        t.equal(status, 206, range)
        t.equal(headers.get('content-range'), `bytes ${from}-${to}/3000001`)
        t.ok(body.equals(content.subarray(from, to + 1)))
      }
    })

    await t.test('sends several ranges as multipart/byteranges', async (t) => {
      const { status, headers, body } = await get(url, { range: 'bytes=0-9, 1000000-1999999,-3' })
      t.equal(status, 206)
      const boundary = /^multipart\/byteranges; boundary=(\w+)$/.exec(headers.get('content-type') ?? '')?.[1]
      const head = (range: string) =>
        Buffer.from(
          `\r\n--${boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes ${range}/3000001\r\n\r\n`,
        )
      const expected = Buffer.concat([
        head('0-9'),
        content.subarray(0, 10),
        head('1000000-1999999'),
        content.subarray(1_000_000, 2_000_000),
        head('2999998-3000000'),
        content.subarray(-3),
        Buffer.from(`\r\n--${boundary}--\r\n`),
      ])
      t.ok(body.equals(expected))
      t.equal(headers.get('content-length'), String(expected.length))
    })

    await t.test('ignores ranges that are malformed, too many or of another unit', async (t) => {
      for (const range of [
        'bytes=',
        'bytes=abc',
        'bytes=5-2',
        'bytes=-',
        'bytes=0-1,x',
        'lines=0-1',
        'bytes 0-1',
        'bytes=0-,0-',
        'bytes=0-9,5-14,8-20,10-30',
        `bytes=${Array.from({ length: 101 }, (_, i) => `${i * 2}-${i * 2}`).join()}`,
      ]) {
        const { status, body } = await get(url, { range })
        t.equal(status, 200, range.slice(0, 40))
        t.equal(body.length, content.length)
      }
    })

    await t.test('answers a range outside of the file with 416 and the size', async (t) => {
      for (const range of ['bytes=3000001-', 'bytes=-0', 'bytes=4000000-5000000,-0']) {
        const { status, headers, body } = await get(url, { range })
        t.equal(status, 416, range)
        t.equal(headers.get('content-range'), 'bytes */3000001')
        t.equal(body.length, 0)
      }
    })

    await t.test('evaluates preconditions in the order of RFC 9110 §13.2.2', async (t) => {
      const time = 'Fri, 17 May 2024 16:05:36 GMT'
      const earlier = 'Fri, 17 May 2024 16:05:35 GMT'
      for (const [headers, status] of [
        [{ 'if-match': '"rev-1"' }, 200],
        [{ 'if-match': '*' }, 200],
        [{ 'if-match': '"other", "rev-1"' }, 200],
        [{ 'if-match': '"other"' }, 412],
        [{ 'if-match': 'W/"rev-1"' }, 412],
        [{ 'if-match': '"rev-1"', 'if-unmodified-since': earlier }, 200],
        [{ 'if-unmodified-since': time }, 200],
        [{ 'if-unmodified-since': earlier }, 412],
        [{ 'if-unmodified-since': 'yesterday' }, 200],
        [{ 'if-none-match': '"rev-1"' }, 304],
        [{ 'if-none-match': 'W/"rev-1"' }, 304],
        [{ 'if-none-match': '*' }, 304],
        [{ 'if-none-match': '"other"', 'if-modified-since': time }, 200],
        [{ 'if-modified-since': time }, 304],
        [{ 'if-modified-since': 'Friday, 17-May-24 16:05:36 GMT' }, 304],
        [{ 'if-modified-since': 'Fri May 17 16:05:36 2024' }, 304],
        [{ 'if-modified-since': earlier }, 200],
        [{ 'if-match': '"other"', 'if-none-match': '"rev-1"' }, 412],
        [{ range: 'bytes=0-1', 'if-range': '"rev-1"' }, 206],
        [{ range: 'bytes=0-1', 'if-range': time }, 206],
        [{ range: 'bytes=0-1', 'if-range': '"other"' }, 200],
        [{ range: 'bytes=0-1', 'if-range': 'W/"rev-1"' }, 200],
        [{ range: 'bytes=0-1', 'if-range': earlier }, 200],
        [{ range: 'bytes=0-1', 'if-none-match': '"rev-1"' }, 304],
        [{ range: 'bytes=9999999-', 'if-match': '"other"' }, 412],
      ] as const) {
        const answer = await get(url, { ...headers })
        t.equal(answer.status, status, JSON.stringify(headers))
        t.equal(answer.headers.get('etag'), '"rev-1"')
        if (status === 304 || status === 412) t.equal(answer.body.length, 0)
      }
    })

    t.equal(file.open(), 0, 'all handles are closed')
    t.equal(file.streams.length > 0, !handles)
    t.ok(
      file.streams.every((stream) => stream.destroyed),
      'all streams are closed',
    )
  })

  void t.test(`a disconnected client ends the transfer at once (${handles ? 'handle' : 'stream'})`, async (t) => {
    const file = await servedFile(t, Buffer.alloc(64 * 1024 * 1024), { handles })
    const { port, errors, sent } = await serve(t, file)
    const socket = connect(port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(socket, 'data')
    socket.destroy()
    await sent[0]
    t.match(errors, [{ code: 'aborted' }])
    t.equal(file.open(), 0)
    t.ok(file.streams.every((stream) => stream.destroyed))
  })

  void t.test(`a file that shrinks meanwhile closes the connection (${handles ? 'handle' : 'stream'})`, async (t) => {
    const file = await servedFile(t, Buffer.alloc(5_000_000), { handles, readableBytes: 4_000_000 })
    const { url, errors, sent } = await serve(t, file)
    await t.rejects(get(url))
    await Promise.all(sent)
    t.match(errors, [{ code: 'aborted' }])
    t.equal(file.open(), 0)
  })
}

void t.test('without handles, the driver reads exactly the requested ranges', async (t) => {
  const content = randomBytes(1_000_000)
  const file = await servedFile(t, content, { handles: false })
  const { url } = await serve(t, file)
  for (const [range, ...asked] of [
    ['bytes=100-101', { offset: 100, length: 2 }],
    ['bytes=0-1', { offset: 0, length: 2 }],
    ['bytes=-5', { offset: 999_995, length: 5 }],
    ['bytes=999000-', { offset: 999_000, length: 1000 }],
    ['bytes=0-9,500-509,-1', { offset: 0, length: 10 }, { offset: 500, length: 10 }, { offset: 999_999, length: 1 }],
    ['bytes=0-', undefined],
    ['bytes=1000000-'],
  ] as const) {
    file.asked.length = 0
    await get(url, { range })
    t.same(file.asked, asked, range)
  }
  for (const [headers, method, asked] of [
    [{}, 'GET', [undefined]],
    [{ range: 'bytes=0-1' }, 'HEAD', []],
    [{ range: 'bytes=0-1', 'if-none-match': '*' }, 'GET', []],
    [{ range: 'bytes=0-1', 'if-match': '"other"' }, 'GET', []],
    [{ range: 'bytes=0-1', 'if-range': '"other"' }, 'GET', [undefined]],
  ] as const) {
    file.asked.length = 0
    await get(url, { ...headers }, method)
    t.same(file.asked, asked, `${method} ${JSON.stringify(headers)}`)
  }
})

void t.test('a file that another program has replaced is sent whole, although an old listing is cached', async (t) => {
  const file = await servedFile(t, Buffer.from('short'), { handles: false })
  const { url } = await serve(t, file)
  const old = await get(url)
  for (const content of ['a longer content', 'tiny']) {
    await file.fs.list(asPath('/'))
    await file.replace(Buffer.from(content))
    const { status, body, headers } = await get(url)
    t.match({ status, body: body.toString() }, { status: 200, body: content })
    t.not(headers.get('etag'), old.headers.get('etag'))
  }
})

void t.test('the driver is not called for an empty file', async (t) => {
  const file = await servedFile(t, Buffer.alloc(0), { handles: false })
  const { url } = await serve(t, file)
  for (const range of ['bytes=0-1', 'bytes=-1']) t.equal((await get(url, { range })).status, 200)
  t.same(file.asked, [])
})

void t.test('of a file that has grown, as many bytes as declared are sent', async (t) => {
  const content = randomBytes(300_000)
  for (const handles of [true, false]) {
    const file = await servedFile(t, content, { handles, toldSize: 200_000 })
    const { url, sent } = await serve(t, file)
    const { status, body } = await get(url)
    t.equal(status, 200)
    t.ok(body.equals(content.subarray(0, 200_000)))
    await Promise.all(sent)
    t.ok(file.streams.every((stream) => stream.destroyed))
  }
})

void t.test('a range of an empty file is answered with 200', async (t) => {
  const { url } = await serve(t, await servedFile(t, Buffer.alloc(0)))
  const { status, headers, body } = await get(url, { range: 'bytes=0-1' })
  t.equal(status, 200)
  t.equal(headers.get('content-length'), '0')
  t.equal(body.length, 0)
})

void t.test('the read error of a small file is reported before the response begins', async (t) => {
  const file = await servedFile(t, Buffer.alloc(500), { readableBytes: 100 })
  const { url, errors } = await serve(t, file)
  const { status } = await get(url)
  t.equal(status, 500)
  t.match(errors, [{ code: 'aborted' }])
  t.equal(file.open(), 0)
})

void t.test('an error of opening is reported before the response begins', async (t) => {
  const file = await servedFile(t, Buffer.alloc(500))
  const { url, errors } = await serve(t, file, { path: asPath('/') })
  t.equal((await get(url)).status, 500)
  t.equal((await get(url, {}, 'HEAD')).status, 500)
  t.match(errors, [{ code: 'is_folder' }, { code: 'is_folder' }])
})

void t.test('the content type and the disposition depend on the name', async (t) => {
  const named = (path: string) => servedFile(t, Buffer.from('x'), { path })
  const page = await serve(t, await named(`/Ünï "c' (1).HTML`), { headers: { 'X-Own': 'yes' } })
  const { headers } = await get(page.url)
  t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  const encoded = '%C3%9Cn%C3%AF%20%22c%27%20%281%29.HTML'
  t.equal(headers.get('content-disposition'), `attachment; filename="${encoded}"; filename*=utf-8''${encoded}`)
  t.equal(headers.get('x-own'), 'yes')

  const bare = await serve(t, await named('/html'), { disposition: 'none' })
  const plain = await get(bare.url)
  t.equal(plain.headers.get('content-type'), 'application/octet-stream')
  t.equal(plain.headers.get('content-disposition'), null)
  t.match(plain.headers.get('content-security-policy'), /sandbox/)
})

void t.test('a slow client occupies only a few buffers', async (t) => {
  const size = 256 * 1024 * 1024
  const content = Buffer.alloc(size)
  let reads = 0
  const file = await servedFile(t, content, {
    onRead: () => {
      reads += 1
    },
  })
  const { port } = await serve(t, file)
  const response = await new Promise<import('node:http').IncomingMessage>((resolve) => {
    httpRequest({ port, host: '127.0.0.1' }, resolve).end()
  })
  await delay(300)
  t.ok(reads < 40, `${reads} reads of 512 KiB before the client took anything`)
  let received = 0
  for await (const chunk of response) received += (chunk as Buffer).length
  t.equal(received, size)
  t.equal(file.open(), 0)
})

void t.test('a file that is stored with a content coding is sent as it is stored, with Content-Encoding', async (t) => {
  const content = gzipSync('plain text')
  const file = await servedFile(t, content, { contentEncoding: 'gzip' })
  const { url } = await serve(t, file)
  t.ok((await get(url, { 'accept-encoding': 'identity' })).body.equals(content), 'the bytes as stored')
  t.equal((await get(url)).body.toString(), 'plain text', 'a browser undoes the coding')
  const ask = (headers: Record<string, string>, method = 'GET') => rawRequest(url, { path: '/', method, headers })
  for (const [accepted, told] of [
    ['gzip, deflate', 'gzip'],
    ['*', 'gzip'],
    [undefined, 'gzip'],
    ['identity', undefined],
    ['gzip;q=0, br', undefined],
  ] as const) {
    const headers = accepted === undefined ? {} : { 'accept-encoding': accepted }
    const whole = await ask(headers)
    t.equal(whole.headers['content-encoding'], told, `Accept-Encoding: ${accepted}`)
    t.equal(whole.headers.vary, 'Accept-Encoding')
    t.equal((await ask(headers, 'HEAD')).headers['content-encoding'], told, 'HEAD')
    t.equal((await ask({ ...headers, range: 'bytes=1-4' })).headers['content-encoding'], told, 'a range')
    const several = await ask({ ...headers, range: 'bytes=0-1,4-5' })
    t.same([several.status, several.headers['content-encoding']], [206, undefined], 'several ranges')
  }
})
