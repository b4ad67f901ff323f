/** How SFTP connections end: when the server stops, and after the idle timeout. */
import { once } from 'node:events'
import t from 'tap'
import { flags, PacketClient, status } from './packet-client.js'
import { openChannel, startProtocol } from './server-fixture.js'

void t.test('stop() closes idle connections, accepts no new ones, and waits for open files', async (t) => {
  const protocol = await startProtocol(t)
  const idle = await protocol.connect()
  const idleGone = once(idle, 'close')
  const client = new PacketClient(await openChannel(await protocol.connect()))
  await client.start()
  const handle = await client.mustOpen('/last', flags.write | flags.create | flags.truncate)
  const stopped = protocol.protocol.stop(new AbortController().signal)
  await idleGone
  await t.rejects(protocol.connect())
  t.equal(await client.write(handle, 0, 'bytes'), status.ok)
  t.equal(await client.close(handle), status.ok)
  await stopped
})

void t.test('stop() ends all connections when its signal aborts', async (t) => {
  const protocol = await startProtocol(t)
  const client = new PacketClient(await openChannel(await protocol.connect()))
  await client.start()
  await client.mustOpen('/never', flags.write | flags.create | flags.truncate)
  const over = new AbortController()
  const stopped = protocol.protocol.stop(over.signal)
  over.abort()
  await stopped
})

void t.test('a connection without requests is closed after the idle timeout', async (t) => {
  const protocol = await startProtocol(t, { idleSeconds: 0.5 })
  const client = await protocol.connect()
  await once(client, 'close')
})
