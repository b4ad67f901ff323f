/** Requests for the handle of a file that is being renamed. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { flags, names, PacketClient, status, string } from './packet-client.js'
import { openChannel, serveProtocol } from './server-fixture.js'

const { write, create, truncate } = flags

void t.test('WRITEs that follow a RENAME without waiting for it change the renamed file', async (t) => {
  const memory = new MemoryDriver(0)
  const slow = altered(memory, {
    move: async (...call) => {
      await memory.move(...call)
      await wait(100)
    },
  })
  const driverTypes = [{ name: 'Slow', fields: {}, open: async () => slow }]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Slow' }, driverTypes })
  const client = new PacketClient(await openChannel(await (await serveProtocol(t, gateway)).connect()))
  await client.start()
  const handle = await client.mustOpen('/a', write | create | truncate)
  t.equal(await client.write(handle, 0, 'first'), status.ok)
  const answers = await Promise.all([
    client.status(names.rename, string('/a'), string('/b')),
    client.write(handle, 5, ' second'),
    client.close(handle),
  ])
  t.same(answers, [status.ok, status.ok, status.ok])
  t.equal(await client.get('/b'), 'first second')
  t.equal(await client.get('/a'), status.noSuchFile)

  const failing = await client.mustOpen('/c', write | create | truncate)
  const refused = await Promise.all([
    client.status(names.rename, string('/c'), string('/b')),
    client.write(failing, 0, 'content'),
    client.close(failing),
  ])
  t.same(refused.slice(1), [status.ok, status.ok], 'a rename that fails holds nothing up')
  t.not(refused[0], status.ok)
  t.equal(await client.get('/c'), 'content')
})
