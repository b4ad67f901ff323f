import { once } from 'node:events'
import t from 'tap'
import { openChannel, startDoor } from './door-fixture.js'
import { flags, PacketClient, status } from './packet-client.js'

void t.test('stop waits for open files, accepts nobody, and ends who has none', async (t) => {
  const door = await startDoor(t)
  const idle = await door.connect()
  const idleGone = once(idle, 'close')
  const client = new PacketClient(await openChannel(await door.connect()))
  await client.start()
  const handle = await client.mustOpen('/last', flags.write | flags.create | flags.truncate)
  const stopped = door.door.stop(new AbortController().signal)
  await idleGone
  await t.rejects(door.connect())
  t.equal(await client.write(handle, 0, 'bytes'), status.ok)
  t.equal(await client.close(handle), status.ok)
  await stopped
})

void t.test('stop ends everybody when its time is over, and drops what was not closed', async (t) => {
  const door = await startDoor(t)
  const client = new PacketClient(await openChannel(await door.connect()))
  await client.start()
  await client.mustOpen('/never', flags.write | flags.create | flags.truncate)
  const over = new AbortController()
  const stopped = door.door.stop(over.signal)
  over.abort()
  await stopped
})

void t.test('a connection without a request for too long ends', async (t) => {
  const door = await startDoor(t, { idleSeconds: 0.5 })
  const client = await door.connect()
  await once(client, 'close')
})
