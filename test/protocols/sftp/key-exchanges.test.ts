/** Key exchanges: the algorithms, and how many a network may begin. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import t from 'tap'
import { KeyExchanges } from '../../../protocols/sftp/key-exchanges.js'
import { openChannel, startProtocol } from './server-fixture.js'

void t.test(
  'a network begins some key exchanges at once, others as time passes, and none after a long wait',
  async (t) => {
    const exchanges = new KeyExchanges({ burst: 100, perSecond: 20 })
    const reserve = (address: string, now = 1000) => exchanges.reserve(address, now)?.wait
    const waits = Array.from({ length: 400 }, () => reserve('192.0.2.1'))
    t.same(
      waits.slice(0, 100),
      Array.from({ length: 100 }, (_, index) => index * 10),
      'spaced by 10 ms',
    )
    t.equal(waits[299], 200 * 50, 'by the rate')
    t.equal(waits.filter((wait) => wait !== undefined).length, 100 + 200, 'a wait of at most 10 s')
    t.equal(reserve('192.0.2.2'), 0, 'other networks do not wait')
    t.equal(reserve('192.0.2.1', 1000 + 15_000), 0, 'what has been refused is not counted')
    t.equal(reserve('2001:db8:1:2::1'), 0)
    t.equal(reserve('2001:db8:1:2:3::1'), 10, 'an IPv6 network is a /64')
    t.equal(reserve('2001:db8:1:3::1'), 0)
  },
)

void t.test('a turn that is returned does not count', async (t) => {
  const exchanges = new KeyExchanges({ burst: 2, perSecond: 1 })
  const turns = Array.from({ length: 20 }, () => exchanges.reserve('192.0.2.1', 0))
  const given = turns.flatMap((turn) => turn ?? [])
  t.same(
    given.map(({ wait }) => wait),
    [0, 10, ...Array.from({ length: 10 }, (_, index) => 1000 * (index + 1))],
  )
  for (const turn of given.slice(2)) turn.release()
  t.equal(exchanges.reserve('192.0.2.1', 0)?.wait, 1000, 'as if they had not been given')
  t.equal(exchanges.reserve('192.0.2.1', 0)?.wait, 2000)
})

void t.test('a connection that ends before its key exchange returns its turn', async (t) => {
  const running = await startProtocol(t, { keyExchanges: { burst: 1, perSecond: 0.25 } })
  const { descriptors } = running.gateway
  const before = descriptors.held
  const until = async (count: number) => {
    while (descriptors.held - before !== count) await turnOfLoop()
  }
  // The second and the third wait for 4 and 8 seconds; another would wait for more than 10.
  const sockets = Array.from({ length: 3 }, () => connect(running.port, '127.0.0.1').on('error', () => undefined))
  await until(3)
  for (const socket of sockets) socket.resetAndDestroy()
  await until(0)
  const client = await running.connect()
  client.end()
})

void t.test('connections over the limit are closed before the key exchange, and others are served', async (t) => {
  const running = await startProtocol(t, { keyExchanges: { burst: 2, perSecond: 0.01 } })
  const first = await running.connect()
  const second = await running.connect()
  const refused = connect(running.port, '127.0.0.1')
  let received = 0
  refused.on('data', (chunk: Buffer) => (received += chunk.length)).on('error', () => undefined)
  await once(refused, 'close')
  t.equal(received, 0, 'not even an identification')
  for (const client of [first, second]) client.end()
})

void t.test('a client that exchanges its keys again and again is slowed down, then disconnected', async (t) => {
  const running = await startProtocol(t, { keyExchanges: { burst: 3, perSecond: 0.01 } })
  const client = await running.connect()
  const { _protocol: protocol } = client as unknown as { readonly _protocol: { rekey(): void } }
  let exchanges = 0
  client.on('error', () => undefined)
  client.on('handshake', () => {
    exchanges++
    protocol.rekey()
  })
  protocol.rekey()
  await once(client, 'close')
  t.ok(exchanges <= 4, `${exchanges} exchanges`)
})

void t.test('new connections of a network do not end one that exchanges its keys anew', async (t) => {
  const running = await startProtocol(t, { keyExchanges: { burst: 2, perSecond: 0.01 } })
  const client = await running.connect()
  await running.connect()
  await t.rejects(running.connect(), 'the network has no key exchange left')
  const { _protocol: protocol } = client as unknown as { readonly _protocol: { rekey(): void } }
  const exchanged = once(client, 'handshake')
  protocol.rekey()
  await exchanged
  await openChannel(client)
})

void t.test('the groups that take a multiple of the time of the others are not offered', async (t) => {
  const running = await startProtocol(t)
  for (const kex of ['diffie-hellman-group16-sha512', 'diffie-hellman-group18-sha512'] as const) {
    await t.rejects(running.connect({ algorithms: { kex: [kex] } }), { message: /no matching key exchange/ }, kex)
  }
  for (const kex of ['curve25519-sha256', 'diffie-hellman-group14-sha256'] as const) {
    const client = await running.connect({ algorithms: { kex: [kex] } })
    client.end()
  }
})
