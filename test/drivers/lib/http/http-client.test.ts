/** The drivers' HTTP client: where it sends credentials, what it repeats, and when it gives up. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Readable, type Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { HttpClient, type HttpClientOptions, type HttpRequest } from '../../../../drivers/lib/http/http-client.js'
import { EgressGuard } from '../../../../src/net/egress.js'
import { refuses } from '../../../driver-conformance/subject.js'
import { makeCertificate } from '../../../servers/certificates.js'

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const credentials = { username: 'somebody', password: 'a secret' }

async function serve(t: Test, answer: Answer, host = '127.0.0.1') {
  const seen: IncomingMessage[] = []
  const server = createServer((request, response) => {
    seen.push(request)
    answer(request, response)
  })
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    seen.push(request)
    answer(request, response)
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { address: new URL(`http://${host}:${(server.address() as AddressInfo).port}/`), seen }
}

function clientOf(t: Test, address: URL, allowed = '', more: Partial<HttpClientOptions> = {}): HttpClient {
  const egress = new EgressGuard(() => allowed)
  const options = { server: 'test server', address, credentials, verifiesCertificate: true, egress }
  const client = new HttpClient({ ...options, ...more })
  t.teardown(() => {
    client.close()
  })
  return client
}

async function ask(client: HttpClient, request: HttpRequest): Promise<{ status: number; text: string }> {
  const { status, body } = await client.request(request)
  return { status, text: await text(body) }
}

const upload = (content: string) => ({
  size: Buffer.byteLength(content),
  taken: 0,
  async sendTo(into: Writable) {
    this.taken++
    await pipeline(Readable.from([content]), into)
  },
})

await t.test('HttpClient sends no password without a challenge', async (t) => {
  const { address, seen } = await serve(t, (_request, response) => response.end('open'))
  t.same(await ask(clientOf(t, address), { method: 'GET', url: address }), { status: 200, text: 'open' })
  t.equal(seen[0]?.headers.authorization, undefined)
})

await t.test(
  'HttpClient follows a redirect to another host without credentials, and only if the egress guard allows it',
  async (t) => {
    const other = await serve(t, (_request, response) => response.end('elsewhere'))
    const { address, seen } = await serve(t, (request, response) => {
      if (request.headers.authorization === undefined) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()
      } else response.writeHead(302, { location: new URL('/there', other.address).href }).end()
    })
    const request = { method: 'GET', url: new URL('/file', address), headers: { range: 'bytes=1-2' } }
    await refuses(t, () => ask(clientOf(t, address), request), 'denied', 'a forbidden network')
    t.equal(other.seen.length, 0, 'no request was sent there')
    const client = clientOf(t, address, '127.0.0.0/8')
    t.same(await ask(client, request), { status: 200, text: 'elsewhere' })
    t.match(seen.at(-1)?.headers.authorization, /^Basic /)
    t.equal(other.seen[0]?.headers.authorization, undefined)
    t.equal(other.seen[0]?.headers.range, 'bytes=1-2')
    await refuses(t, () => ask(client, { ...request, method: 'DELETE' }), 'unavailable', 'a change')
    await refuses(t, () => ask(client, { ...request, method: 'PROPFIND' }), 'unavailable', 'a listing')
    t.equal(other.seen.length, 1)
    t.equal((await client.request({ ...request, follow: false })).status, 302)
  },
)

/** Headers with a credential, and headers without one. */
const secrets = {
  authorization: 'Bearer the-token',
  Cookie: 'session=the-cookie',
  'X-Vendor-Token': 'the-vendor-token',
  if: '(<opaquelocktoken:the-lock>)',
  destination: 'http://127.0.0.1/the-destination',
}
const harmless = { range: 'bytes=1-2', 'If-Match': '"the-tag"', accept: 'text/plain', 'User-Agent': 'a test' }

function assertNoSecret(t: Test, { headers }: IncomingMessage, where: string): void {
  const text = JSON.stringify(headers)
  t.notMatch(text, /the-token|the-cookie|the-vendor-token|the-lock|the-destination|Basic|Digest|somebody/, where)
}

const challenges = {
  Basic: 'Basic realm="r"',
  Digest: 'Digest realm="r", nonce="n", qop="auth"',
}

/** A server that requires credentials, and redirects `/away` to `target()`. */
async function guarded(t: Test, challenge: string, target: () => string) {
  return serve(t, (request, response) => {
    if (request.headers.authorization === undefined && !request.url?.startsWith('/open')) {
      response.writeHead(401, { 'www-authenticate': challenge }).end()
    } else if (request.url === '/away') {
      response.writeHead(302, { location: target() }).end()
    } else response.end('home')
  })
}

for (const [scheme, challenge] of Object.entries(challenges)) {
  for (const [what, host] of [
    ['port', '127.0.0.1'],
    ['host', '127.0.0.2'],
  ] as const) {
    await t.test(
      `HttpClient: a redirect to another ${what} carries no credential of the caller and no ${scheme} credentials`,
      async (t) => {
        // It requires credentials, too: the challenge of another origin must not be answered.
        const answer: Answer = (_request, response) => response.writeHead(401, { 'www-authenticate': challenge }).end()
        const other = await serve(t, answer, host)
        const { address, seen } = await guarded(t, challenge, () => other.address.href)
        const client = clientOf(t, address, '127.0.0.0/8')
        const { authorization: _authorization, ...headers } = { ...secrets, ...harmless }
        const url = new URL('/away', address)
        t.equal((await ask(client, { method: 'GET', url, headers })).status, 401)
        t.match(seen.at(-1)?.headers, {
          authorization: new RegExp(`^${scheme} `),
          'x-vendor-token': 'the-vendor-token',
        })
        const [first] = other.seen
        t.equal(other.seen.length, 1)
        if (!first) return
        assertNoSecret(t, first, 'at the other origin')
        t.match(first.headers, {
          range: 'bytes=1-2',
          'if-match': '"the-tag"',
          accept: 'text/plain',
          'user-agent': 'a test',
        })
      },
    )
  }

  await t.test(`HttpClient: a redirect back from another origin carries no ${scheme} credentials`, async (t) => {
    const other = await serve(t, (request, response) => {
      const path = request.url === '/' ? '/open' : '/closed'
      response.writeHead(302, { location: new URL(path, home.address).href }).end()
    })
    let target = other.address
    const home = await guarded(t, challenge, () => target.href)
    const client = clientOf(t, home.address, '127.0.0.0/8')
    const request = { method: 'GET', url: new URL('/away', home.address), headers: { cookie: secrets.Cookie } }
    t.same(await ask(client, request), { status: 200, text: 'home' })
    const back = home.seen.at(-1)
    t.equal(back?.url, '/open')
    if (back) assertNoSecret(t, back, 'at the first origin, after the redirect back')
    target = new URL('/again', other.address)
    const seen = home.seen.length
    t.equal((await ask(client, request)).status, 401, 'a challenge after the redirect back is not answered')
    const asked = home.seen.slice(seen).map(({ url, headers }) => [url, headers.authorization === undefined])
    t.same(asked, [
      ['/away', false],
      ['/closed', true],
    ])
  })
}

await t.test(
  'HttpClient keeps a token of the caller within its origin, also if that is not the client’s server',
  async (t) => {
    const home = await serve(t, (_request, response) => response.end('home'))
    const other = await serve(t, (request, response) => {
      const target = request.url === '/here' ? new URL('/there', other.address) : home.address
      if (request.url === '/there') response.end('there')
      else response.writeHead(302, { location: target.href }).end()
    })
    const client = clientOf(t, home.address, '127.0.0.0/8')
    const get = (path: string) =>
      ask(client, { method: 'GET', url: new URL(path, other.address), headers: { ...secrets, ...harmless } })
    t.equal((await get('/here')).text, 'there')
    t.equal(other.seen.at(-1)?.headers.authorization, secrets.authorization, 'a redirect within the origin carries it')
    t.equal((await get('/home')).text, 'home')
    const [first] = home.seen
    if (first) assertNoSecret(t, first, 'at the server of the client')
    t.equal(first?.headers.range, harmless.range)
  },
)

await t.test('HttpClient: a redirect from TLS to plain HTTP carries no credentials', async (t) => {
  const plain = await serve(t, (_request, response) => response.end('plain'))
  const files = await makeCertificate(t.testdir({}))
  const [cert, key] = await Promise.all([readFile(files.certificate), readFile(files.key)])
  const seen: IncomingMessage[] = []
  const server = createTlsServer({ cert, key }, (request, response) => {
    seen.push(request)
    if (request.headers.authorization === undefined) {
      response.writeHead(401, { 'www-authenticate': challenges.Basic }).end()
    } else response.writeHead(302, { location: plain.address.href }).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  const client = clientOf(t, address, '127.0.0.0/8', { verifiesCertificate: false })
  const headers = { cookie: secrets.Cookie, 'x-vendor-token': secrets['X-Vendor-Token'] }
  t.equal((await ask(client, { method: 'GET', url: address, headers })).text, 'plain')
  t.match(seen.at(-1)?.headers, { ...headers, authorization: /^Basic / })
  const [first] = plain.seen
  t.equal(plain.seen.length, 1)
  if (first) assertNoSecret(t, first, 'over plain HTTP')
})

await t.test(
  'HttpClient rejects redirects with credentials in the address, and redirects of requests with a body',
  async (t) => {
    const other = await serve(t, (_request, response) => response.end('elsewhere'))
    let target = ''
    const { address, seen } = await serve(t, (request, response) => {
      if (request.url === '/away') response.writeHead(307, { location: target }).end()
      else response.end('home')
    })
    const client = clientOf(t, address, '127.0.0.0/8')
    const url = new URL('/away', address)
    for (const { host } of [address, other.address]) {
      target = `http://intruder:secret@${host}/`
      await refuses(t, () => ask(client, { method: 'GET', url }), 'unavailable', target)
    }
    target = other.address.href
    await refuses(t, () => ask(client, { method: 'GET', url, body: 'a token' }), 'unavailable', 'a body')
    t.equal(other.seen.length, 0)
    t.ok(
      seen.every(({ headers }) => headers.authorization === undefined),
      'credentials of an address are never sent',
    )
  },
)

await t.test('HttpClient rejects invalid redirect targets and redirect loops', async (t) => {
  const targets: Record<string, string> = { '/file': 'file:///etc/passwd', '/circle': '/circle', '/data': 'data:,x' }
  const { address, seen } = await serve(t, (request, response) => {
    response.writeHead(302, { location: targets[request.url ?? ''] ?? 'http://[nonsense' }).end()
  })
  const client = clientOf(t, address, '0.0.0.0/0')
  for (const path of ['/file', '/data']) {
    await refuses(t, () => ask(client, { method: 'GET', url: new URL(path, address) }), 'invalid', path)
  }
  await refuses(t, () => ask(client, { method: 'GET', url: new URL('/circle', address) }), 'unavailable', 'a loop')
  t.ok(seen.length < 12)
  t.equal(
    (await client.request({ method: 'GET', url: new URL('/bad', address) })).status,
    302,
    'an unparsable target is returned as a response',
  )
})

await t.test('HttpClient repeats safe requests after Retry-After, and no others', async (t) => {
  let status = 503
  const { address, seen } = await serve(t, (_request, response) => {
    if (seen.length % 3 === 0) response.end('at last')
    else response.writeHead(status, { 'retry-after': '1' }).end()
  })
  const client = clientOf(t, address)
  const begun = Date.now()
  t.same(await ask(client, { method: 'PROPFIND', url: address, body: '<x/>' }), { status: 200, text: 'at last' })
  t.ok(Date.now() - begun >= 1900, 'after the requested pauses')
  status = 500
  t.equal((await ask(client, { method: 'GET', url: address })).status, 500, 'a permanent failure is returned at once')
  t.equal(seen.length, 4)
  status = 503
  t.equal((await ask(client, { method: 'DELETE', url: address })).status, 503, 'a change is sent once')
  t.equal(seen.length, 5)
})

await t.test('HttpClient does not repeat a request after a long Retry-After', async (t) => {
  const { address, seen } = await serve(t, (_request, response) => {
    response.writeHead(429, { 'retry-after': '3600' }).end()
  })
  t.equal((await ask(clientOf(t, address), { method: 'GET', url: address })).status, 429)
  t.equal(seen.length, 1)
})

await t.test('HttpClient sends a body only after the server has accepted the credentials', async (t) => {
  const stored: string[] = []
  const { address, seen } = await serve(t, (request, response) => {
    if (request.headers.authorization === undefined) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"', connection: 'close' }).end()
    } else if (request.url === '/moved') {
      response.writeHead(307, { location: '/here' }).end()
    } else if (request.url === '/full') {
      response.writeHead(507).end()
    } else {
      response.writeContinue()
      void text(request).then((content) => {
        stored.push(content)
        response.writeHead(201).end()
      })
    }
  })
  const client = clientOf(t, address)
  const body = upload('content')
  t.equal((await ask(client, { method: 'PUT', url: new URL('/moved', address), body })).status, 201)
  t.same([body.taken, stored], [1, ['content']], 'sent once, after a challenge and a redirect')
  const refused = upload('content')
  const answer = await client.request({ method: 'PUT', url: new URL('/full', address), body: refused })
  t.same([answer.status, refused.taken], [507, 0], 'not sent if the server refuses')
  t.ok(seen.length >= 4)
})

await t.test('HttpClient sends the body after a moment if the server does not know Expect: 100-continue', async (t) => {
  const { address } = await serve(t, (request, response) => {
    void text(request).then((content) => response.writeHead(201).end(content))
  })
  t.same(await ask(clientOf(t, address), { method: 'PUT', url: address, body: upload('x') }), {
    status: 201,
    text: 'x',
  })
})

await t.test('HttpClient reads all of a refusal that arrives while the body is sent', async (t) => {
  const { address } = await serve(t, (request, response) => {
    response.writeContinue()
    request.once('readable', () => {
      response.writeHead(403).flushHeaders()
      setTimeout(() => response.end('expired'), 50)
    })
  })
  const body = {
    size: 64 * 1024 * 1024,
    sendTo: (into: Writable) => pipeline(Readable.from(Array<Buffer>(64).fill(Buffer.alloc(1024 * 1024))), into),
  }
  t.same(await ask(clientOf(t, address), { method: 'PUT', url: address, body }), { status: 403, text: 'expired' })
})

await t.test('HttpClient times out on a server that responds early and stops reading the body', async (t) => {
  const { address } = await serve(t, (request, response) => {
    response.writeContinue()
    // The first bytes have arrived, and the rest is never read.
    request.once('readable', () => response.writeHead(200).write('fine'))
  })
  const client = clientOf(t, address, '', { idleTimeout: 300 })
  const body = {
    size: 64 * 1024 * 1024,
    sendTo: (into: Writable) => pipeline(Readable.from(Array<Buffer>(64).fill(Buffer.alloc(1024 * 1024))), into),
  }
  await refuses(t, () => client.request({ method: 'PUT', url: address, body }), 'timeout', 'the upload')
})

await t.test('HttpClient repeats a request on a connection that was closed while idle', async (t) => {
  const { address, seen } = await serve(t, (request, response) => {
    // As a server that closes a connection just as the next request arrives: the first is answered, the second is not.
    if (request.socket.bytesWritten > 0) request.socket.resetAndDestroy()
    else response.end('ok')
  })
  const client = clientOf(t, address)
  t.equal((await ask(client, { method: 'GET', url: address })).text, 'ok')
  const { status, isRetry: isRepeated, body } = await client.request({ method: 'DELETE', url: address })
  t.same(
    [status, isRepeated, await text(body)],
    [200, true, 'ok'],
    'repeated on a new connection, and marked as a retry',
  )
  t.equal(seen.length, 3)
})

await t.test('HttpClient answers every form of Digest challenge', async (t) => {
  const forms: Record<string, string> = {
    'RFC 2069': '',
    MD5: ', qop="auth", algorithm=MD5',
    'MD5-sess': ', qop="auth,auth-int", algorithm=MD5-sess, opaque="thing"',
    'SHA-256': ', qop="auth", algorithm=SHA-256',
  }
  for (const [name, parameters] of Object.entries(forms)) {
    const { address, seen } = await serve(t, (request, response) => {
      if (isRight(request)) response.end('ok')
      else
        response
          .writeHead(401, { 'www-authenticate': `Basic realm="b", Digest realm="r", nonce="n"${parameters}` })
          .end()
    })
    const client = clientOf(t, address)
    t.equal((await ask(client, { method: 'GET', url: new URL('/a%20b?c', address) })).text, 'ok', name)
    t.equal((await ask(client, { method: 'PROPFIND', url: address })).text, 'ok')
    t.equal(seen.length, 3, 'the challenge is reused for the next request')
    t.equal(
      seen.some(({ headers }) => headers.authorization?.startsWith('Basic')),
      false,
      'the password is not sent in clear',
    )
  }
})

/** Verifies a Digest response by RFC 7616 §3.4, independently of the client. */
function isRight({ method = '', url = '', headers: { authorization = '' } }: IncomingMessage): boolean {
  const found = [...authorization.matchAll(/(\w+)=(?:"([^"]*)"|([^\s,]+))/g)]
  const fields = new Map(found.map(([, key = '', quoted, plain]) => [key, quoted ?? plain ?? '']))
  const get = (key: string) => fields.get(key) ?? ''
  const algorithm = get('algorithm') || 'MD5'
  const hash = (content: string) =>
    createHash(algorithm.startsWith('SHA') ? 'sha256' : 'md5')
      .update(content)
      .digest('hex')
  let secret = hash(`${credentials.username}:r:${credentials.password}`)
  if (algorithm.endsWith('-sess')) secret = hash(`${secret}:n:${get('cnonce')}`)
  const subject = hash(`${method}:${url}`)
  const middle = get('qop') === '' ? '' : `${get('nc')}:${get('cnonce')}:auth:`
  return get('uri') === url && get('response') === hash(`${secret}:n:${middle}${subject}`)
}

await t.test('HttpClient tries a wrong password once', async (t) => {
  for (const challenge of ['Basic realm="x"', 'Digest realm="x", nonce="n", qop="auth"']) {
    let count = 0
    const { address, seen } = await serve(t, (_request, response) => {
      response.writeHead(401, { 'www-authenticate': challenge.replace('"n"', `"n${count++}"`) }).end()
    })
    t.equal((await ask(clientOf(t, address), { method: 'GET', url: address })).status, 401)
    t.equal(seen.length, 2, challenge)
  }
})

await t.test('HttpClient answers a stale Digest challenge again', async (t) => {
  let nonce = 1
  const { address, seen } = await serve(t, (request, response) => {
    if (request.headers.authorization?.includes(`nonce="n${nonce}"`) === true) response.end('ok')
    else
      response
        .writeHead(401, { 'www-authenticate': `Digest realm="r", nonce="n${nonce}", qop="auth", stale=true` })
        .end()
  })
  const client = clientOf(t, address)
  t.equal((await ask(client, { method: 'GET', url: address })).text, 'ok')
  nonce = 2
  t.equal((await ask(client, { method: 'GET', url: address })).text, 'ok')
  t.equal(seen.length, 4)
})

await t.test('HttpClient answers ten challenges of a busy server whose nonces become stale, and no more', async (t) => {
  let count = 0
  let last = 9
  const { address, seen } = await serve(t, (request, response) => {
    if (request.headers.authorization !== undefined && seen.length > last) return void response.end('ok')
    response
      .writeHead(401, { 'www-authenticate': `Digest realm="r", nonce="n${count++}", qop="auth", stale=true` })
      .end()
  })
  const client = clientOf(t, address)
  t.equal((await ask(client, { method: 'GET', url: address })).text, 'ok')
  last = Infinity
  seen.length = 0
  t.equal((await ask(client, { method: 'GET', url: address })).status, 401)
  t.equal(seen.length, 11)
})

await t.test('HttpClient answers a stale Digest challenge before it sends a body', async (t) => {
  const names = ['somebody', '用户 ü']
  for (const username of names) {
    let nonce = 1
    let patience = 0
    const { address, seen } = await serve(t, (request, response) => {
      const isFresh = request.headers.authorization?.includes(`nonce="n${nonce}"`) === true
      if (isFresh) response.writeContinue()
      else response.setHeader('www-authenticate', `Digest realm="r", nonce="n${nonce}", qop="auth", stale=true`)
      void pause(isFresh ? 0 : patience).then(async () => {
        if (!isFresh) response.writeHead(401).end()
        else response.writeHead(201).end(await text(request))
      })
    })
    const client = clientOf(t, address, '', { credentials: { ...credentials, username } })
    const send = async () => {
      const body = upload('content')
      t.same(await ask(client, { method: 'PUT', url: address, body }), { status: 201, text: 'content' })
      t.equal(body.taken, 1)
    }
    await send()
    nonce = 2
    await send()
    const sent = Buffer.from(seen.at(-1)?.headers.authorization ?? '', 'latin1').toString()
    t.match(sent, `username="${username}"`)
    nonce = 3
    // Longer than a server is waited for that has never sent 100 Continue.
    patience = 1500
    await send()
    t.equal(seen.length, 6)
  }
})

await t.test('HttpClient: a request ends with its signal and when the client is closed', async (t) => {
  const { address } = await serve(t, () => undefined)
  const client = clientOf(t, address)
  const controller = new AbortController()
  setTimeout(() => {
    controller.abort()
  }, 50)
  await refuses(
    t,
    () => client.request({ method: 'GET', url: address, signal: controller.signal }),
    'aborted',
    'signal',
  )
  const waiting = client.request({ method: 'GET', url: address })
  setTimeout(() => {
    client.close()
  }, 50)
  await refuses(t, () => waiting, 'aborted', 'close')
  await refuses(t, () => client.request({ method: 'GET', url: address }), 'aborted', 'after close')
})

await t.test('HttpClient times out on a silent server, but not on a slow reader or a slow body', async (t) => {
  const mebibyte = Buffer.alloc(1024 * 1024)
  const { address } = await serve(t, (request, response) => {
    if (request.url === '/large') for (let count = 0; count < 20; count++) response.write(mebibyte)
    if (request.url === '/large') response.end()
    else if (request.url === '/half') response.writeHead(200, { 'content-length': 100 }).write('half')
    else if (request.method === 'PUT') {
      response.writeContinue()
      void text(request).then((content) => response.end(String(content.length)))
    }
  })
  const client = clientOf(t, address, '', { idleTimeout: 300 })
  const get = (path: string) => client.request({ method: 'GET', url: new URL(path, address) })
  await refuses(t, () => get('/silent'), 'timeout', 'no response')
  const { body: half } = await get('/half')
  await t.rejects(text(half), 'a response that stalls')

  const { body: large } = await get('/large')
  await pause(1000)
  t.equal((await text(large)).length, 20 * mebibyte.length, 'a waiting reader keeps its connection')
  const slow = {
    size: 3,
    async sendTo(into: Writable) {
      await pipeline(async function* () {
        for (const part of ['a', 'b', 'c']) {
          await pause(500)
          yield part
        }
      }, into)
    },
  }
  t.equal(
    (await ask(client, { method: 'PUT', url: address, body: slow })).text,
    '3',
    'a slow body keeps its connection',
  )
})
