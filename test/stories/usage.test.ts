/** The usage of a storage, as reported to SFTP and WebDAV clients. */
import { statfs } from 'node:fs/promises'
import ssh2 from 'ssh2'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Usage } from '../../src/contract/capabilities.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { startGateway, type RunOptions, type RunningGateway } from '../gateway.js'
import { PacketClient, string } from '../protocols/sftp/packet-client.js'
import { openChannel } from '../protocols/sftp/server-fixture.js'
import { propfind, sender, texts } from '../protocols/webdav/dav-client.js'

interface Told {
  readonly total: number
  /** Including the space reserved for root. */
  readonly unused: number
  readonly available: number
}

async function toldBySftp(t: Test, { sftpPort: port, adminPassword: password }: RunningGateway): Promise<Told> {
  const ssh = new ssh2.Client()
  t.teardown(() => ssh.end())
  await new Promise<void>((resolve, reject) => {
    ssh.once('ready', resolve).on('error', reject)
    ssh.connect({ host: '127.0.0.1', port, username: 'admin', password })
  })
  const client = new PacketClient(await openChannel(ssh))
  await client.start()
  const { body } = await client.extended('statvfs@openssh.com', string('/'))
  const [, unit = 0, total = 0, unused = 0, available = 0] = [0, 8, 16, 24, 32].map((at) =>
    Number(body.readBigUInt64BE(at)),
  )
  return { total: total * unit, unused: unused * unit, available: available * unit }
}

async function toldByWebDav(running: RunningGateway): Promise<Pick<Usage, 'used' | 'free'>> {
  const asked = propfind('<D:quota-available-bytes/><D:quota-used-bytes/>')
  const { body } = await sender(running)('PROPFIND', '/', { depth: '0' }, asked)
  const number = (name: string) => Number(texts(body, name)[0])
  return { used: number('quota-used-bytes'), free: number('quota-available-bytes') }
}

const block = 4096
const reserving: AnyDriverType = {
  name: 'Reserving',
  fields: {},
  open: async () =>
    Object.assign(new MemoryDriver(0), {
      usage: async () => ({ total: 10 * block, used: 4 * block, free: 5 * block }),
    }),
}

void t.test('the space that a file system reserves for root is neither used nor available', async (t) => {
  const options: RunOptions = { driver: { name: reserving.name }, driverTypes: [reserving] }
  const running = await startGateway(t, options)
  t.same(await toldBySftp(t, running), { total: 10 * block, unused: 6 * block, available: 5 * block })
  t.same(await toldByWebDav(running), { used: 4 * block, free: 5 * block })
})

void t.test('a root without a storage of its own has no usage, and is listed over WebDAV', async (t) => {
  const running = await startGateway(t)
  const { storages } = running.gateway
  for (const { id, ...row } of storages.list()) await storages.update(id, { ...row, mountPath: '/below' })
  const asked = propfind('<D:resourcetype/><D:quota-available-bytes/>')
  const { status, body } = await sender(running)('PROPFIND', '/', { depth: '1' }, asked)
  t.equal(status, 207)
  t.match(body, /<D:href>\/dav\/below\/<\/D:href>/)
  t.match(body, /quota-available-bytes\/>.*404 Not Found/s)
})

void t.test('the usage of a local disk is that of statfs', async (t) => {
  const running = await startGateway(t)
  const { bsize, blocks, bfree, bavail } = await statfs(running.dataFolder)
  const { total, unused, available } = await toldBySftp(t, running)
  const { used, free } = await toldByWebDav(running)
  // Other processes write to the same disk.
  const isNear = (one: number, other: number) => Math.abs(one - other) < 0.01 * total
  t.ok(isNear(total, blocks * bsize), 'total')
  t.ok(isNear(unused, bfree * bsize), 'not used, by SFTP')
  t.ok(isNear(available, bavail * bsize), 'available, by SFTP')
  t.ok(isNear(used, (blocks - bfree) * bsize), 'used, by WebDAV')
  t.ok(isNear(free, bavail * bsize), 'available, by WebDAV')
})
