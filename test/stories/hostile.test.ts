/** Malformed input for every protocol: each is rejected with an error, and the daemon continues. */
import { randomBytes, randomInt } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Client, type ClientChannel } from 'ssh2'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { connectAll, connectHttp } from './protocols.js'

const rounds = Number(process.env.TIDEGATE_FUZZ_ROUNDS ?? 150)

interface Reply {
  readonly status: number
  readonly text: string
}

/** Sends a raw request that no HTTP library would send. */
function raw(port: number, bytes: Buffer, patience = 3000): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const chunks: Buffer[] = []
    const timer = setTimeout(() => socket.destroy(), patience)
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(Buffer.concat(chunks).toString('latin1'))
    })
  })
}

function call(
  daemon: Daemon,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string | Buffer,
): Promise<Reply> {
  const { hostname, port } = new URL(daemon.url)
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, method, path, headers, setHost: true }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

async function token(daemon: Daemon): Promise<string> {
  const body = JSON.stringify({ username: 'admin', password: daemon.adminPassword })
  const reply = await call(daemon, 'POST', '/api/auth/login', { 'Content-Type': 'application/json' }, body)
  return (JSON.parse(reply.text) as { data: { token: string } }).data.token
}

const climbing = [
  '..',
  '../etc/passwd',
  '/../../etc/passwd',
  'a/../../b',
  '..\\..\\etc',
  '%2e%2e/%2e%2e/etc/passwd',
  '/./../x',
  '..%2f..%2fetc',
  '/a/..',
]

void t.test('hostile input', async (t) => {
  const daemon = await startDaemon(t)
  const port = Number(new URL(daemon.url).port)
  const authorization = await token(daemon)
  const basic = { Authorization: `Basic ${Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')}` }
  const json = { 'Content-Type': 'application/json', Authorization: authorization }
  const alive = async () => (await call(daemon, 'GET', '/ping', {})).text === 'pong'
  const protocols = await connectAll(daemon, { username: 'admin', password: daemon.adminPassword })
  t.teardown(() => Promise.all(protocols.map((protocol) => protocol.close())))
  await protocols[0]?.put('/kept', Buffer.from('kept'))

  await t.test('JSON bodies', async (t) => {
    const endpoints = [
      'auth/login',
      'auth/login/hash',
      'fs/list',
      'fs/get',
      'fs/dirs',
      'fs/mkdir',
      'fs/rename',
      'fs/move',
      'fs/copy',
      'fs/remove',
      'me/sshkey/add',
    ]
    const bodies = [
      '{',
      '[]',
      '"text"',
      '{"path":',
      'nul',
      '{"path":{}}',
      '{"path":[1]}',
      '{"names":"x"}',
      '{"names":[1,{}]}',
      '{"page":"x"}',
      '{"page":-1e99}',
      '{"per_page":1e309}',
      '\u0000',
      '{"path":"\\u0000"}',
      '{"username":7,"password":[]}',
      `{"path":"${'a/'.repeat(5000)}"}`,
    ]
    for (const endpoint of endpoints) {
      for (const body of bodies) {
        const reply = await call(daemon, 'POST', `/api/${endpoint}`, json, body)
        const { code, message } = JSON.parse(reply.text) as { code: number; message: string }
        t.ok(
          reply.status === 200 &&
            Number.isInteger(code) &&
            message.length > 0 &&
            message.length < 500 &&
            !/\bat .*\.[jt]s:\d+/.test(message),
          `${endpoint} ${body.slice(0, 30)}: ${code} ${message}`,
        )
      }
    }
    const large = await call(daemon, 'POST', '/api/fs/list', json, `{"path":"${'x'.repeat(3 << 20)}"}`).catch(() => ({
      status: 0,
      text: '',
    }))
    t.ok(
      large.status === 0 || (JSON.parse(large.text) as { code: number }).code !== 200,
      'an oversized body is rejected',
    )
    t.ok(await alive())
  })

  await t.test('paths with .. in every field', async (t) => {
    for (const path of climbing) {
      const fields: readonly [string, object][] = [
        ['list', { path }],
        ['get', { path }],
        ['mkdir', { path: `/${path}` }],
        ['rename', { path: '/kept', name: path }],
        ['rename', { path, name: 'x' }],
        ['move', { src_dir: '/', dst_dir: '/', names: [path] }],
        ['copy', { src_dir: path, dst_dir: '/', names: ['kept'] }],
        ['remove', { dir: '/', names: [path] }],
        ['remove', { dir: path, names: ['kept'] }],
      ]
      for (const [endpoint, body] of fields) {
        const reply = await call(daemon, 'POST', `/api/fs/${endpoint}`, json, JSON.stringify(body))
        const { code } = JSON.parse(reply.text) as { code: number }
        const literal = path.includes('%') && code === 200
        t.ok(literal || code !== 200, `${endpoint} ${JSON.stringify(body)}: ${code}`)
      }
      const put = await call(daemon, 'PUT', '/api/fs/put', { Authorization: authorization, 'File-Path': path }, 'x')
      t.not(
        (JSON.parse(put.text) as { code: number }).code === 200 && !path.includes('%') && !path.startsWith('a/'),
        true,
        `File-Path: ${path}`,
      )
      const dav = await call(daemon, 'PUT', `/dav/${path.replaceAll('\\', '%5C')}`, basic, 'x')
      t.ok(dav.status >= 400 || dav.status === 201, `PUT /dav/${path}: ${dav.status}`)
      await call(daemon, 'GET', `/d/${path.replaceAll('\\', '%5C')}`, {})
    }
    const kept = await protocols[0]?.get('/kept')
    t.same(kept, Buffer.from('kept'))
    t.ok(await alive())
  })

  await t.test('percent-escapes, control characters and ranges', async (t) => {
    const targets = [
      '/dav/%',
      '/dav/%zz',
      '/dav/%00',
      '/dav/%0a',
      '/dav/%c3%28',
      '/d/%',
      '/d/%zz?sign=x',
      '/p/%ff',
      '/dav/%2e%2e/%2e%2e/x',
      '/%zz',
      '//',
      '/dav//////',
      '/dav/kept%00.txt',
    ]
    for (const target of targets) {
      for (const method of [
        'GET',
        'PUT',
        'DELETE',
        'MKCOL',
        'PROPFIND',
        'COPY',
        'MOVE',
        'LOCK',
        'UNLOCK',
        'PROPPATCH',
        'OPTIONS',
        'HEAD',
        'BREW',
      ]) {
        const reply = await raw(
          port,
          Buffer.from(
            `${method} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic.Authorization}\r\nDestination: /dav/%zz\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
          ),
        )
        t.match(reply, /^HTTP\/1\.1 \d{3} /, `${method} ${target}`)
      }
    }
    for (const value of [
      '(<urn:x>)',
      '<',
      '(',
      '(<a>',
      '()',
      '(Not)',
      '<http://x/%zz> (<t>)',
      '(["x])',
      '((((',
      '\u00ff',
      'x'.repeat(6000),
    ]) {
      for (const method of ['PUT', 'DELETE', 'MOVE', 'LOCK', 'PROPPATCH']) {
        const head = `${method} /dav/no HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic.Authorization}\r\nIf: ${value}\r\nDestination: http://x/dav/y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
        t.match(
          await raw(port, Buffer.from(head, 'latin1')),
          /^HTTP\/1\.1 [24]\d\d /,
          `${method} If: ${value.slice(0, 30)}`,
        )
      }
    }
    for (const range of [
      'bytes=-0',
      'bytes=5-1',
      'bytes=99999999999999999999-',
      'bytes=--1',
      'bytes=0-0,1-1,2-2',
      'bytes=a-b',
      'lines=1-2',
      `bytes=${'0-1,'.repeat(2000)}0-1`,
      'bytes=-99999999999999999999',
    ]) {
      const reply = await call(daemon, 'GET', '/dav/kept', { ...basic, Range: range })
      t.ok([200, 206, 416].includes(reply.status), `Range: ${range.slice(0, 40)}: ${reply.status}`)
    }
    t.ok(await alive())
  })

  await t.test('XML', async (t) => {
    const bodies = [
      '<',
      '<a>',
      '<!DOCTYPE x [<!ENTITY a "b">]><D:propfind xmlns:D="DAV:"><D:allprop/></D:propfind>',
      '<propfind/>',
      '&a;',
      `<D:propfind xmlns:D="DAV:">${'<a>'.repeat(20_000)}`,
      '\u0000',
      '<D:propfind xmlns:D="DAV:"><D:prop><E:x/></D:prop></D:propfind>',
      'x'.repeat(2 << 20),
    ]
    for (const body of bodies) {
      for (const method of ['PROPFIND', 'PROPPATCH', 'LOCK', 'MKCOL']) {
        const reply = await call(daemon, method, '/dav/kept', { ...basic, Depth: '0' }, body).catch(() => ({
          status: 413,
        }))
        t.ok(reply.status >= 400 && reply.status < 500, `${method} ${body.slice(0, 30)}: ${reply.status}`)
      }
    }
    t.ok(await alive())
  })

  await t.test('garbage on the SSH port', async (t) => {
    for (let round = 0; round < rounds; round++) {
      const head = round % 2 === 0 ? Buffer.from('SSH-2.0-fuzz\r\n') : Buffer.alloc(0)
      await raw(daemon.sftpPort, Buffer.concat([head, randomBytes(randomInt(1, 4000))]), 300)
    }
    t.ok(await alive())
    t.same(await protocols[2]?.get('/kept'), Buffer.from('kept'), 'an open session continues')
  })

  await t.test('truncated and garbled SFTP packets', async (t) => {
    const packet = (type: number, ...parts: readonly (number | string | Buffer)[]): Buffer => {
      const body = Buffer.concat([
        Buffer.from([type]),
        ...parts.map((part) => {
          const bytes = typeof part === 'number' ? Buffer.alloc(4) : Buffer.from(part)
          if (typeof part === 'number') bytes.writeUInt32BE(part)
          if (typeof part !== 'string') return bytes
          const length = Buffer.alloc(4)
          length.writeUInt32BE(bytes.length)
          return Buffer.concat([length, bytes])
        }),
      ])
      const length = Buffer.alloc(4)
      length.writeUInt32BE(body.length)
      return Buffer.concat([length, body])
    }
    // A garbled request may be a valid one that removes or truncates this file, but must not affect other files.
    await protocols[0]?.put('/fuzzed', Buffer.from('fuzzed'))
    const good = [
      packet(1, 3),
      packet(17, 1, '/fuzzed'),
      packet(3, 2, '/fuzzed', 1, 0),
      packet(11, 3, '/'),
      packet(5, 4, Buffer.from([0, 0, 0, 4, 0, 0, 0, 0]), 0, 0, 100),
      packet(12, 5, 'nonsense'),
      packet(200, 6, 'unknown@example'),
    ]
    for (let round = 0; round < rounds; round++) {
      const stream = Buffer.concat(good)
      const bytes = Buffer.from(stream.subarray(0, randomInt(1, stream.length + 1)))
      for (let flips = randomInt(0, 6); flips > 0; flips--) bytes[randomInt(bytes.length)] = randomInt(256)
      await subsystem(daemon, bytes)
    }
    t.ok(await alive())
    t.same(await protocols[2]?.get('/kept'), Buffer.from('kept'))
  })

  await t.test('uploads that are cut off', async (t) => {
    for (let round = 0; round < 20; round++) {
      const protocol =
        round % 2 === 0
          ? `PUT /dav/kept HTTP/1.1\r\nAuthorization: ${basic.Authorization}`
          : `PUT /api/fs/put HTTP/1.1\r\nAuthorization: ${authorization}\r\nFile-Path: %2Fkept`
      await raw(
        port,
        Buffer.concat([
          Buffer.from(`${protocol}\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n`),
          randomBytes(randomInt(500_000)),
        ]),
        50,
      )
    }
    await wait(300)
    t.same(await protocols[1]?.get('/kept'), Buffer.from('kept'), 'the old file is unchanged')
    const http = await connectHttp(daemon, { username: 'admin', password: daemon.adminPassword })
    t.ok((await http.names('/')).includes('kept'))
    t.ok(await alive())
  })

  t.equal(daemon.exited, false, 'the daemon is still running')
})

/** Sends these bytes on an SFTP channel, and disconnects. */
function subsystem(daemon: Daemon, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const client = new Client()
    const done = () => {
      client.end()
      resolve()
    }
    client.on('error', done).on('close', () => resolve())
    client.on('ready', () =>
      client.subsys('sftp', (error: Error | undefined, channel: ClientChannel) => {
        if (error) {
          done()
          return
        }
        channel.on('error', () => undefined)
        channel.on('close', done)
        channel.resume()
        channel.write(bytes, () => setTimeout(() => channel.end(), 5))
        setTimeout(done, 500).unref()
      }),
    )
    client.connect({ host: '127.0.0.1', port: daemon.sftpPort, username: 'admin', password: daemon.adminPassword })
  })
}
