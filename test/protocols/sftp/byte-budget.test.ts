/** The memory for SFTP sessions is shared fairly: stalled sessions do not block others. */
import type { Socket } from 'node:net'
import { setTimeout as turn } from 'node:timers/promises'
import ssh2 from 'ssh2'
import t from 'tap'
import { ByteBudget } from '../../../protocols/sftp/byte-budget.js'
import { allPermissions } from '../../../src/accounts/principal.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from './packet-client.js'
import { openChannel, password, startProtocol } from './server-fixture.js'

const mebibyte = 1024 * 1024

void t.test('the budget is divided among the sessions that hold bytes', async (t) => {
  const budget = new ByteBudget(16 * mebibyte)
  t.equal(budget.share, 4 * mebibyte, 'the maximum for one session')
  t.notOk(budget.isScarce)
  for (let session = 0; session < 8; session++) budget.update(0, 100)
  t.equal(budget.share, 2 * mebibyte)
  t.ok(budget.isScarce)
  budget.update(100, 300)
  t.equal(budget.share, 2 * mebibyte, 'a session that holds more is not counted twice')
  t.notOk(budget.allows(2 * mebibyte))
  t.ok(budget.allows(2 * mebibyte - 1))
  for (let session = 0; session < 1_000_000; session++) budget.update(0, 1)
  t.ok(budget.allows(0), 'one request at a time is always allowed')
  t.notOk(budget.allows(1000))
  for (let session = 0; session < 1_000_004; session++) budget.update(1, 0)
  t.equal(budget.share, 4 * mebibyte)
})

void t.test('sessions that do not read their responses do not block others', async (t) => {
  const protocol = await startProtocol(t, { bytes: mebibyte, sessions: 100 })
  const ssh = await protocol.connect()
  const session = async () => {
    const client = new PacketClient(await openChannel(ssh))
    await client.start()
    return client
  }
  const writer = await session()
  t.equal(await writer.put('/file', Buffer.alloc(8 * mebibyte, 7)), status.ok)
  const greedy = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const other = await protocol.connect()
      const client = new PacketClient(await openChannel(other))
      await client.start()
      const handle = await client.mustOpen('/file', flags.read)
      client.channel.pause()
      for (let at = 0; at < 64; at++) {
        void client.ask(types.read, string(handle), uint64(at * 100_000), uint32(100_000))
      }
      return { other, client }
    }),
  )
  const handle = await writer.mustOpen('/file', flags.read)
  const all = await Promise.all(Array.from({ length: 64 }, (_, at) => writer.read(handle, at * 100_000, 100_000)))
  t.ok(all.every((bytes) => typeof bytes !== 'number' && bytes.length === 100_000))
  for (const { other } of greedy) other.end()
  t.equal(await writer.put('/after', Buffer.alloc(mebibyte)), status.ok)
})

void t.test('a user whose sessions hold too many unread bytes loses a connection, and nobody else does', async (t) => {
  const protocol = await startProtocol(t, { heldBytes: 8 * mebibyte })
  const { gateway } = protocol
  const facts = {
    password,
    basePath: '/',
    role: 'general',
    permission: allPermissions,
    disabled: false,
    ssoId: '',
  } as const
  await gateway.accounts.users.create({ username: 'bob', ...facts })
  const bob = new PacketClient(await openChannel(await protocol.connect({ username: 'bob' })))
  await bob.start()
  t.equal(await bob.put('/file', Buffer.alloc(8 * mebibyte, 7)), status.ok)
  let ended = 0
  const flooding = Array.from({ length: 10 }, async () => {
    const ssh = await protocol.connect()
    ssh.once('close', () => ended++)
    const client = new PacketClient(await openChannel(ssh))
    await client.start()
    const handle = await client.mustOpen('/file', flags.read)
    client.channel.pause()
    const fields = Buffer.concat([Buffer.from([types.read]), uint32(1), string(handle), uint64(0), uint32(100_000)])
    const request = Buffer.concat([uint32(fields.length), fields])
    // Without responses, these fill the window of the channel.
    client.channel.write(Buffer.concat(Array.from({ length: 70_000 }, () => request)))
  })
  await Promise.all(flooding)
  while (ended === 0) await turn(10)
  t.equal(((await bob.stat('/file')) as { size: number }).size, 8 * mebibyte)
  t.ok(ended < 10, 'the user keeps a share')
})

void t.test('a client that has not signed in and does not read the replies is disconnected', async (t) => {
  const { port } = await startProtocol(t)
  const client = new ssh2.Client()
  t.teardown(() => client.end())
  client.on('error', () => undefined)
  await new Promise<void>((resolve) => {
    client.once('handshake', () => resolve())
    // It never tries to sign in.
    client.connect({ host: '127.0.0.1', port, username: 'x', authHandler: () => undefined })
  })
  const { _sock: socket, _protocol: protocol } = client as unknown as {
    readonly _sock: Socket
    readonly _protocol: { ping(): void }
  }
  socket.pause()
  for (let sent = 0; !socket.destroyed && sent < 2_000_000; sent++) {
    protocol.ping()
    if (sent % 1000 === 0) await turn(1)
  }
  t.ok(socket.destroyed)
})
