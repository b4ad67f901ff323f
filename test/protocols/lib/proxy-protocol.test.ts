/** The PROXY protocol: its headers, connections that a proxy forwards, and what no proxy may send. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { parseHeader } from '../../../protocols/lib/proxy-protocol.js'
import { startGateway } from '../../gateway.js'
import { lacks } from '../../programs.js'
import { startHaproxy } from '../../servers/haproxy.js'

const run = promisify(execFile)

const signature = '0d0a0d0a000d0a515549540a'
/** A header of version 2, in hexadecimal: the version and command, the family, and the rest without its length. */
const binary = (command: string, family: string, rest: string) =>
  Buffer.from(`${signature}${command}${family}${(rest.length / 2).toString(16).padStart(4, '0')}${rest}`, 'hex')
const ports = 'd4311451'
const ipv4 = `c0000201cb007101${ports}`
const ipv6 = `20010db8000000000000000000000001${'0'.repeat(32)}${ports}`

void t.test('headers of both versions name the client, or the proxy itself', async (t) => {
  const line = (text: string) => Buffer.from(`${text}\r\n`)
  for (const [header, client] of [
    [line('PROXY TCP4 192.0.2.1 203.0.113.1 54321 5222'), '192.0.2.1'],
    [line('PROXY TCP6 2001:db8::1 2001:db8::2 54321 5222'), '2001:db8::1'],
    [line('PROXY UNKNOWN'), undefined],
    [line('PROXY UNKNOWN ffff::1 ffff::2 1 2'), undefined],
    [binary('21', '11', ipv4), '192.0.2.1'],
    [binary('21', '11', `${ipv4}0400024142`), '192.0.2.1'],
    [binary('21', '21', ipv6), '2001:db8::1'],
    [binary('21', '00', ''), undefined],
    [binary('21', '31', '00'.repeat(216)), undefined],
    [binary('20', '11', ipv4), undefined],
    [binary('20', '00', ''), undefined],
  ] as const) {
    t.same(parseHeader(Buffer.concat([header, Buffer.from('SSH-2.0-x')])), { length: header.length, client })
    for (let length = 0; length < header.length; length++) {
      t.equal(parseHeader(header.subarray(0, length)), undefined, `${length} bytes are not enough`)
    }
  }
})

void t.test('anything else is refused as soon as it can be told', async (t) => {
  for (const bytes of [
    'GET / HTTP/1.1\r\n',
    'SSH-2.0-x\r\n',
    'PROXX',
    'PROXY TCP4 192.0.2.1\r\n',
    'PROXY TCP4 2001:db8::1 192.0.2.1 1 2\r\n',
    'PROXY TCP4 192.0.2.1 203.0.113.1 1 2 3\r\n',
    'PROXY TCP4 192.0.2.01 203.0.113.1 1 2\r\n',
    'PROXY UDP4 192.0.2.1 203.0.113.1 1 2\r\n',
    `PROXY TCP4 ${'1'.repeat(200)}`,
  ]) {
    t.throws(() => parseHeader(Buffer.from(bytes)), /PROXY header/, bytes)
  }
  for (const bytes of [
    binary('11', '11', ipv4),
    binary('22', '11', ipv4),
    binary('21', '11', ipv4.slice(2)),
    binary('21', '21', ipv4),
    binary('21', '11', '00'.repeat(5000)),
  ]) {
    t.throws(() => parseHeader(bytes), /PROXY header/, bytes.toString('hex'))
  }
})

/** A gateway behind HAProxy, whose connections come from 127.0.0.1. */
async function behindProxy(t: Test) {
  const running = await startGateway(t, { config: { proxy_protocol: ['127.0.0.1/32'] } })
  return { ...running, httpPort: Number(new URL(running.url).port) }
}

/** Signs in with a wrong password, from this address. Resolves to the code of the response. */
async function signInFrom(localAddress: string, port: number): Promise<number> {
  const options = { host: '127.0.0.1', port, localAddress, path: '/api/auth/login', method: 'POST', agent: false }
  const request = httpRequest({ ...options, headers: { 'content-type': 'application/json' } })
  request.end(JSON.stringify({ username: 'admin', password: 'wrong' }))
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string
  return (JSON.parse(text) as { code: number }).code
}

void t.test('over HTTP, each client behind HAProxy is locked out by itself', { skip: lacks('haproxy') }, async (t) => {
  const { httpPort } = await behindProxy(t)
  const { v1, v2 } = await startHaproxy(t, httpPort)
  let code = 0
  for (let count = 0; count < 30 && code !== 429; count++) {
    code = await signInFrom('127.1.0.1', count % 2 === 0 ? v1 : v2)
    if (count === 0) t.equal(code, 400)
  }
  t.equal(code, 429, 'the client is locked out')
  for (const port of [v1, v2]) t.equal(await signInFrom('127.2.0.1', port), 400, 'another client is not')
})

void t.test('bodies of any size follow the header', { skip: lacks('haproxy', 'curl') }, async (t) => {
  const { httpPort, adminPassword, dataFolder } = await behindProxy(t)
  const { v1, v2 } = await startHaproxy(t, httpPort)
  const body = randomBytes(3_000_000)
  const upload = async (port: number, ...words: readonly string[]) => {
    const url = `http://127.0.0.1:${port}/dav/file-${port}`
    const sent = run('curl', [
      '--silent',
      '--fail',
      '--user',
      `admin:${adminPassword}`,
      '--upload-file',
      '-',
      ...words,
      url,
    ])
    sent.child.stdin?.end(body)
    await sent
    t.ok((await readFile(join(dataFolder, 'files', `file-${port}`))).equals(body))
  }
  await upload(v1)
  await upload(v2)
  await upload(httpPort, '--haproxy-protocol')
})

void t.test('over SFTP, sessions of clients behind HAProxy work', { skip: lacks('haproxy') }, async (t) => {
  const { sftpPort, adminPassword } = await behindProxy(t)
  const { v1, v2 } = await startHaproxy(t, sftpPort)
  for (const port of [v1, v2]) {
    const client = new ssh2.Client()
    client.connect({ host: '127.0.0.1', port, username: 'admin', password: adminPassword })
    await once(client, 'ready')
    const path = await new Promise((resolve, reject) => {
      client.sftp((error, sftp) => {
        if (error) reject(error)
        else sftp.realpath('.', (failure, found) => resolve(failure?.message ?? found))
      })
    })
    t.equal(path, '/')
    client.end()
    await once(client, 'close')
  }
})

void t.test('connections without a valid header are closed, and harm no other', async (t) => {
  const { httpPort, sftpPort } = await behindProxy(t)
  const closed = (port: number, text: string | undefined) =>
    new Promise<string>((resolve) => {
      let received = ''
      const socket = connect(port, '127.0.0.1', () => text !== undefined && socket.write(text))
      socket.on('data', (chunk: Buffer) => (received += chunk.toString('latin1')))
      socket.on('error', () => undefined)
      socket.on('close', () => resolve(received))
    })
  t.equal(await closed(httpPort, 'GET /ping HTTP/1.1\r\nHost: x\r\n\r\n'), '')
  t.equal(await closed(sftpPort, 'SSH-2.0-x\r\n'), '')
  t.equal(await closed(sftpPort, undefined), '', 'a silent connection is closed after some seconds')
  t.match(await closed(httpPort, 'PROXY UNKNOWN\r\nGET /ping HTTP/1.0\r\n\r\n'), /pong$/)
})

void t.test('from other addresses, a header is no header', async (t) => {
  const { url, sftpPort } = await startGateway(t, { config: { proxy_protocol: ['198.51.100.0/24'] } })
  t.equal(await (await fetch(`${url}/ping`)).text(), 'pong')
  const header = await new Promise<string>((resolve) => {
    const socket = connect(sftpPort, '127.0.0.1')
    socket.once('data', (chunk: Buffer) => {
      resolve(chunk.toString('latin1'))
      socket.destroy()
    })
  })
  t.match(header, /^SSH-2\.0-Tidegate/)
})
