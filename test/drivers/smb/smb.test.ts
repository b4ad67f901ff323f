/** The SMB driver on Samba, with its default and with stricter configurations. */
import { access, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { smbType } from '../../../drivers/smb/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import {
  at,
  bytesAt,
  endless,
  listed,
  namesIn,
  put,
  refuses,
  source,
  textAt,
} from '../../driver-conformance/subject.js'
import { lacks, onlyWithVariants } from '../../programs.js'
import { sambaPrograms, startSamba, type SambaSettings } from '../../servers/samba.js'
import { openNewFolder, openShare } from './mount.js'
import { until } from '../../until.js'

const modes: readonly (SambaSettings & { readonly name: string; readonly many: number })[] = [
  { name: 'with Samba’s defaults', many: 1100 },
  { name: 'with signing required by the server', global: ['server signing = mandatory'], many: 300 },
  { name: 'with encryption required by the share', share: ['smb encrypt = required'], many: 300 },
]

for (const mode of modes) {
  await t.test(
    `SMB passes the conformance suite ${mode.name}`,
    { skip: lacks(...sambaPrograms) || (mode !== modes[0] && onlyWithVariants) },
    async (t) => {
      const server = await startSamba(mode)
      t.teardown(() => server.stop())
      await conformance(t, {
        type: smbType,
        many: mode.many,
        open: () => openNewFolder(server),
      })
    },
  )
}

await t.test('SMB: options, open files and names', { skip: lacks(...sambaPrograms) }, async (t) => {
  const server = await startSamba({ global: ['map to guest = bad user', `guest account = nobody`] })
  t.teardown(() => server.stop())
  const folder = async (name: string): Promise<string> => {
    await mkdir(join(server.folder, name))
    return join(server.folder, name)
  }

  await t.test('listing a folder leaves no handle open, so that it and its parent can be removed', async (t) => {
    const { driver, dispose } = await openNewFolder(server)
    t.teardown(dispose)
    for (let round = 0; round < 200; round++) {
      for (const path of ['/above', '/above/listed']) await driver.mkdir(at(path))
      t.same(await listed(driver, '/above/listed'), [])
      for (const path of ['/above/listed', '/above']) await driver.remove(at(path))
    }
  })

  await t.test('valid options are accepted, and wrong ones rejected with a fitting error', async (t) => {
    await folder('below')
    await writeFile(join(server.folder, 'below', 'file'), 'x')
    for (const good of [
      { root_folder_path: '/below/' },
      { root_folder_path: '.\\below', share_name: '/FILES/' },
      { address: `smb://${server.address}/`, root_folder_path: 'below' },
      { username: `TIDE\\${server.username}`, root_folder_path: 'below' },
      { protection: 'signed', root_folder_path: 'below' },
      { protection: 'encrypted', root_folder_path: 'below' },
    ]) {
      const driver = await openShare(server, good)
      t.same(await namesIn(driver, '/'), ['file'], JSON.stringify(good))
      await driver.close?.()
    }
    await refuses(t, () => openShare(server, { password: 'wrong' }), 'denied', 'a wrong password')
    await refuses(t, () => openShare(server, { password: '' }), 'denied', 'no password')
    await refuses(
      t,
      () => openShare(server, { username: 'nobody-here' }),
      'denied',
      'an unknown user, whom the server would map to a guest',
    )
    await refuses(t, () => openShare(server, { share_name: 'none' }), 'unavailable', 'a missing share')
    await refuses(t, () => openShare(server, { share_name: 'files/below' }), 'invalid', 'an invalid share name')
    await refuses(t, () => openShare(server, { address: 'host:port:more' }), 'invalid', 'an invalid address')
    await refuses(t, () => openShare(server, { address: '127.0.0.1:1' }), 'unavailable', 'no server listens')
    await refuses(t, () => openShare(server, { root_folder_path: 'none' }), 'invalid', 'a missing root')
    await refuses(t, () => openShare(server, { root_folder_path: 'below/file' }), 'invalid', 'a root that is a file')
    await refuses(t, () => openShare(server, { root_folder_path: '../x' }), 'invalid', 'a root outside')
  })

  await t.test('errors contain neither the password nor an address', async (t) => {
    const password = 'Very-Secret-1'
    for (const more of [{ password }, { password, address: '127.0.0.1:1' }]) {
      const error: unknown = await openShare(server, more).catch((reason: unknown) => reason)
      t.type(error, Error)
      t.notMatch(`${(error as Error).message} ${JSON.stringify(error)}`, /Very-Secret|127\.0\.0\.1/)
    }
  })

  await t.test('a file that is open for reading can be replaced, moved and removed', async (t) => {
    const root = await folder('open')
    const driver = await openShare(server, { root_folder_path: 'open' })
    const data = Buffer.alloc(20_000_000, 'old')
    await put(driver, '/file', data)
    const reading = await driver.read(at('/file'))
    const handle = await driver.open?.(at('/file'), 'read')
    await driver.mkdir(at('/folder'))
    await put(driver, '/file', 'new')
    t.equal(await textAt(driver, '/file'), 'new')
    await put(driver, '/folder/inside', 'x')
    const inside = await driver.open?.(at('/folder/inside'), 'read')
    await driver.move?.(at('/folder'), at('/moved'))
    await driver.move?.(at('/file'), at('/moved/inside'))
    t.equal(await textAt(driver, '/moved/inside'), 'new')
    const last = await driver.open?.(at('/moved/inside'), 'read')
    await driver.remove(at('/moved/inside'))
    t.same(await namesIn(driver, '/moved'), [], 'at once')
    await put(driver, '/moved/inside', 'newer')
    t.equal(await textAt(driver, '/moved/inside'), 'newer', 'the name is free again')
    await driver.remove(at('/moved/inside'))
    const chunks: Buffer[] = []
    for await (const chunk of reading) chunks.push(chunk as Buffer)
    t.ok(Buffer.concat(chunks).equals(data), 'the reader gets the whole old file')
    for (const each of [handle, inside, last]) await each?.close()
    await driver.close?.()
    t.same(await readdir(root), ['moved'])
    t.same(await readdir(join(root, 'moved')), [])
  })

  await t.test('a folder with a running upload cannot be moved', async (t) => {
    const root = await folder('uploads')
    const driver = await openShare(server, { root_folder_path: 'uploads' })
    await driver.mkdir(at('/folder'))
    const { source: body, body: stream } = endless()
    const writing = driver.write(at('/folder/file'), body)
    await until(async () => (await readdir(join(root, 'folder'))).length > 0)
    await refuses(t, async () => driver.move?.(at('/folder'), at('/moved')), 'busy', 'a move')
    stream.push(null)
    await writing
    await driver.move?.(at('/folder'), at('/moved'))
    t.same(await readdir(join(root, 'moved')), ['file'])
    await driver.close?.()
  })

  await t.test('a file that another client has open can be replaced', async (t) => {
    const root = await folder('shared')
    const driver = await openShare(server, { root_folder_path: 'shared' })
    const other = await openShare(server, { root_folder_path: 'shared' })
    await put(driver, '/file', 'old')
    // By the user who replaces it, so that it is open on the connection of the rename.
    const updating = await other.open?.(at('/file'), 'update')
    await put(driver, '/file', 'new')
    t.equal(await textAt(driver, '/file'), 'new')
    await updating?.close()
    t.same(await readdir(root), ['file'])
    await driver.close?.()
    await other.close?.()
  })

  await t.test('symlinks that leave the share are not followed', async (t) => {
    const root = await folder('links')
    await writeFile(join(root, 'file'), 'content')
    await symlink('file', join(root, 'inside'))
    await symlink('/etc/hostname', join(root, 'outside'))
    const driver = await openShare(server, { root_folder_path: 'links' })
    t.equal(await textAt(driver, '/inside'), 'content')
    await refuses(t, () => textAt(driver, '/outside'), ['denied', 'not_found'], 'a symlink that leaves the share')
    await driver.remove(at('/inside'))
    t.same((await readdir(root)).sort(), ['file', 'outside'])
    await driver.close?.()
  })

  await t.test('8.3 names of the server are not accepted for other names', async (t) => {
    const root = await folder('short')
    await writeFile(join(root, 'hidden:file.txt'), 'x')
    await writeFile(join(root, 'plain'), 'x')
    const driver = await openShare(server, { root_folder_path: 'short' })
    const names = await namesIn(driver, '/')
    t.ok(names.includes('plain'))
    for (const name of names.filter((each) => each !== 'plain')) {
      t.match(name, /~/, 'Samba shows an 8.3 name for a name that Windows does not allow')
      t.equal(await textAt(driver, `/${name}`), 'x', 'the listed 8.3 name can be read')
    }
    await refuses(t, () => textAt(driver, '/plain~1'), 'not_found', 'an 8.3 name that is not listed')
    await put(driver, '/draft~1', 'mine')
    t.equal(await textAt(driver, '/draft~1'), 'mine', 'a file may have a name of this form')
    await driver.close?.()
  })

  await t.test('staged files of dead instances are removed, and those of other running ones are not', async (t) => {
    const root = await folder('left')
    const instance = { name: 'this-run', isOver: (name: string) => name === 'dead-run' }
    const driver = await openShare(server, { root_folder_path: 'left' }, { instance })
    await writeFile(join(root, '.~tidegate-part-dead-run-abc'), 'x')
    await writeFile(join(root, '.~tidegate-part-other-run-abc'), 'x')
    await mkdir(join(root, 'folder'))
    await writeFile(join(root, 'folder', '.~tidegate-part-dead-run-abc'), 'x')
    t.same(await namesIn(driver, '/'), ['folder'])
    await until(async () => (await readdir(root)).length <= 2)
    t.same((await readdir(root)).sort(), ['.~tidegate-part-other-run-abc', 'folder'])
    await driver.remove(at('/folder'))
    await t.rejects(access(join(root, 'folder')), { code: 'ENOENT' })
    await driver.close?.()
  })

  await t.test('copy() copies a file of any size on the server', async (t) => {
    await folder('copies')
    const driver = await openShare(server, { root_folder_path: 'copies' })
    const data = Buffer.alloc(40_000_001, 'copy me')
    const modified = new Date('2001-02-03T04:05:06.789Z')
    await driver.write(at('/from'), source(data), { modified })
    await driver.copy?.(at('/from'), at('/to'))
    t.ok((await bytesAt(driver, '/to')).equals(data))
    t.same(
      (await listed(driver, '/')).map(({ modified: time }) => time),
      [modified, modified],
    )
    await driver.close?.()
  })
})
