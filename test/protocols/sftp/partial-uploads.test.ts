/** What is left of an upload whose connection breaks, where the setting says that it is kept to be resumed. */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asPath } from '../../../src/path.js'
import { openChannel, password, startDoor, type Running } from './door-fixture.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from './packet-client.js'

const { read, write, create, truncate, exclusive } = flags

async function keeping(t: Test): Promise<Running> {
  const door = await startDoor(t)
  await keep(door, true)
  return door
}

const keep = ({ gateway }: Running, on: boolean) =>
  gateway.settings.set(new Map([['sftp_keep_partial_uploads', String(on)]]))

async function connected(door: Running) {
  const ssh = await door.connect()
  const client = new PacketClient(await openChannel(ssh))
  await client.start()
  /** The connection breaks; resolves when the door knows. */
  const cut = async () => {
    const gone = once(ssh, 'close')
    ssh.destroy()
    await gone
    await wait(200)
  }
  return { client, cut }
}

/** Begins an upload, and breaks it off. */
async function begin(door: Running, path: string, content: string, how = write | create | truncate) {
  const { client, cut } = await connected(door)
  const handle = await client.mustOpen(path, how)
  t.equal(await client.write(handle, 0, content), status.ok)
  return { client, cut, handle }
}

void t.test('an upload to a new name stays under it', async (t) => {
  const door = await keeping(t)
  const { cut } = await begin(door, '/new', 'half of')
  const { client: other } = await connected(door)
  t.equal(await other.get('/new'), status.noSuchFile, 'nobody sees it before')
  await cut()
  t.equal(await other.get('/new'), 'half of')
  const handle = await other.mustOpen('/new', write | create)
  await other.write(handle, 7, ' it all')
  await other.close(handle)
  t.equal(await other.get('/new'), 'half of it all')
})

void t.test('with EXCL, too', async (t) => {
  const door = await keeping(t)
  const { cut } = await begin(door, '/exclusive', 'half', read | write | create | exclusive)
  await cut()
  t.equal(await (await connected(door)).client.get('/exclusive'), 'half')
})

void t.test('an old file stays whole', async (t) => {
  const door = await keeping(t)
  const { client: other } = await connected(door)
  await other.put('/old', 'the old one')
  const { cut } = await begin(door, '/old', 'new')
  await cut()
  t.equal(await other.get('/old'), 'the old one')
})

void t.test('a file that somebody else put there meanwhile stays whole', async (t) => {
  const door = await keeping(t)
  const { client: other } = await connected(door)
  for (const how of [write | create | truncate, write | create | exclusive]) {
    const { cut } = await begin(door, '/raced', 'half', how)
    t.equal(await other.put('/raced', 'somebody else’s'), status.ok)
    await cut()
    t.equal(await other.get('/raced'), 'somebody else’s')
    await other.status(13, string('/raced'))
  }
})

void t.test('only what came without a gap is kept', async (t) => {
  const door = await keeping(t)
  const { client, cut, handle } = await begin(door, '/gap', 'first')
  await client.write(handle, 1000, 'last')
  await client.status(types.fsetstat, string(handle), uint32(1), uint64(5000))
  await client.write(handle, 5, ', second')
  await cut()
  t.equal(await (await connected(door)).client.get('/gap'), 'first, second')
})

void t.test('nothing is kept of a file that was removed, nor of one without bytes', async (t) => {
  const door = await keeping(t)
  const removed = await begin(door, '/removed', 'half')
  await removed.client.status(13, string('/removed'))
  const empty = await begin(door, '/empty', '')
  await removed.cut()
  await empty.cut()
  const { client } = await connected(door)
  t.same([...(await client.list('/')).keys()].sort(), ['.', '..'])
})

void t.test('who loses the right to write leaves nothing', async (t) => {
  const door = await keeping(t)
  await begin(door, '/barred', 'half')
  const ada = door.gateway.accounts.users.byName('ada')
  await door.gateway.accounts.users.update(ada?.id ?? 0, { disabled: true })
  await wait(300)
  await door.gateway.accounts.users.update(ada?.id ?? 0, { disabled: false })
  t.equal(await (await connected(door)).client.stat('/barred'), status.noSuchFile)
})

void t.test('the setting counts at the moment of the break', async (t) => {
  const door = await keeping(t)
  const one = await begin(door, '/one', 'half')
  await keep(door, false)
  await one.cut()
  const other = await begin(door, '/other', 'half')
  await keep(door, true)
  await other.cut()
  const { client } = await connected(door)
  t.equal(await client.get('/one'), status.noSuchFile)
  t.equal(await client.get('/other'), 'half')
})

void t.test('a stop of the server keeps what it breaks off', async (t) => {
  const door = await keeping(t)
  await begin(door, '/stopped', 'half')
  await door.door.stop(AbortSignal.abort())
  const { accounts } = door.gateway
  const ada = await accounts.byPassword(
    { username: 'ada', password: { plain: password }, address: '127.0.0.1' },
    'sftp',
  )
  t.equal((await door.gateway.as(ada).stat(asPath('/stopped'))).size, 4)
})
