/** Uploads whose connection breaks, with the setting that preserves partial uploads. */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { sftp } from '../../../protocols/sftp/index.js'
import { asPath } from '../../../src/base/path.js'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from './packet-client.js'
import { openChannel, password, serveProtocol, startProtocol, type Running } from './server-fixture.js'

const { read, write, create, truncate, exclusive } = flags

async function keeping(t: Test): Promise<Running> {
  const protocol = await startProtocol(t)
  await keep(protocol, true)
  return protocol
}

const keep = ({ gateway }: Running, on: boolean) =>
  gateway.settings.set(new Map([['sftp_keep_partial_uploads', String(on)]]))

async function connected(protocol: Running) {
  const ssh = await protocol.connect()
  const client = new PacketClient(await openChannel(ssh))
  await client.start()
  /** Breaks the connection. Resolves when the protocol has noticed. */
  const cut = async () => {
    const gone = once(ssh, 'close')
    ssh.destroy()
    await gone
    await wait(200)
  }
  return { client, cut }
}

/** Begins an upload that the test can interrupt. */
async function begin(protocol: Running, path: string, content: string, how = write | create | truncate) {
  const { client, cut } = await connected(protocol)
  const handle = await client.mustOpen(path, how)
  t.equal(await client.write(handle, 0, content), status.ok)
  return { client, cut, handle }
}

void t.test('an interrupted upload to a new name is stored under this name', async (t) => {
  const protocol = await keeping(t)
  const { cut } = await begin(protocol, '/new', 'half of')
  const { client: other } = await connected(protocol)
  t.equal(await other.get('/new'), status.noSuchFile, 'it does not exist before')
  await cut()
  t.equal(await other.get('/new'), 'half of')
  const handle = await other.mustOpen('/new', write | create)
  await other.write(handle, 7, ' it all')
  await other.close(handle)
  t.equal(await other.get('/new'), 'half of it all')
})

void t.test('an interrupted upload with EXCL is stored, too', async (t) => {
  const protocol = await keeping(t)
  const { cut } = await begin(protocol, '/exclusive', 'half', read | write | create | exclusive)
  await cut()
  t.equal(await (await connected(protocol)).client.get('/exclusive'), 'half')
})

void t.test('an interrupted upload does not replace an existing file', async (t) => {
  const protocol = await keeping(t)
  const { client: other } = await connected(protocol)
  await other.put('/old', 'the old one')
  const { cut } = await begin(protocol, '/old', 'new')
  await cut()
  t.equal(await other.get('/old'), 'the old one')
})

void t.test('an interrupted upload does not replace a file that another session has created meanwhile', async (t) => {
  const protocol = await keeping(t)
  const { client: other } = await connected(protocol)
  for (const how of [write | create | truncate, write | create | exclusive]) {
    const { cut } = await begin(protocol, '/raced', 'half', how)
    t.equal(await other.put('/raced', 'somebody else’s'), status.ok)
    await cut()
    t.equal(await other.get('/raced'), 'somebody else’s')
    await other.status(13, string('/raced'))
  }
})

void t.test('only the bytes before the first gap are stored', async (t) => {
  const protocol = await keeping(t)
  const { client, cut, handle } = await begin(protocol, '/gap', 'first')
  await client.write(handle, 1000, 'last')
  await client.status(types.fsetstat, string(handle), uint32(1), uint64(5000))
  await client.write(handle, 5, ', second')
  await cut()
  t.equal(await (await connected(protocol)).client.get('/gap'), 'first, second')
})

void t.test('nothing is stored of a removed file or of an upload without bytes', async (t) => {
  const protocol = await keeping(t)
  const removed = await begin(protocol, '/removed', 'half')
  await removed.client.status(13, string('/removed'))
  const empty = await begin(protocol, '/empty', '')
  await removed.cut()
  await empty.cut()
  const { client } = await connected(protocol)
  t.same([...(await client.list('/')).keys()].sort(), ['.', '..'])
})

void t.test('nothing is stored if the account is disabled', async (t) => {
  const protocol = await keeping(t)
  await begin(protocol, '/barred', 'half')
  const ada = protocol.gateway.accounts.users.byName('ada')
  await protocol.gateway.accounts.users.update(ada?.id ?? 0, { disabled: true })
  await wait(300)
  await protocol.gateway.accounts.users.update(ada?.id ?? 0, { disabled: false })
  t.equal(await (await connected(protocol)).client.stat('/barred'), status.noSuchFile)
})

void t.test('the setting at the time of the interruption applies', async (t) => {
  const protocol = await keeping(t)
  const one = await begin(protocol, '/one', 'half')
  await keep(protocol, false)
  await one.cut()
  const other = await begin(protocol, '/other', 'half')
  await keep(protocol, true)
  await other.cut()
  const { client } = await connected(protocol)
  t.equal(await client.get('/one'), status.noSuchFile)
  t.equal(await client.get('/other'), 'half')
})

void t.test('stop() stores the uploads that it interrupts', async (t) => {
  const protocol = await keeping(t)
  await begin(protocol, '/stopped', 'half')
  await protocol.protocol.stop(AbortSignal.abort())
  const { accounts } = protocol.gateway
  const ada = await accounts.signIn.byPassword(
    { username: 'ada', password: { plain: password }, address: '127.0.0.1' },
    sftp,
  )
  t.equal((await protocol.gateway.as(ada).stat(asPath('/stopped'))).size, 4)
})

void t.test('stop() waits for partial uploads that a slow storage takes seconds to store', async (t) => {
  const memory = new MemoryDriver(0)
  const open: MemoryDriver['open'] = async (...call) => {
    const file = await memory.open(...call)
    const commit: typeof file.commit = async (...options) => {
      await wait(6000)
      return file.commit?.(...options) as never
    }
    return { ...file, ...(file.commit && { commit }) }
  }
  const driverTypes = [{ name: 'Slow', fields: {}, open: async () => altered(memory, { open }) }]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Slow' }, driverTypes })
  const protocol = await serveProtocol(t, gateway)
  await keep(protocol, true)
  await begin(protocol, '/stopped', 'half')
  const { cut } = await begin(protocol, '/cut before', 'half')
  await cut()
  await protocol.protocol.stop(AbortSignal.abort())
  t.equal((await memory.stat(asPath('/stopped'))).size, 4)
  t.equal((await memory.stat(asPath('/cut before'))).size, 4)
})
