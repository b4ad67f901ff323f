/** Modes on disk: no request makes a program run as another user, or locks the gateway out of a storage. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { localType } from '../../drivers/local/index.js'
import { allPermissions } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { startGateway } from '../gateway.js'
import {
  flags,
  names,
  PacketClient,
  permissions,
  status,
  string,
  symlinkTypes,
  types,
} from '../protocols/sftp/packet-client.js'
import { openChannel, password, serveProtocol } from '../protocols/sftp/server-fixture.js'
import { openLocal } from '../drivers/env.js'
import { newTree, sourceOf } from '../tree/tree-fixture.js'

const modeOf = (...path: readonly string[]) => (statSync(join(...path)).mode & 0o7777).toString(8)
const { write, append, create, truncate, exclusive } = flags
/** An owner that is not the daemon's user; only root can give files away. */
const otherUser = process.getuid?.() === 0 ? 12_345 : process.getuid?.()

function program(...path: readonly string[]): void {
  writeFileSync(join(...path), 'program')
  chownSync(join(...path), otherUser ?? -1, -1)
  chmodSync(join(...path), 0o6755)
}

/** A session of SFTP, in `folder`: the base of its user, below a Local storage. */
let sftp: PacketClient
let folder: string
t.before(async () => {
  const { gateway, dataFolder } = await startGateway(t, { config: { sftp: 'off' } })
  const running = await serveProtocol(t, gateway)
  folder = join(dataFolder, 'files', 'base')
  mkdirSync(folder)
  const ben = {
    username: 'ben',
    password,
    role: 'general',
    permission: allPermissions,
    disabled: false,
    ssoId: '',
  } as const
  await gateway.accounts.users.create({ ...ben, basePath: '/base' })
  sftp = new PacketClient(await openChannel(await running.connect({ username: 'ben' })))
  await sftp.start()
})

void t.test('of a mode that an SFTP client asks for only 0777 counts, and the owner keeps access', async (t) => {
  for (const [asked, ofFile, ofFolder] of [
    [0o6755, '755', '755'],
    [0o7777, '777', '777'],
    [0, '600', '700'],
    [0o100_444, '644', '744'],
  ] as const) {
    const attributes = permissions(asked)
    t.equal(await sftp.put('/file', 'x'), status.ok)
    t.equal(await sftp.status(types.setstat, string('/file'), attributes), status.ok)
    t.equal(modeOf(folder, 'file'), ofFile, `SETSTAT ${asked.toString(8)} of a file`)
    const open = await sftp.mustOpen('/file', write)
    t.equal(await sftp.status(types.fsetstat, string(open), attributes), status.ok)
    await sftp.close(open)
    t.equal(modeOf(folder, 'file'), ofFile, 'FSETSTAT')
    for (const flag of [truncate, exclusive]) {
      const made = await sftp.mustOpen('/made', write | create | flag, attributes)
      t.equal(await sftp.status(types.fsetstat, string(made), attributes), status.ok)
      t.match(await sftp.fstat(made), { mode: 0o100_000 | parseInt(ofFile, 8) }, 'of a staged file')
      await sftp.close(made)
      t.equal(modeOf(folder, 'made'), ofFile, 'FSETSTAT of a staged file')
      await sftp.status(names.remove, string('/made'))
      await sftp.close(await sftp.mustOpen('/made', write | create | flag, attributes))
      t.equal(parseInt(modeOf(folder, 'made'), 8), (parseInt(ofFile, 8) & ~0o022) | 0o600, 'OPEN')
      await sftp.status(names.remove, string('/made'))
    }
    t.equal(await sftp.status(names.mkdir, string('/folder'), attributes), status.ok)
    t.equal(parseInt(modeOf(folder, 'folder'), 8), (parseInt(ofFolder, 8) & ~0o022) | 0o700, 'MKDIR')
    chmodSync(join(folder, 'folder'), 0o2755)
    t.equal(await sftp.status(types.setstat, string('/folder'), attributes), status.ok)
    t.equal(modeOf(folder, 'folder'), `2${ofFolder}`, 'a folder keeps its setgid bit')
    await sftp.status(names.rmdir, string('/folder'))
  }
})

void t.test('the mode of a base folder is not changed by SFTP clients, and its time is', async (t) => {
  chmodSync(folder, 0o750)
  const handle = await sftp.openFolder('/')
  if (typeof handle === 'number') throw new Error('no handle')
  t.equal(await sftp.status(types.setstat, string('/'), permissions(0)), status.ok)
  t.equal(await sftp.status(types.setstat, string('/.'), permissions(0o777)), status.ok)
  t.equal(await sftp.status(types.fsetstat, string(handle), permissions(0o777)), status.ok)
  const own = await sftp.extended('lsetstat@openssh.com', string('/'), permissions(0o777))
  t.equal(own.body.readUInt32BE(0), status.ok)
  t.equal(await sftp.status(symlinkTypes.symlink, string('.'), string('/link')), status.ok)
  t.equal(await sftp.status(types.setstat, string('/link'), permissions(0o777)), status.ok)
  t.equal(modeOf(folder), '750')
  // Permission bits and times in one request, as `put -p` sends them.
  const both = Buffer.from([0, 0, 0, 12, 0, 0, 1, 0o377, 0, 0, 0, 9, 0, 0, 0, 9])
  t.equal(await sftp.status(types.setstat, string('/'), both), status.ok)
  t.same([modeOf(folder), statSync(folder).mtimeMs], ['750', 9000])
})

void t.test('a write in place over SFTP removes the setuid bit', async (t) => {
  for (const flag of [write, write | append]) {
    program(folder, 'program')
    const handle = await sftp.mustOpen('/program', flag)
    t.equal(modeOf(folder, 'program'), '6755', 'nothing has changed yet')
    t.equal(await sftp.write(handle, 0, 'another'), status.ok)
    t.equal(modeOf(folder, 'program'), '755')
    await sftp.close(handle)
  }
  program(folder, 'program')
  const size = Buffer.from([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3])
  t.equal(await sftp.status(types.setstat, string('/program'), size), status.ok)
  t.same([modeOf(folder, 'program'), statSync(join(folder, 'program')).size], ['755', 3])
  program(folder, 'program')
  t.equal(await sftp.put('/program', 'replaced'), status.ok)
  t.same([modeOf(folder, 'program'), statSync(join(folder, 'program')).uid], ['755', otherUser])
})

void t.test(
  'a file that is replaced or copied has no special bits, and only a replaced one keeps its owner',
  async (t) => {
    const host = mkdtempSync(join(tmpdir(), 'tidegate-modes-'))
    t.teardown(() => rmSync(host, { recursive: true }))
    for (const name of ['one', 'two', 'one/many']) mkdirSync(join(host, name))
    const local = (name: string) => ({ driverOf: () => openLocal(join(host, name)), traits: localType.traits ?? {} })
    const tree = await newTree(t, { '/one': local('one'), '/two': local('two') })
    const fs = tree.as()
    const [one, two] = [join(host, 'one'), join(host, 'two')]
    program(one, 'program')
    chmodSync(one, 0o2755)
    await fs.write(asPath('/one/program'), sourceOf('mine'))
    t.same([modeOf(one, 'program'), statSync(join(one, 'program')).uid], ['755', otherUser], 'write()')
    await fs.write(asPath('/one/new'), sourceOf('mine'), { mode: 0o6755 })
    t.equal(modeOf(one, 'new'), '755', 'write() with a mode')
    program(one, 'program')
    for (const to of ['/one/copy', '/two/copy']) await fs.copy(asPath('/one/program'), asPath(to), { overwrite: true })
    t.same([modeOf(one, 'copy'), modeOf(two, 'copy')], ['755', '755'], 'copy()')
    // As many as are copied together.
    for (let index = 0; index < 20; index++) program(one, `many/${index}`)
    chmodSync(join(one, 'many'), 0o3555)
    for (const to of ['/one/others', '/two/others']) await fs.copy(asPath('/one/many'), asPath(to), { overwrite: true })
    for (const folder of [one, two]) {
      const modes = [...Array(20).keys()].map((index) => modeOf(folder, 'others', String(index)))
      t.same(new Set(modes), new Set(['755']), 'copies of small files')
      t.equal(statSync(join(folder, 'others/3')).uid, process.getuid?.(), 'belong to the daemon')
    }
    t.equal(modeOf(two, 'others'), '755', 'a copied folder: without special bits, and the owner keeps access')
    program(one, 'program')
    await fs.move(asPath('/one/program'), asPath('/one/moved'), { overwrite: false })
    t.equal(modeOf(one, 'moved'), '6755', 'a file that is renamed has no new content')
    await fs.move(asPath('/one/moved'), asPath('/two/moved'), { overwrite: false })
    t.equal(modeOf(two, 'moved'), '755', 'a move to another storage is a copy')
    await fs.setAttributes(asPath('/one'), { mode: 0 })
    await tree.mounts.find(asPath('/one')).storage.setAttributes(asPath('/'), { mode: 0 })
    t.equal(modeOf(one), '2755', 'a mount point keeps its mode')
  },
)
