/** The protocol at the level of packets, by the sections of the draft. */
import { statfs } from 'node:fs/promises'
import type { Duplex } from 'node:stream'
import type { Client } from 'ssh2'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { permissionBits } from '../../../src/accounts/principal.js'
import type { Driver } from '../../../src/contract/driver.js'
import { asPath } from '../../../src/base/path.js'
import { startGateway } from '../../gateway.js'
import { altered } from '../../tree/tree-fixture.js'
import { tidegate } from './conformance/servers.js'
import {
  flags,
  symlinkTypes,
  names,
  noAttributes,
  PacketClient,
  permissions,
  status,
  string,
  types,
  uint32,
  uint64,
} from './packet-client.js'
import { openChannel, password, serveProtocol, startProtocol, type Running } from './server-fixture.js'
import { until } from '../../until.js'

let running: Running
let ssh: Client
t.before(async () => {
  running = await startProtocol(t, { sessions: 100 })
  ssh = await running.connect()
})

async function session(client = ssh): Promise<PacketClient> {
  const packets = new PacketClient(await openChannel(client))
  await packets.start()
  return packets
}

const { read, write, append, create, truncate, exclusive } = flags

void t.test('VERSION is 3 and lists the extensions', async (t) => {
  const client = new PacketClient(await openChannel(ssh))
  const version = await client.start()
  t.equal(version.readUInt32BE(0), 3)
  for (const name of ['posix-rename@openssh.com', 'fsync@openssh.com', 'copy-data']) {
    t.ok(version.includes(name), name)
  }
  client.channel.end()
})

void t.test('EOF of the client is answered with exit status 0 and a closed channel', async (t) => {
  const client = await session()
  const exit = new Promise((resolve) => client.channel.once('exit', resolve))
  client.channel.end()
  t.equal(await exit, 0)
  await client.closed
})

void t.test('requests before EOF are still answered', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/last words', write | create | truncate)
  const written = client.write(handle, 0, 'done')
  const closed = client.close(handle)
  client.channel.end()
  t.same([await written, await closed], [status.ok, status.ok])
  await client.closed
  t.equal(await (await session()).get('/last words'), 'done')
})

void t.test('a new file is published at CLOSE, and its own session sees it before', async (t) => {
  const [writer, other] = [await session(), await session()]
  const handle = await writer.mustOpen('/new', write | create | truncate)
  t.equal(await writer.write(handle, 0, 'hello'), status.ok)
  t.match(await writer.stat('/new'), { size: 5 })
  t.match(await writer.stat('/new', types.lstat), { size: 5 })
  t.match(await writer.fstat(handle), { size: 5 })
  t.ok((await writer.list('/')).has('new'))
  t.equal(await other.stat('/new'), status.noSuchFile)
  t.equal(await writer.close(handle), status.ok)
  t.match(await other.stat('/new'), { size: 5 })
  t.equal(await other.get('/new'), 'hello')
})

void t.test('requests after pipelined WRITEs see the written bytes, as sshfs and git require', async (t) => {
  const client = await session()
  for (const flags of [write | create | truncate, write]) {
    const handle = await client.mustOpen('/pipelined', flags)
    const size = flags === write ? 40_000 : 30_000
    const writes = [0, 10_000, 20_000, size - 10_000].map((offset) => client.write(handle, offset, 'x'.repeat(10_000)))
    const seen = [client.stat('/pipelined'), client.stat('/pipelined', types.lstat), client.fstat(handle)]
    const listed = client.list('/')
    t.same(await Promise.all(writes), [status.ok, status.ok, status.ok, status.ok])
    for (const told of await Promise.all(seen)) t.match(told, { size })
    t.match((await listed).get('pipelined'), new RegExp(` ${size} `))
    t.equal(await client.close(handle), status.ok)
  }
})

void t.test('a file that is being written has the permission bits of its OPEN', async (t) => {
  const client = await session()
  for (const [path, flags] of [
    ['/tool', write | create | truncate],
    ['/other tool', write | create | exclusive],
  ] as const) {
    const handle = await client.mustOpen(path, flags, permissions(0o755))
    t.match(await client.stat(path), { mode: 0o100755 })
    t.match(await client.fstat(handle), { mode: 0o100755 })
    t.equal(await client.close(handle), status.ok)
    t.match(await client.stat(path), { mode: 0o100755 })
  }
})

void t.test('an overwritten file is unchanged until CLOSE and after a lost connection', async (t) => {
  const client = await session()
  await client.put('/old', 'the old bytes')
  const connection = await running.connect()
  const writer = await session(connection)
  const handle = await writer.mustOpen('/old', write | create | truncate)
  t.equal(await writer.write(handle, 0, 'half'), status.ok)
  t.equal(await client.get('/old'), 'the old bytes')
  connection.end()
  await writer.closed
  t.equal(await client.get('/old'), 'the old bytes')
})

void t.test('CREAT with EXCL reserves the name at once, and releases it when the connection is lost', async (t) => {
  const client = await session()
  const connection = await running.connect()
  const writer = await session(connection)
  const handle = await writer.mustOpen('/claimed', write | create | exclusive)
  t.equal(await client.open('/claimed', write | create | exclusive), status.failure)
  t.match(await client.stat('/claimed'), { size: 0 })
  await writer.write(handle, 0, 'half')
  connection.end()
  await until(async () => (await client.stat('/claimed')) === status.noSuchFile)
  t.equal(await client.stat('/claimed'), status.noSuchFile)
  const again = await client.mustOpen('/claimed', write | create | exclusive)
  await client.write(again, 0, 'mine')
  t.equal(await client.close(again), status.ok)
  t.equal(await client.get('/claimed'), 'mine')
})

void t.test('a name that CREAT with EXCL reserves is released without the permission to remove', async (t) => {
  const { users } = running.gateway.accounts
  const permission = permissionBits.write | permissionBits.sftpRead | permissionBits.sftpManage
  await users.create({
    username: 'bob',
    password,
    basePath: '/',
    role: 'general',
    permission,
    disabled: false,
    ssoId: '',
  })
  const client = await session()
  const bob = users.byName('bob')
  const ends: Readonly<Record<string, (connection: Client) => unknown>> = {
    '/cut': (connection) => connection.end(),
    '/revoked': () => users.update(bob?.id ?? 0, { disabled: true }),
  }
  for (const [path, end] of Object.entries(ends)) {
    const connection = await running.connect({ username: 'bob' })
    const writer = await session(connection)
    await writer.mustOpen(path, write | create | exclusive)
    t.match(await client.stat(path), { size: 0 })
    await end(connection)
    await until(async () => (await client.stat(path)) === status.noSuchFile)
    t.equal(await client.stat(path), status.noSuchFile, path)
  }
})

void t.test('a hard link over a file that the session writes is refused as a hard link', async () => {
  const client = await session()
  await client.put('/linked', 'bytes')
  await client.mustOpen('/staged', write | create | truncate)
  const answer = await client.extended('hardlink@openssh.com', string('/linked'), string('/staged'))
  t.equal(answer.body.readUInt32BE(0), status.failure)
  t.match(answer.body.toString(), 'make hard link: /staged')
})

void t.test('OPEN without TRUNC keeps the content', async (t) => {
  const client = await session()
  await client.put('/kept', '0123456789')
  const handle = await client.mustOpen('/kept', read | write | create)
  t.equal(await client.write(handle, 3, 'abc'), status.ok)
  t.same(await client.read(handle, 2, 5), Buffer.from('2abc6'))
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.get('/kept'), '012abc6789')
})

void t.test('APPEND writes at the end, at any offset of the request', async (t) => {
  const client = await session()
  await client.put('/log', 'one ')
  const handle = await client.mustOpen('/log', write | append)
  const both = [client.write(handle, 0, 'two '), client.write(handle, 0, 'three')]
  t.same(await Promise.all(both), [status.ok, status.ok])
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.get('/log'), 'one two three')
})

void t.test('WRITEs may have any order, and gaps are filled with zeros', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/sparse', read | write | create | truncate)
  await Promise.all([client.write(handle, 8, 'end'), client.write(handle, 0, 'go')])
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.get('/sparse'), 'go\0\0\0\0\0\0end')
})

void t.test('pipelined WRITEs and READs of one handle are executed in order', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/order', read | write | create | truncate)
  const answers = []
  for (let round = 0; round < 50; round++) {
    void client.write(handle, 0, String(round).padStart(2, '0'))
    answers.push(client.read(handle, 0, 2))
  }
  const seen = (await Promise.all(answers)).map((bytes) => bytes.toString())
  t.same(
    seen,
    seen.map((_, round) => String(round).padStart(2, '0')),
  )
  await client.close(handle)
})

void t.test('pipelined requests for one name are executed in order', async (t) => {
  const client = await session()
  const all = [
    client.status(names.mkdir, string('/line'), noAttributes),
    client.status(names.mkdir, string('/line/below'), noAttributes),
    client.status(names.rename, string('/line/below'), string('/line/renamed')),
    client.status(names.rmdir, string('/line/renamed')),
    client.status(names.rmdir, string('/line')),
  ]
  t.same(
    await Promise.all(all),
    all.map(() => status.ok),
  )
})

void t.test('READ returns the full length, then the rest, then EOF', async (t) => {
  const client = await session()
  await client.put('/bytes', Buffer.alloc(300_000, 'b'))
  const handle = await client.mustOpen('/bytes', read)
  t.equal(((await client.read(handle, 0, 200_000)) as Buffer).length, 200_000)
  t.equal(((await client.read(handle, 0, 1_000_000)) as Buffer).length, 255 * 1024)
  t.equal(((await client.read(handle, 299_990, 100)) as Buffer).length, 10)
  t.equal(await client.read(handle, 300_000, 100), status.eof)
  t.equal(await client.read(handle, 2n ** 63n, 100), status.eof)
  t.same(await client.read(handle, 0, 0), Buffer.alloc(0))
  t.equal(await client.write(handle, 0, 'x'), status.failure)
  await client.close(handle)
})

void t.test('REMOVE of a file that is being written discards it', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/gone', write | create | truncate)
  await client.write(handle, 0, 'x')
  t.equal(await client.status(names.remove, string('/gone')), status.ok)
  t.equal(await client.stat('/gone'), status.noSuchFile)
  t.equal(await client.write(handle, 1, 'y'), status.ok)
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.stat('/gone'), status.noSuchFile)
})

void t.test('RENAME of a file that is being written publishes it first, and the handle remains valid', async (t) => {
  const client = await session()
  const handle = await client.mustOpen('/a.part', write | create | truncate)
  await client.write(handle, 0, 'first ')
  t.equal(await client.status(names.rename, string('/a.part'), string('/a.whole')), status.ok)
  t.equal(await client.get('/a.whole'), 'first ')
  t.equal(await client.write(handle, 6, 'second'), status.ok)
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.get('/a.whole'), 'first second')
  t.equal(await client.stat('/a.part'), status.noSuchFile)
})

void t.test('RENAME never replaces; posix-rename replaces as rename(2) does', async (t) => {
  const client = await session()
  const posix = async (from: string, to: string) =>
    (await client.extended('posix-rename@openssh.com', string(from), string(to))).body.readUInt32BE(0)
  await client.put('/r1', 'one')
  await client.put('/r2', 'two')
  t.equal(await client.status(names.rename, string('/r1'), string('/r2')), status.failure)
  t.equal(await client.get('/r2'), 'two')
  t.equal(await posix('/r1', '/r2'), status.ok)
  t.equal(await client.get('/r2'), 'one')
  for (const folder of ['/full', '/full/in', '/empty']) await client.status(names.mkdir, string(folder), noAttributes)
  t.equal(await posix('/r2', '/empty'), status.failure, 'a file over a folder')
  t.equal(await posix('/empty', '/full'), status.failure, 'a folder over a non-empty one')
  t.equal(await posix('/empty', '/r2'), status.noSuchFile, 'a folder over a file: ENOTDIR')
  t.equal(await posix('/full', '/empty'), status.ok, 'a folder over an empty one')
  t.ok((await client.list('/empty')).has('in'))
})

void t.test('SETSTAT truncates, sets times, and ignores attributes that cannot be stored', async (t) => {
  const client = await session()
  await client.put('/set', '0123456789')
  const setstat = (...attributes: readonly Buffer[]) => client.status(types.setstat, string('/set'), ...attributes)
  t.equal(await setstat(uint32(1), uint64(4)), status.ok)
  t.equal(await client.get('/set'), '0123')
  t.equal(await setstat(uint32(8), uint32(1), uint32(1_600_000_000)), status.ok)
  t.match(await client.stat('/set'), { modified: 1_600_000_000 })
  t.equal(await setstat(uint32(2), uint32(1), uint32(1)), status.ok)
  t.equal(await client.status(types.setstat, string('/nothing'), uint32(2), uint32(1), uint32(1)), status.noSuchFile)
  const handle = await client.mustOpen('/set', write | create | truncate)
  await client.write(handle, 0, 'dated')
  t.equal(await client.status(types.fsetstat, string(handle), uint32(8), uint32(1), uint32(1_500_000_000)), status.ok)
  await client.close(handle)
  t.match(await client.stat('/set'), { size: 5, modified: 1_500_000_000 })
})

void t.test('FSETSTAT of the size requires a writing handle; other attributes do not', async (t) => {
  const client = await session()
  await client.put('/kept', '0123456789')
  const reading = await client.mustOpen('/kept', read)
  const cut = [uint32(1), uint64(4)]
  t.equal(await client.status(types.fsetstat, string(reading), ...cut), status.failure)
  t.equal(
    await client.status(types.fsetstat, string(reading), uint32(1 | 8), uint64(4), uint32(1), uint32(1)),
    status.failure,
  )
  const untouched = await client.stat('/kept')
  t.match(untouched, { size: 10 })
  t.notMatch(untouched, { modified: 1 }, 'no other attribute of the request is set')
  t.equal(await client.status(types.fsetstat, string(reading), uint32(8), uint32(1), uint32(1_500_000_000)), status.ok)
  const writing = await client.mustOpen('/kept', write)
  t.equal(
    await client.status(types.fsetstat, string(reading), ...cut),
    status.failure,
    'also while another handle writes',
  )
  t.equal(await client.status(types.fsetstat, string(writing), ...cut), status.ok)
  await client.close(writing)
  await client.close(reading)
  t.equal(await client.get('/kept'), '0123')
})

void t.test('a listing has the dots, long names, and every name once', async (t) => {
  const client = await session()
  await client.status(names.mkdir, string('/many'), noAttributes)
  for (let file = 0; file < 700; file++) await client.put(`/many/${file}`, '')
  const list = await client.list('/many')
  t.equal(list.size, 702)
  t.match(list.get('.'), /^drwxr-xr-x /)
  t.match(list.get('..'), /^drwxr-xr-x /)
  t.match(list.get('7'), /^-rw-r--r-- +1 ada +ada +0 \w{3} [ \d]\d \d\d:\d\d 7$/)
})

void t.test('errors have the status codes of the draft', async (t) => {
  const client = await session()
  await client.put('/file', 'x')
  const handle = await client.mustOpen('/file', read)
  const path = (text: string) => string(text)
  t.equal(await client.open('/no such', read), status.noSuchFile)
  t.equal(await client.open('/no such', write), status.noSuchFile)
  t.equal(await client.open('/no/such/parent', write | create), status.noSuchFile)
  t.equal(await client.open('/', read), status.failure)
  t.equal(await client.status(names.mkdir, path('/file'), noAttributes), status.failure)
  t.equal(await client.status(names.rmdir, path('/file')), status.noSuchFile)
  t.equal(await client.status(names.remove, path('/no such')), status.noSuchFile)
  t.equal(await client.openFolder('/file'), status.noSuchFile)
  t.equal(await client.close(Buffer.from('nobody')), status.failure)
  t.equal(await client.close(handle), status.ok)
  t.equal(await client.close(handle), status.failure)
  t.equal(await client.status(names.mkdir, path('/bad\u0001name'), noAttributes), status.failure)
  t.equal(await client.status(names.stat, path('/a\0b')), status.failure)
  t.equal(await client.status(77), status.unsupported)
  t.equal((await client.extended('no-such@example.org')).body.readUInt32BE(0), status.unsupported)
  t.equal(await client.status(names.stat, uint32(1000)), status.badMessage)
  t.equal(await client.status(names.stat, string(Buffer.from([0xff, 0xfe]))), status.badMessage)
  t.equal((await client.ask(symlinkTypes.symlink, string('/x'), string('/y'))).body.readUInt32BE(0), status.unsupported)
})

void t.test('REALPATH resolves .. by name, and stays below the root', async (t) => {
  const client = await session()
  const real = async (text: string) => {
    const { type, body } = await client.ask(names.realpath, string(text))
    return type === 104 ? body.subarray(8, 8 + body.readUInt32BE(4)).toString() : body.readUInt32BE(0)
  }
  t.equal(await real('.'), '/')
  t.equal(await real(''), '/')
  t.equal(await real('../../etc/./x/..'), '/etc')
  t.equal(await real('/a\\b'), '/a\\b')
  for (const path of ['~/x', '~ada/x']) {
    const expanded = await client.extended('expand-path@openssh.com', string(path))
    t.equal(expanded.body.subarray(8, 10).toString(), '/x', path)
  }
})

void t.test('fsync of a handle that was opened to read leaves it as it is', async (t) => {
  const client = await session()
  await client.put('/pinned', 'content')
  const handle = await client.mustOpen('/pinned', read)
  t.equal(await client.status(names.remove, string('/pinned')), status.ok)
  t.equal(await client.status(symlinkTypes.extended, string('fsync@openssh.com'), string(handle)), status.ok)
  const answer = await client.ask(types.read, string(handle), uint64(0), uint32(7))
  t.equal(answer.body.subarray(4).toString(), 'content')
  t.equal(await client.close(handle), status.ok)
})

void t.test('copy-data of positions that no file has reads nothing and writes nothing', async (t) => {
  const client = await session()
  await client.put('/bounded', 'content')
  const from = await client.mustOpen('/bounded', read)
  const to = await client.mustOpen('/unbounded', write | create | truncate)
  const copied = async (start: bigint, target: bigint) => {
    const positions = [uint64(start), uint64(0), string(to), uint64(target)] as const
    return (await client.extended('copy-data', string(from), ...positions)).body.readUInt32BE(0)
  }
  for (const beyond of [2n ** 53n - 4n, 2n ** 53n, 2n ** 64n - 1n]) {
    t.equal(await copied(beyond, 0n), status.ok, 'a start after the end')
    t.equal(await copied(0n, beyond), status.failure, 'a target')
  }
  t.match(await client.fstat(to), { size: 0 })
  t.equal(await client.close(to), status.ok)
})

/** Copies `from` by copy-data. Resolves to the status; closes the channel if the file `name` grows without an end. */
async function copyData<Channel extends Duplex>(
  client: PacketClient<Channel>,
  name: string,
  [from, to]: readonly [Buffer, Buffer],
  target: number,
): Promise<number> {
  const copied = client.extended('copy-data', string(from), uint64(0), uint64(0), string(to), uint64(target))
  let isOver = false
  void copied.then(() => (isOver = true))
  while (!isOver) {
    const stats = await client.stat(name)
    if (typeof stats === 'number' || stats.size <= 64 * 1024 * 1024) continue
    client.channel.destroy()
    throw new Error('the copy has no end')
  }
  return (await copied).body.readUInt32BE(0)
}

void t.test('copy-data from a file into its hard link is refused', async (t) => {
  const client = await (await tidegate(t, 'Local')).connect()
  await client.start()
  await client.put('/name', 'content')
  await client.extended('hardlink@openssh.com', string('/name'), string('/other'))
  const from = await client.mustOpen('/name', read)
  const inPlace = await client.mustOpen('/other', write)
  t.equal(await copyData(client, '/name', [from, inPlace], 7), status.failure)
  t.match(await client.stat('/name'), { size: 7 })
  const staged = await client.mustOpen('/other', write | create | truncate)
  t.equal(await copyData(client, '/name', [from, staged], 7), status.ok, 'a new file of that name is another file')
  t.equal(await client.close(staged), status.ok)
  t.match(await client.stat('/other'), { size: 14 })
})

void t.test('copy-data into a name of the source that the backend does not tell has an end', async (t) => {
  const memory = new MemoryDriver(0)
  const open: Driver['open'] = (path, mode, options) =>
    memory.open(mode === 'update' && path === '/other' ? asPath('/name') : path, mode, options)
  const driverTypes = [{ name: 'Linked', fields: {}, open: async () => altered(memory, { open }) }]
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Linked' }, driverTypes })
  const client = await session(await (await serveProtocol(t, gateway)).connect())
  await client.put('/name', 'content')
  await client.put('/other', '')
  const handles = [await client.mustOpen('/name', read), await client.mustOpen('/other', write)] as const
  t.equal(await copyData(client, '/name', handles, 7), status.ok)
  t.match(await client.stat('/name'), { size: 14 })
})

void t.test('replies are not much longer than their requests', async (t) => {
  const client = await session()
  const owner = (await client.ask(names.stat, string('/'))).body.subarray(12, 16)
  const ids = Buffer.concat(Array.from({ length: 60_000 }, () => owner))
  const ask = (...lists: readonly Buffer[]) =>
    client.extended('users-groups-by-id@openssh.com', ...lists.map((list) => string(list)))
  const reply = await ask(ids.subarray(0, 8), ids.subarray(0, 4))
  t.equal(reply.body.length, 4 + 2 * (4 + 'ada'.length) + 4 + 4 + 'ada'.length)
  const refused = await ask(ids, Buffer.alloc(0))
  t.same([refused.type, refused.body.readUInt32BE(0)], [101, status.failure])
  t.ok(refused.body.length < 200)

  let folder = ''
  for (let depth = 0; depth < 15; depth++) {
    folder += `/${'d'.repeat(255)}`
    t.equal(await client.status(names.mkdir, string(folder), noAttributes), status.ok)
  }
  const handle = await client.openFolder(folder)
  if (typeof handle === 'number') throw new Error(`OPENDIR was refused with status ${handle}`)
  t.equal(await client.status(names.rmdir, string(folder)), status.ok)
  const { body } = await client.ask(types.fstat, string(handle))
  t.equal(body.readUInt32BE(0), status.noSuchFile)
  t.ok(body.length < 2000)
})

void t.test('a file that is opened again to be rewritten does not get the time of its old content', async (t) => {
  const client = await session()
  const old = await client.mustOpen('/rewritten', write | create | truncate)
  t.equal(await client.status(types.fsetstat, string(old), uint32(8), uint32(1), uint32(1_500_000_000)), status.ok)
  const again = await client.mustOpen('/rewritten', write | create | truncate)
  await client.write(again, 0, 'new')
  for (const handle of [again, old]) t.equal(await client.close(handle), status.ok)
  const stored = await client.stat('/rewritten')
  t.ok(typeof stored === 'object' && stored.modified > 1_500_000_000)
})

void t.test('copy-data copies between handles, and limits returns the limits', async (t) => {
  const client = await session()
  await client.put('/source', Buffer.alloc(2_500_000, 'c'))
  const from = await client.mustOpen('/source', read)
  const to = await client.mustOpen('/target', write | create | truncate)
  const answer = await client.extended('copy-data', string(from), uint64(10), uint64(0), string(to), uint64(0))
  t.equal(answer.body.readUInt32BE(0), status.ok)
  await client.close(to)
  t.match(await client.stat('/target'), { size: 2_499_990 })
  const limits = (await client.extended('limits@openssh.com')).body
  t.equal(Number(limits.readBigUInt64BE(8)), 255 * 1024)
  const groups = await client.extended('users-groups-by-id@openssh.com', string(uint32(12345)), string(Buffer.alloc(0)))
  t.equal(groups.type, 201)
})

void t.test('two handles of one session on a new file read the same bytes', async (t) => {
  const client = await session()
  const first = await client.mustOpen('/both', read | write | create | truncate)
  await client.write(first, 0, 'one')
  const second = await client.mustOpen('/both', read)
  t.same(await client.read(second, 0, 10), Buffer.from('one'))
  t.equal(await client.close(first), status.ok)
  t.same(await client.read(second, 0, 10), Buffer.from('one'))
  t.equal(await client.close(second), status.ok)
  t.equal(await client.get('/both'), 'one')
})

void t.test('overwriting a file that the same session has open publishes at CLOSE only', async (t) => {
  const client = await session()
  const connection = await running.connect()
  const writer = await session(connection)
  const first = await writer.mustOpen('/held', write | create | truncate)
  const held = await writer.mustOpen('/held', read)
  await writer.write(first, 0, 'the old bytes')
  t.equal(await writer.close(first), status.ok)
  const second = await writer.mustOpen('/held', write | create | truncate)
  await writer.write(second, 0, 'half')
  t.equal((await writer.read(held, 0, 100)).toString(), 'half', 'handles of the session read the new bytes')
  t.equal(await client.get('/held'), 'the old bytes')
  connection.end()
  await writer.closed
  t.equal(await client.get('/held'), 'the old bytes')

  const third = await client.mustOpen('/held', read)
  const other = await session()
  await other.put('/held', 'new')
  t.match(await client.fstat(third), { size: 13 }, 'FSTAT returns the size of what READ returns')
  t.equal((await client.read(third, 0, 100)).toString(), 'the old bytes')
})

void t.test('malformed packets end only their own channel', async (t) => {
  const client = await session()
  for (const garbage of [uint32(0), uint32(0xffffffff), Buffer.from('GET / HTTP/1.1\r\n\r\n'), string('')]) {
    const broken = await session()
    broken.channel.write(garbage)
    await broken.closed
  }
  const early = new PacketClient(await openChannel(ssh))
  early.channel.write(Buffer.concat([uint32(9), Buffer.from([names.stat]), uint32(1), uint32(0)]))
  await early.closed
  t.type(await client.stat('/'), 'object')
})

void t.test('requests with random fields are answered or end their channel, and do not affect others', async (t) => {
  const bystander = await session()
  const watched = await bystander.mustOpen('/watched', read | write | create | truncate)
  let seed = 7
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % below
  const randomBytes = (length: number) => Buffer.from(Array.from({ length }, () => random(256)))
  const pieces = [
    () => uint32(random(40)),
    () => uint32(0xffffffff - random(9)),
    () => uint64(random(1 << 20)),
    () => string(`/${random(5)}/${random(5)}`),
    () => string(uint32(random(8))),
    () => string(randomBytes(random(30))),
    () => randomBytes(random(12)),
  ]
  for (let round = 0; round < 30; round++) {
    const client = await session()
    for (let request = 0; client.channel.writable && request < 60; request++) {
      const fields = Array.from({ length: random(6) }, () => pieces[random(pieces.length)]!())
      void client.ask(1 + random(24) === 24 ? 200 : 1 + random(24), ...fields)
      if (request % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    client.channel.end()
    await client.closed
    t.equal(await bystander.write(watched, round, 'x'), status.ok)
  }
  t.equal(await bystander.close(watched), status.ok)
  t.match(await bystander.stat('/watched'), { size: 30 })
})

void t.test('statvfs returns the number of files if the storage reports it', async (t) => {
  const { gateway } = await startGateway(t, { config: { sftp: 'off' } })
  const onDisk = await serveProtocol(t, gateway)
  const told = async (client: PacketClient) => {
    const { body } = await client.extended('statvfs@openssh.com', string('/'))
    return Array.from({ length: 3 }, (_, index) => Number(body.readBigUInt64BE(40 + 8 * index)))
  }
  const { files } = await statfs(gateway.config.data)
  const [total, free = 0, available] = await told(await session(await onDisk.connect()))
  t.equal(total, files)
  t.ok(free > 0 && free <= files)
  t.equal(available, free)
  t.same(await told(await session()), [0, 0, 0], 'the memory driver has no such limit')
})

void t.test(
  'on a storage with streams only, a WRITE before the current offset fails with advice, and the old file remains',
  async (t) => {
    const client = await (await tidegate(t, 'streams alone')).connect()
    await client.start()
    await client.put('/file', 'old')
    const handle = await client.mustOpen('/file', write | create | truncate)
    t.equal(await client.write(handle, 0, 'new bytes'), status.ok)
    const { body } = await client.ask(types.write, string(handle), uint64(0), string('other'))
    t.equal(body.readUInt32BE(0), status.unsupported)
    t.match(body.toString(), /make the file elsewhere and upload it whole, or open it to read as well/)
    t.equal(await client.close(handle), status.unsupported)
    t.equal(await client.get('/file'), 'old')
    const both = await client.mustOpen('/file', read | write | create | truncate)
    for (const text of ['new bytes', 'other']) t.equal(await client.write(both, 0, text), status.ok)
    t.equal(await client.close(both), status.ok)
    t.equal(await client.get('/file'), 'otherytes')
  },
)
