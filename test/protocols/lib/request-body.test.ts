/**
 * Request bodies: they are read once and unchanged; slow ones are aborted, and unread ones are drained within limits.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { bodySource, drain, receiveBody, withTimeout } from '../../../protocols/lib/request-body.js'
import { toGatewayError } from '../../../src/base/errors.js'
import { until } from '../../until.js'

async function serve(
  test: Test,
  handler: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<number> {
  const server = createServer((request, response) => {
    handler(request, response).catch((error: unknown) => {
      response.end(String(error))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** The whole body, or the error of reading it. */
async function outcomeOf(request: IncomingMessage): Promise<unknown> {
  try {
    return await buffer(await bodySource(request).read())
  } catch (error) {
    return toGatewayError(error)
  }
}

void t.test('a body is read unchanged, with its size and facts', async (t) => {
  const content = randomBytes(5_000_000)
  const port = await serve(t, async (request, response) => {
    const source = bodySource(request, { size: 7, hashes: { md5: 'abc' }, modified: new Date(5) })
    t.equal(source.rereadable, false)
    t.same(source.hashes, { md5: 'abc' })
    t.same(source.modified, new Date(5))
    await delay(50)
    const received = await buffer(await source.read())
    response.end(`${source.size} ${received.equals(content)}`)
  })
  const url = `http://127.0.0.1:${port}`
  const sized = await fetch(url, { method: 'PUT', body: content })
  t.equal(await sized.text(), '5000000 true')
  const chunked = await fetch(url, { method: 'PUT', body: new Blob([content]).stream(), duplex: 'half' })
  t.equal(await chunked.text(), '7 true', 'without Content-Length the given size is used')
})

void t.test('receiveBody() has received a small body, which can be read again', async (t) => {
  const port = await serve(t, async (request, response) => {
    const source = await receiveBody(request, { modified: new Date(5) })
    t.same(source.modified, new Date(5))
    const [one, other] = [await buffer(await source.read()), source.rereadable && (await buffer(await source.read()))]
    response.end(`${source.size} ${source.bytes?.length} ${one.length} ${other ? other.equals(one) : 'read once'}`)
  })
  const send = async (size: number) => {
    const answer = await fetch(`http://127.0.0.1:${port}`, { method: 'PUT', body: randomBytes(size) })
    return answer.text()
  }
  t.equal(await send(0), '0 0 0 true')
  t.equal(await send(1), '1 1 1 true')
  t.equal(await send(65_536), '65536 65536 65536 true')
  t.equal(await send(65_537), '65537 undefined 65537 read once')
})

void t.test('receiveBody() streams a small body that arrives slowly', async (t) => {
  const port = await serve(t, async (request, response) => {
    const source = await receiveBody(request)
    response.end(`${source.size} ${source.bytes?.length} ${(await buffer(await source.read())).toString()}`)
  })
  const sending = httpRequest({ port, host: '127.0.0.1', method: 'PUT', headers: { 'Content-Length': 6 } })
  sending.write('abc')
  await delay(1200)
  sending.end('def')
  const [response] = (await once(sending, 'response')) as [IncomingMessage]
  t.equal((await buffer(response)).toString(), '6 undefined abcdef')
})

void t.test('receiveBody() of a client that disconnects before its end, or before the call, is aborted', async (t) => {
  const outcomes: Promise<unknown>[] = []
  let asked = 0
  const port = await serve(t, async (request) => {
    asked++
    const isLate = request.url === '/late'
    if (isLate) await new Promise((resolve) => request.socket.once('close', resolve))
    const read = async () => buffer(await (await receiveBody(request)).read())
    outcomes.push(read().catch(toGatewayError))
  })
  const send = async (path: string, sent: string) => {
    const before = asked
    const socket = connect(port, '127.0.0.1')
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n${sent}`)
    await until(() => asked > before)
    socket.destroy()
    await until(() => outcomes.length === asked)
  }
  await send('/', 'ab')
  await send('/late', 'ab')
  await send('/late', 'abcd')
  t.equal(outcomes.length, 3)
  for (const outcome of outcomes) t.match(await outcome, { code: 'aborted' })
})

void t.test('each chunk of a body has its own memory, which the reader may overwrite', async (t) => {
  const content = randomBytes(3_000_000)
  const port = await serve(t, async (request, response) => {
    const body = await bodySource(request).read()
    const memory = new Set<unknown>()
    const copies: Buffer[] = []
    for await (const chunk of body as AsyncIterable<Buffer>) {
      t.equal(memory.has(chunk.buffer), false)
      memory.add(chunk.buffer)
      copies.push(Buffer.from(chunk))
      chunk.fill(0)
    }
    response.end(`${'givesChunks' in body} ${Buffer.concat(copies).equals(content)}`)
  })
  const answer = await fetch(`http://127.0.0.1:${port}`, { method: 'PUT', body: content })
  t.equal(await answer.text(), 'true true')
})

void t.test('a body that arrives too slowly is aborted, and its connection is closed', async (t) => {
  const port = await serve(t, async (request, response) => {
    const body = bodySource(request).read().then(buffer)
    response.end(await withTimeout(body, () => new Error('too late'), 100).then(String, String))
    await drain(request, { milliseconds: 100 })
  })
  const whole = await fetch(`http://127.0.0.1:${port}`, { method: 'POST', body: 'whole' })
  t.equal(await whole.text(), 'whole')
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n')
  const drops = setInterval(() => socket.write('x'), 10)
  socket.on('error', () => undefined)
  const start = performance.now()
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((resolve) => socket.once('close', resolve))
  clearInterval(drops)
  t.match(Buffer.concat(chunks).toString(), 'Error: too late')
  t.ok(performance.now() - start < 5000)
})

void t.test('a missing body is an empty one', async (t) => {
  const port = await serve(t, async (request, response) => {
    const source = bodySource(request, { size: 7 })
    response.end(`${source.size} ${(await buffer(await source.read())).length}`)
  })
  t.equal(await (await fetch(`http://127.0.0.1:${port}`)).text(), '0 0')
})

void t.test('a body can be read once, and only from its start', async (t) => {
  const port = await serve(t, async (request, response) => {
    const source = bodySource(request)
    await t.rejects(source.read({ offset: 0 }), { code: 'internal' })
    await buffer(await source.read())
    await t.rejects(source.read(), { code: 'internal' })
    response.end('done')
  })
  t.equal(await (await fetch(`http://127.0.0.1:${port}`, { method: 'PUT', body: 'x' })).text(), 'done')
})

for (const framing of ['Content-Length: 1000000', 'Transfer-Encoding: chunked'] as const) {
  void t.test(`a request that closes before its end fails with aborted (${framing})`, async (t) => {
    let outcome: Promise<unknown> | undefined
    const port = await serve(t, async (request) => {
      outcome = outcomeOf(request)
    })
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `PUT / HTTP/1.1\r\nHost: x\r\n${framing}\r\n\r\n${framing.startsWith('T') ? '5\r\nhello\r\n' : 'hello'}`,
    )
    await until(() => outcome !== undefined)
    socket.destroy()
    t.match(await outcome, { code: 'aborted' })
  })
}

void t.test('reading a body after the client has disconnected fails with aborted', async (t) => {
  let resolve: (outcome: unknown) => void = () => undefined
  const promise = new Promise<unknown>((done) => (resolve = done))
  let isAsked = false
  const port = await serve(t, async (request) => {
    isAsked = true
    await new Promise((closed) => request.on('error', () => undefined).on('close', closed))
    resolve(await outcomeOf(request))
  })
  const socket = connect(port, '127.0.0.1')
  socket.write('PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhello')
  await until(() => isAsked)
  socket.destroy()
  t.match(await promise, { code: 'aborted' })
})

void t.test('an aborted signal ends the stream, and a response can still be sent', async (t) => {
  const port = await serve(t, async (request, response) => {
    const stop = new AbortController()
    const body = await bodySource(request).read(undefined, { signal: stop.signal })
    body.once('readable', () => stop.abort())
    await t.rejects(buffer(body), { name: 'AbortError' })
    response.end('stopped')
    await drain(request)
  })
  const response = await fetch(`http://127.0.0.1:${port}`, { method: 'PUT', body: randomBytes(10_000_000) })
  t.equal(await response.text(), 'stopped')
})

void t.test('drain() reads the rest of the body, so that the client receives the response', async (t) => {
  let drained: Promise<boolean> | undefined
  const port = await serve(t, async (request, response) => {
    response.end('no')
    drained = drain(request).then(() => request.complete)
    await drained
  })
  const request = httpRequest({ port, host: '127.0.0.1', method: 'PUT', headers: { 'content-length': 20_000_000 } })
  request.on('error', () => undefined) // the server closes at the end of the test
  request.end(Buffer.alloc(20_000_000))
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  t.equal((await buffer(response)).toString(), 'no')
  t.equal(await drained, true)
})

void t.test('drain() continues if the stream of the body is destroyed afterwards', async (t) => {
  let drained: Promise<void> | undefined
  const port = await serve(t, async (request, response) => {
    const body = await bodySource(request).read()
    response.end('no')
    drained = drain(request)
    body.destroy()
  })
  const socket = connect(port, '127.0.0.1')
  const answers = new Promise<string>((resolve) => {
    let text = ''
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      if (text.split('HTTP/1.1 200').length === 3) resolve(text)
    })
  })
  socket.write('PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n')
  await delay(50)
  socket.write('hello')
  await drained
  socket.write('PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n')
  t.match(await answers, /no/, 'the connection serves the next request')
  socket.destroy()
})

void t.test('drain() closes the connection past its limits', async (t) => {
  for (const limits of [{ bytes: 100_000 }, { milliseconds: 50 }]) {
    let resolve: (outcome: boolean) => void = () => undefined
    const promise = new Promise<boolean>((done) => (resolve = done))
    const port = await serve(t, async (request, response) => {
      response.end('no')
      await drain(request, limits)
      resolve(request.complete)
    })
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write('PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n')
    if ('bytes' in limits) socket.write(Buffer.alloc(1_000_000))
    t.equal(await promise, false)
    socket.destroy()
  }
})

void t.test('chunks of one byte are joined', async (t) => {
  const port = await serve(t, async (request, response) => {
    let [size, count] = [0, 0]
    for await (const chunk of await bodySource(request, { joinsChunks: request.url === '/all' }).read()) {
      size += (chunk as Buffer).length
      count++
    }
    response.end(JSON.stringify([size, count]))
  })
  const send = async (path: string) => {
    const head = `PUT ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`
    const socket = connect(port, '127.0.0.1')
    socket.write(`${head}${'1\r\nx\r\n'.repeat(40_000)}0\r\n\r\n`)
    return JSON.parse(/\[.*\]/.exec((await buffer(socket)).toString())?.[0] ?? '[]') as readonly number[]
  }
  t.same(await send('/all'), [40_000, 3])
  const [size = 0, count = 0] = await send('/')
  t.equal(size, 40_000)
  t.ok(count < 400, `${count} chunks`)
})
