/** A storage that returns a few bytes at a time: what every protocol sends, and what is copied, is complete. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import type { Driver } from '../../src/contract/driver.js'
import { flaky } from '../drivers/flaky.js'
import { startGateway } from '../gateway.js'
import { altered } from '../tree/tree-fixture.js'
import { connectAll } from './protocols.js'
import { connect, ended } from './task-client.js'

const fault = { kind: 'short', bytes: 7 } as const

/** `Handles` returns a few bytes from handles and streams. `Streams` has no handles. */
const drivers: Readonly<Record<string, () => Driver>> = {
  Handles: () => new MemoryDriver(0),
  Streams: () => altered(new MemoryDriver(0), { open: undefined }),
}

const driverTypes: readonly AnyDriverType[] = Object.entries(drivers).map(([name, driver]) => ({
  name,
  fields: {},
  open: async () =>
    flaky(driver(), [
      { method: 'open', fault },
      { method: 'read', fault },
    ]).driver,
}))

/** One that is sent with its header section, and one that is not. */
const files: Readonly<Record<string, Buffer>> = { small: randomBytes(5000), large: randomBytes(70_001) }

void t.test('files of a storage that returns a few bytes at a time arrive complete', async (t) => {
  const running = await startGateway(t, { driverTypes })
  const { gateway, adminPassword: password, davUrl } = running
  const [first] = gateway.storages.list()
  if (!first) throw new Error('nothing is mounted')
  const { id: _id, ...like } = first
  const clients = await connectAll(running, { username: 'admin', password })
  t.teardown(() => Promise.all(clients.map((client) => client.close())))
  const [http] = clients
  if (!http) throw new Error('no client')
  const tasks = await connect(running)
  const headers = { Authorization: `Basic ${Buffer.from(`admin:${password}`).toString('base64')}` }

  for (const driver of Object.keys(drivers)) {
    await gateway.storages.create({ ...like, mountPath: `/${driver}`, driver, addition: '{}' })
    for (const folder of ['task', 'dav']) t.equal(await http.makeFolder(`/${folder} ${driver}`), 'done')
    const isWhole = async (client: typeof http, path: string, content: Buffer) => {
      const got = await client.get(path)
      t.ok(Buffer.isBuffer(got) && got.equals(content), `${path} over ${client.protocol}`)
    }
    for (const [name, content] of Object.entries(files)) {
      const path = `/${driver}/${name}`
      t.equal(await http.put(path, content), 'done')
      for (const client of clients) await isWhole(client, path, content)
      const ranged = await fetch(`${davUrl}${driver}/${name}`, { headers: { ...headers, Range: 'bytes=11-4000' } })
      t.ok(Buffer.from(await ranged.arrayBuffer()).equals(content.subarray(11, 4001)), `a range of ${path}`)

      await tasks.post('/api/fs/copy', { src_dir: `/${driver}`, dst_dir: `/task ${driver}`, names: [name] })
      t.notMatch(await ended(tasks, 'copy'), [{ error: /./ }])
      await isWhole(http, `/task ${driver}/${name}`, content)
      const copied = await fetch(`${davUrl}${driver}/${name}`, {
        method: 'COPY',
        headers: { ...headers, Destination: `${davUrl}dav%20${driver}/${name}` },
      })
      t.equal(copied.status, 201)
      await isWhole(http, `/dav ${driver}/${name}`, content)
    }
  }
})
