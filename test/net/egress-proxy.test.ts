/** The proxy for external programs: it opens tunnels to permitted addresses, for clients with the password. */
import type { LookupAddress } from 'node:dns'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EgressProxy, type ProxyAccess } from '../../src/net/egress-proxy.js'
import { EgressGuard } from '../../src/net/egress.js'

const names = new Map([
  ['here.example', ['127.0.0.1']],
  ['inside.example', ['127.0.0.2', '10.0.0.1']],
  ['mixed.example', ['127.0.0.2', '127.0.0.1']],
])
const guard = new EgressGuard(
  () => '127.0.0.1/32',
  (hostname, _options, done) => {
    const found = names.get(hostname) ?? []
    done(
      null,
      found.map((address): LookupAddress => ({ address, family: 4 })),
    )
  },
)

/** A server that answers with everything it received once the client has ended its side. */
async function startEcho(t: Test): Promise<{ readonly port: number; readonly asked: Socket[] }> {
  const asked: Socket[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    asked.push(socket)
    socket.on('error', () => undefined)
    let said = ''
    socket.on('data', (chunk: Buffer) => (said += chunk.toString()))
    socket.on('end', () => socket.end(`you said ${said}`))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of asked) socket.destroy()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, asked }
}

async function opened(t: Test): Promise<{ readonly proxy: EgressProxy; readonly access: ProxyAccess }> {
  const proxy = new EgressProxy(guard, async () => 'a password')
  t.teardown(() => proxy.close())
  return { proxy, access: await proxy.open('127.0.0.1:0') }
}

function dialled({ address }: ProxyAccess): Socket {
  const socket = connect({ port: Number(address.split(':')[1]), host: '127.0.0.1', allowHalfOpen: true })
  socket.on('error', () => undefined)
  return socket
}

/** The response to a request head, and to the body that follows it. */
async function answerTo(access: ProxyAccess, head: string, body = ''): Promise<string> {
  const socket = dialled(access)
  socket.end(`${head}\r\n\r\n${body}`)
  return text(socket)
}

function asking(target: string, { password }: ProxyAccess, username = 'somebody'): string {
  const credentials = Buffer.from(`${username}:${password}`).toString('base64')
  return `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Basic ${credentials}`
}

void t.test('the proxy tunnels every byte to a permitted address', async (t) => {
  const { access } = await opened(t)
  const { port } = await startEcho(t)
  const established = 'HTTP/1.1 200 Connection established\r\n\r\n'
  for (const host of ['127.0.0.1', 'here.example', 'mixed.example']) {
    t.equal(await answerTo(access, asking(`${host}:${port}`, access), 'hello'), `${established}you said hello`, host)
  }
  const much = 'much '.repeat(1_000_000)
  const answer = await answerTo(access, asking(`127.0.0.1:${port}`, access), much)
  t.ok(answer === `${established}you said ${much}`, `${answer.length} bytes`)
})

void t.test('the proxy rejects every other request without a connection to the target', async (t) => {
  const { proxy, access } = await opened(t)
  const { port, asked } = await startEcho(t)
  const inside = ['127.0.0.2', 'inside.example', 'unknown.example', '[::1]', '[::ffff:127.0.0.2]', '[64:ff9b::7f00:2]']
  for (const host of inside) {
    const user = Buffer.from(host).toString('hex')
    t.match(await answerTo(access, asking(`${host}:${port}`, access, user)), /^HTTP\/1.1 403 /, host)
    t.match(proxy.takeRefusal(user), { code: 'denied' }, 'the refusal is recorded for the user')
    t.equal(proxy.takeRefusal(user), undefined, 'takeRefusal() returns it once')
  }
  t.match(await answerTo(access, asking('127.0.0.1:1', access)), /^HTTP\/1.1 502 /, 'no server listens')
  for (const target of ['127.0.0.1', ':80', `127.0.0.1:${port}/path`, '127.0.0.1:99999']) {
    t.match(await answerTo(access, asking(target, access)), /^HTTP\/1.1 400 /, target)
  }
  for (const password of ['', `${access.password}x`, access.password.slice(1)]) {
    const told = await answerTo(access, asking(`127.0.0.1:${port}`, { ...access, password }))
    t.match(told, /^HTTP\/1.1 407 /, 'a wrong password')
  }
  t.match(await answerTo(access, asking(`127.0.0.1:${port}`, access, '')), /^HTTP\/1.1 407 /, 'no user name')
  t.match(await answerTo(access, `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: x`), /^HTTP\/1.1 407 /, 'no credentials')
  const plain = await answerTo(access, `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}`)
  t.match(plain, /^HTTP\/1.1 405 /, 'not a CONNECT request')
  t.equal(asked.length, 0)
})

void t.test('the number of connections is limited', async (t) => {
  const { access } = await opened(t)
  const held = Array.from({ length: 256 }, () => dialled(access))
  await Promise.all(held.map((socket) => once(socket, 'connect')))
  const late = dialled(access)
  t.equal(await text(late).catch(() => ''), '', 'one more is closed at once')
  for (const socket of held) socket.destroy()
})

void t.test(
  'the proxy listens until it is closed or moved to another address, and then ends open tunnels',
  async (t) => {
    const { proxy, access } = await opened(t)
    const { port, asked } = await startEcho(t)
    t.same(await proxy.open('127.0.0.1:0'), access, 'opened again at the same address')
    const socket = dialled(access)
    socket.write(`${asking(`127.0.0.1:${port}`, access)}\r\n\r\n`)
    await once(socket, 'data')
    const ends = once(socket.resume(), 'end')
    const elsewhere = await proxy.open('localhost:0')
    await ends
    t.match(elsewhere.address, /^localhost:\d+$/)
    while (!asked.every((each) => each.readableEnded)) await delay(5)
    await t.rejects(once(dialled(access), 'connect'), { code: 'ECONNREFUSED' })
    const taken = new EgressProxy(guard, async () => 'a password')
    await t.rejects(taken.open(`127.0.0.1:${port}`), { code: 'unavailable', reason: /cannot listen on 127.0.0.1:\d+/ })
    t.match(await taken.open('127.0.0.1:0'), { address: /^127/ }, 'another address works')
    taken.close()
  },
)
