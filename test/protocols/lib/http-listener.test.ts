/**
 * The HTTP server: the choice of a handler, invalid requests, `100 Continue`, stalled connections, and how it stops.
 */
import { EventEmitter, once } from 'node:events'
import { request, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HttpListener } from '../../../protocols/lib/http-listener.js'
import { bodySource, drain } from '../../../protocols/lib/request-body.js'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

async function listen(t: Test, handlers: Record<string, Handler>) {
  const listener = new HttpListener({ host: '127.0.0.1', port: 0, handlers: new Map(Object.entries(handlers)) })
  const address = await listener.start()
  t.teardown(() => listener.stop(AbortSignal.abort()))
  return { listener, port: Number(address.split(':')[1]), url: `http://${address}` }
}

function rawReply(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    let reply = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk) => (reply += chunk.toString('latin1')))
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(reply))
  })
}

const says =
  (text: string): Handler =>
  (_request, response) =>
    response.end(text)

void t.test('a request is handled by the handler with the longest matching prefix', async (t) => {
  const { url } = await listen(t, { '': says('rest'), '/dav': says('dav') })
  const reply = async (path: string) => (await fetch(url + path)).text()
  t.equal(await reply('/dav'), 'dav')
  t.equal(await reply('/dav/a?b'), 'dav')
  t.equal(await reply('/david'), 'rest')
  t.equal(await reply('/'), 'rest')
})

void t.test('a request with two Host headers is answered with 400, whatever handles it', async (t) => {
  const { port } = await listen(t, { '': says('rest'), '/dav': says('dav') })
  const status = async (path: string, headers: string) =>
    (await rawReply(port, `GET ${path} HTTP/1.1\r\nConnection: close\r\n${headers}\r\n`)).split(' ')[1]
  for (const path of ['/', '/dav', '*']) {
    t.equal(await status(path, 'Host: a\r\nHost: b\r\n'), '400', path)
    t.equal(await status(path, 'host: a\r\nX: host\r\nHOST: a\r\n'), '400', path)
  }
  t.equal(await status('/', 'Host: a\r\nX: Host\r\n'), '200')
  t.equal(await status('/', ''), '400', 'none')
})

void t.test('bytes that are not HTTP are answered with 400, and other requests continue', async (t) => {
  const { port, url } = await listen(t, { '': says('fine') })
  t.match(await rawReply(port, 'nonsense\r\n\r\n'), /^HTTP\/1\.1 400 /)
  t.match(await rawReply(port, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(40_000)}\r\n\r\n`), /^HTTP\/1\.1 431 /)
  t.equal(await (await fetch(url)).text(), 'fine')
})

void t.test('an unknown method is answered with 501, and a malformed request with 400', async (t) => {
  const { port } = await listen(t, {
    '': (request, response) => {
      void drain(request).then(() => response.end('first'))
    },
  })
  const first = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}'
  const head = 'Host: x\r\nContent-Length: 5\r\n\r\nhello'
  for (const [request, status] of [
    [`FOO /dav/x HTTP/1.1\r\n${head}`, 501],
    [`\r\nFOO /dav/x HTTP/1.1\r\n${head}`, 501],
    [`PROPFOO http://x/dav/%20 HTTP/1.0\r\n${head}`, 501],
    [`get / HTTP/1.1\r\n${head}`, 501],
    [`M-2!~ / HTTP/1.1\n${head}`, 501],
    ['FO', 501],
    ['FOO /dav', 501],
    [`FOO\r\n${head}`, 400],
    [`FOO /dav/x\r\n${head}`, 400],
    [`FOO  /dav/x HTTP/1.1\r\n${head}`, 400],
    [`F@O / HTTP/1.1\r\n${head}`, 400],
    [`@ / HTTP/1.1\r\n\r\nFOO / HTTP/1.1\r\n\r\n`, 400],
    [`\x16\x03\x01\x02`, 400],
    [`GET / HTTP/1.1\r\nHost : x\r\n\r\n`, 400],
  ] as const) {
    const refusal = new RegExp(`^HTTP/1\\.1 ${status} [^]*\r\nConnection: close\r\n`)
    t.match(await rawReply(port, request), refusal, JSON.stringify(request))
    const [, after] = (await rawReply(port, first + request)).split('\r\n\r\nfirst')
    t.match(after, refusal, `${JSON.stringify(request)} on a reused connection`)
  }
})

void t.test('a body with another transfer coding than chunked is refused with 501', async (t) => {
  let handled = 0
  const { port } = await listen(t, {
    '': (request, response) => {
      handled++
      void drain(request).then(() => response.end())
    },
  })
  const put = (coding: string) =>
    rawReply(
      port,
      `PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: ${coding}\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
    )
  t.match(await put('gzip, chunked'), /^HTTP\/1\.1 501 /)
  t.equal(handled, 0)
  t.match(await put('Chunked'), /^HTTP\/1\.1 200 /)
  t.equal(handled, 1)
})

void t.test('an unknown method after a long body is detected in linear time, and CONNECT is answered', async (t) => {
  const { port } = await listen(t, {
    '': (request, response) => {
      void drain(request).then(() => response.end('first'))
    },
  })
  const body = `${'a'.repeat(60_000)} `
  const before = process.cpuUsage().user
  const first = `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  t.match(await rawReply(port, `${first}FOO / HTTP/1.1\r\nHost: x\r\n\r\n`), /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 501 /)
  t.ok(process.cpuUsage().user - before < 1_000_000)
  t.match(await rawReply(port, 'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n'), /^HTTP\/1\.1 501 /)
})

void t.test('a client that resets its connection after CONNECT harms nobody, and holds no stop open', async (t) => {
  const { listener, port, url } = await listen(t, { '': says('fine') })
  for (let count = 0; count < 20; count += 1) {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.write('CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n')
    if (count % 2 === 0) await wait(5)
    socket.resetAndDestroy()
  }
  t.equal(await (await fetch(url)).text(), 'fine')
  const held = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  await once(held, 'connect')
  held.write('CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n')
  await once(held.resume(), 'end')
  await listener.stop(AbortSignal.abort())
  held.destroy()
})

void t.test('pipelined requests are handled one after the other', async (t) => {
  const order: string[] = []
  const { port } = await listen(t, {
    '': (request, response) => {
      order.push(`begin ${request.url}`)
      const done = request.url === '/held' ? once(request.socket, 'close') : wait(request.url === '/1' ? 60 : 5)
      void done.then(() => {
        order.push(`end ${request.url}`)
        response.end(request.url)
      })
    },
  })
  const ask = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
  const reply = await rawReply(port, ask('/1') + ask('/2') + ask('/3', 'Connection: close\r\n'))
  t.same(order, ['begin /1', 'end /1', 'begin /2', 'end /2', 'begin /3', 'end /3'])
  t.same(reply.match(/\r\n\r\n\/\d/g), ['\r\n\r\n/1', '\r\n\r\n/2', '\r\n\r\n/3'])

  order.length = 0
  const socket = connect(port, '127.0.0.1')
  socket.write(ask('/held') + ask('/2'))
  while (order.length === 0) await wait(5)
  socket.destroy()
  while (order.length === 1) await wait(5)
  await wait(50)
  t.same(order, ['begin /held', 'end /held'], 'after a disconnect, what has not begun is not handled')
})

void t.test('an invalid request is answered after the pipelined requests before it', async (t) => {
  const { port } = await listen(t, {
    '/slow': (_request, response) => {
      response.writeHead(200, { 'content-length': 10 }).write('begin')
      void wait(200).then(() => response.end('ended'))
    },
    '/quick': says('quick'),
  })
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  const reply = await rawReply(port, `${get('/slow')}${get('/quick')}FOO /dav/x HTTP/1.1\r\nHost: x\r\n\r\n`)
  t.match(reply, /^HTTP\/1\.1 200 OK\r\n[^]*beginendedHTTP\/1\.1 200 OK\r\n[^]*quickHTTP\/1\.1 501 Not Implemented\r\n/)
  const chunked = 'POST /quick HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n'
  const torn = await rawReply(port, get('/slow') + chunked)
  const whole = /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nbeginendedHTTP\/1\.1 400 Bad Request\r\n/
  t.match(torn, whole, 'nothing is written within another response')
  const connected = await rawReply(port, `${get('/slow')}CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n`)
  t.match(connected, /beginendedHTTP\/1\.1 501 Not Implemented\r\n/, 'CONNECT is such a request')
})

/** Pipelined requests: the first is held until `release`, the others are answered when they run. */
async function pipeline(t: Test) {
  const run: string[] = []
  const turns: number[] = []
  let turn = 0
  const count = () => {
    turn++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  t.teardown(() => clearImmediate(counting))
  const holding = new EventEmitter()
  const held = once(holding, 'held') as Promise<[ServerResponse]>
  const { port } = await listen(t, {
    '': (request, response) => {
      run.push(request.url ?? '')
      turns.push(turn)
      if (request.url === '/held') holding.emit('held', response)
      else response.end('answered')
    },
  })
  const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  const client = connect(port, '127.0.0.1')
  t.teardown(() => client.destroy())
  let reply = ''
  client.on('data', (chunk) => (reply += chunk.toString('latin1'))).on('error', () => undefined)
  const answers = () => reply.split('HTTP/1.1 200 OK').length - 1
  return { ask, client, held, run, turns, answers }
}

void t.test('with 100 waiting requests all are answered, each in a turn of its own', async (t) => {
  const { ask, client, held, run, turns, answers } = await pipeline(t)
  client.write(ask('/held') + ask('/next').repeat(100))
  const [response] = await held
  while (!response.socket?.isPaused()) await wait(5)
  t.equal(run.length, 1, 'the connection is not read while they wait')
  client.write(ask('/more'))
  response.end('answered')
  while (answers() < 102) await wait(5)
  t.equal(run.length, 102)
  t.equal(new Set(turns).size, turns.length)
})

void t.test('with more than 100 waiting requests the running one is answered, and no other is run', async (t) => {
  for (const waiting of [101, 20_000]) {
    const { ask, client, held, run, answers } = await pipeline(t)
    client.write(ask('/held') + ask('/next').repeat(waiting))
    const [response] = await held
    while (!response.socket?.isPaused()) await wait(5)
    response.end('answered')
    await once(client, 'close')
    t.same(run, ['/held'])
    t.equal(answers(), 1)
  }
})

void t.test('a client that goes while many of its requests wait ends the one that runs', async (t) => {
  for (const end of ['destroy', 'resetAndDestroy'] as const) {
    const { ask, client, held, run } = await pipeline(t)
    client.write(ask('/held') + ask('/next').repeat(50))
    const [response] = await held
    while (!response.socket?.isPaused()) await wait(5)
    client[end]()
    await once(response, 'close')
    t.same(run, ['/held'])
  }
})

void t.test('no request is run after a response that closes the connection', async (t) => {
  const run: string[] = []
  const { port } = await listen(t, {
    '': (request, response) => {
      run.push(request.url ?? '')
      void wait(20).then(() => response.writeHead(200, { Connection: 'close' }).end('last'))
    },
  })
  const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`
  t.match(await rawReply(port, ask('/1') + ask('/2') + ask('/3')), /last/)
  t.same(run, ['/1'])
})

void t.test('a client that continues to send after a rejection receives the response', async (t) => {
  const { port } = await listen(t, { '': says('fine') })
  const socket = connect(port, '127.0.0.1')
  let reply = ''
  socket.on('data', (chunk) => (reply += chunk.toString()))
  let failure: Error | undefined
  socket.on('error', (error) => (failure = error))
  const closed = new Promise((resolve) => socket.on('close', resolve))
  socket.write('FOO / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n')
  for (let n = 0; n < 10; n++) {
    socket.write('x'.repeat(10_000))
    await wait(20)
  }
  await closed
  t.match(reply, /^HTTP\/1\.1 501 /)
  t.equal(reply.split('HTTP/1.1').length, 2, 'answered once')
  t.equal(failure, undefined)
})

void t.test('stop() lets a request finish and refuses new connections', async (t) => {
  const { listener, url } = await listen(t, {
    '': (_request, response) => {
      void wait(300).then(() => response.end('late'))
    },
  })
  const late = fetch(url).then((response) => response.text())
  await wait(100)
  const stopped = listener.stop(new AbortController().signal)
  await t.rejects(fetch(url))
  t.equal(await late, 'late')
  await stopped
})

void t.test('stop() aborts running requests after its timeout', async (t) => {
  const { listener, url } = await listen(t, { '': (_request, response) => void response.write('begun') })
  const cut = (async () => (await fetch(url)).text())()
  cut.catch(() => undefined)
  await wait(100)
  await listener.stop(AbortSignal.timeout(100))
  await t.rejects(cut)
})

/** Resolves to the final status and whether the server sent 100 Continue. */
function upload(url: string): Promise<{ status: number; invited: boolean }> {
  return new Promise((resolve, reject) => {
    let invited = false
    const sent = request(url, { method: 'PUT', headers: { Expect: '100-continue', 'Content-Length': 4 } })
    sent.on('continue', () => {
      invited = true
      sent.end('body')
    })
    sent.on('response', (response) => {
      response.resume()
      sent.destroy()
      resolve({ status: response.statusCode ?? 0, invited })
    })
    sent.on('error', reject)
    sent.flushHeaders()
  })
}

void t.test('100 Continue is sent only when the body is read', async (t) => {
  const { url } = await listen(t, {
    '': (request, response) => {
      if (request.url === '/refused') {
        response.writeHead(403).end()
        void drain(request)
        return
      }
      void bodySource(request)
        .read()
        .then(async (body) => {
          let text = ''
          for await (const chunk of body as AsyncIterable<Buffer>) text += chunk.toString()
          response.writeHead(text === 'body' ? 201 : 400).end()
        })
    },
  })
  t.same(await upload(`${url}/taken`), { status: 201, invited: true })
  t.same(await upload(`${url}/refused`), { status: 403, invited: false })
})

void t.test('a client that stalls within its body is disconnected; one that waits for a response is not', async (t) => {
  const listener = new HttpListener({
    host: '127.0.0.1',
    port: 0,
    stallTimeout: 200,
    handlers: new Map<string, Handler>([
      ['/work', (_request, response) => void wait(1000).then(() => response.end('done'))],
      ['', (request) => void request.resume().on('error', () => undefined)],
    ]),
  })
  const url = `http://${await listener.start()}`
  t.teardown(() => listener.stop(AbortSignal.abort()))
  const upload = request(`${url}/upload`, { method: 'PUT', headers: { 'Content-Length': 100 } })
  upload.write('half')
  const cut = new Promise((resolve) => upload.on('error', resolve))
  t.match(await cut, { code: 'ECONNRESET' })
  t.equal(await (await fetch(`${url}/work`)).text(), 'done')
})

void t.test('a connection that is not being read is closed within a second of its end', async (t) => {
  const ended: Record<string, number> = {}
  const { port } = await listen(t, {
    '': (request) => {
      request.pause()
      request.on('error', () => undefined)
      request.on('close', () => (ended[request.url ?? ''] = Date.now()))
    },
  })
  const begin = async (path: string, unread: number) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n`)
    socket.write(Buffer.alloc(unread))
    return socket
  }
  const waiting = await begin('/waiting', 8 * 1024 * 1024)
  const reset = await begin('/reset', 8 * 1024 * 1024)
  const closed = await begin('/closed', 100_000)
  await wait(1000)
  t.same(ended, {}, 'connections that are open stay open')
  const end = Date.now()
  reset.resetAndDestroy()
  closed.destroy()
  while (Object.keys(ended).length < 2 && Date.now() < end + 10_000) await wait(10)
  t.ok((ended['/reset'] ?? Infinity) - end < 1000, 'a reset is noticed, although bytes wait before it')
  t.ok((ended['/closed'] ?? Infinity) - end < 1000, 'so is a close whose bytes have all arrived')
  await wait(1000)
  t.same(Object.keys(ended).sort(), ['/closed', '/reset'])
  waiting.destroy()
})
