/** The PROXY protocol: its headers, connections that a proxy forwards, and what no proxy may send. */
import { execFile } from 'node:child_process'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { parseHeader } from '../../../protocols/lib/proxy-protocol.js'
import { startGateway } from '../../gateway.js'
import { lacks } from '../../programs.js'

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

/** A proxy of TCP before `port`, which sends this header first. */
async function forward(t: Test, port: number, header: Buffer): Promise<number> {
  const sockets = new Set<Socket>()
  const proxy = createServer((client) => {
    const server = connect(port, '127.0.0.1')
    for (const socket of [client, server]) sockets.add(socket.on('error', () => undefined))
    server.write(header)
    client.pipe(server).pipe(client)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  })
  return (proxy.address() as AddressInfo).port
}

/** A gateway that expects a header of every local connection. */
async function behindProxy(t: Test) {
  const running = await startGateway(t, { config: { proxy_protocol: ['127.0.0.1'] } })
  return { ...running, httpPort: Number(new URL(running.url).port) }
}

const signIn = JSON.stringify({ username: 'admin', password: 'wrong' })

void t.test('over HTTP, each client behind the proxy is locked out by itself', { skip: lacks('curl') }, async (t) => {
  const { httpPort } = await behindProxy(t)
  const attempt = async (port: number) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', connection: 'close' },
      body: signIn,
    })
    return ((await response.json()) as { code: number }).code
  }
  const one = await forward(t, httpPort, binary('21', '11', ipv4))
  const other = await forward(t, httpPort, binary('21', '21', ipv6))
  let codes: number[] = []
  for (let count = 0; count < 30 && codes.at(-1) !== 429; count++) codes = [...codes, await attempt(one)]
  t.equal(codes[0], 400)
  t.equal(codes.at(-1), 429, 'the client is locked out')
  t.equal(await attempt(other), 400, 'another client is not')
  // A body that follows the header at once, and one that needs more packets.
  const large = 'x'.repeat(300_000)
  for (const body of ['', large]) {
    const words = ['--silent', '--haproxy-protocol', '--data-binary', '@-', `http://127.0.0.1:${httpPort}/ping`]
    const curl = run('curl', words)
    curl.child.stdin?.end(body)
    t.equal((await curl).stdout, 'pong')
  }
})

void t.test('over SFTP, sessions of clients behind the proxy work', async (t) => {
  const { sftpPort, adminPassword } = await behindProxy(t)
  const connectTo = (port: number, password: string) =>
    new Promise<string>((resolve) => {
      const client = new ssh2.Client()
      client.on('error', (error) => resolve(error.message))
      client.on('ready', () => {
        client.sftp((error, sftp) => {
          if (error) resolve(error.message)
          else sftp.realpath('.', (failure, path) => resolve(failure?.message ?? path))
        })
      })
      t.teardown(() => client.end())
      client.connect({ host: '127.0.0.1', port, username: 'admin', password })
    })
  for (const header of [binary('21', '11', ipv4), Buffer.from('PROXY TCP4 192.0.2.9 203.0.113.1 1 2\r\n')]) {
    t.equal(await connectTo(await forward(t, sftpPort, header), adminPassword), '/')
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
  const port = await forward(t, httpPort, binary('20', '00', ''))
  t.equal(await (await fetch(`http://127.0.0.1:${port}/ping`)).text(), 'pong')
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
