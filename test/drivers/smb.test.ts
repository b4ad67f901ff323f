/** The SMB driver against Samba, as it comes and as careful administrators set it up. */
import { access, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { smbType } from '../../drivers/smb/index.js'
import { conformance } from '../conformance/driver.js'
import { at, bytesAt, endless, listed, namesIn, put, refuses, source, textAt } from '../conformance/subject.js'
import { lacks, onlyWithVariants } from '../programs.js'
import { sambaPrograms, startSamba, type SambaSettings } from '../services/samba.js'
import { openNewFolder, openShare } from './smb-mount.js'

const modes: readonly (SambaSettings & { readonly name: string; readonly many: number })[] = [
  { name: 'as Samba comes', many: 1100 },
  { name: 'where the server insists on signatures', global: ['server signing = mandatory'], many: 300 },
  { name: 'where the share insists on encryption', share: ['smb encrypt = required'], many: 300 },
]

for (const mode of modes) {
  await t.test(
    `SMB keeps the contract ${mode.name}`,
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

await t.test('SMB and what it is given', { skip: lacks(...sambaPrograms) }, async (t) => {
  const server = await startSamba({ global: ['map to guest = bad user', `guest account = nobody`] })
  t.teardown(() => server.stop())
  const folder = async (name: string): Promise<string> => {
    await mkdir(join(server.folder, name))
    return join(server.folder, name)
  }

  await t.test('a folder that was listed is open no more: it and the one above can be removed', async (t) => {
    const { driver, dispose } = await openNewFolder(server)
    t.teardown(dispose)
    for (let round = 0; round < 200; round++) {
      for (const path of ['/above', '/above/listed']) await driver.mkdir(at(path))
      t.same(await listed(driver, '/above/listed'), [])
      for (const path of ['/above/listed', '/above']) await driver.remove(at(path))
    }
  })

  await t.test('options are told for what they are', async (t) => {
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
    await refuses(t, () => openShare(server, { username: 'nobody-here' }), 'denied', 'let in as a guest alone')
    await refuses(t, () => openShare(server, { share_name: 'none' }), 'unavailable', 'a share that is not there')
    await refuses(t, () => openShare(server, { share_name: 'files/below' }), 'invalid', 'a share that is none')
    await refuses(t, () => openShare(server, { address: 'host:port:more' }), 'invalid', 'an address that is none')
    await refuses(t, () => openShare(server, { address: '127.0.0.1:1' }), 'unavailable', 'nobody listens')
    await refuses(t, () => openShare(server, { root_folder_path: 'none' }), 'invalid', 'a root that is not there')
    await refuses(t, () => openShare(server, { root_folder_path: 'below/file' }), 'invalid', 'a root that is a file')
    await refuses(t, () => openShare(server, { root_folder_path: '../x' }), 'invalid', 'a root outside')
  })

  await t.test('no error holds the password or an address', async (t) => {
    const password = 'Very-Secret-1'
    for (const more of [{ password }, { password, address: '127.0.0.1:1' }]) {
      const error: unknown = await openShare(server, more).catch((reason: unknown) => reason)
      t.type(error, Error)
      t.notMatch(`${(error as Error).message} ${JSON.stringify(error)}`, /Very-Secret|127\.0\.0\.1/)
    }
  })

  await t.test('a file that is read can be replaced, moved and removed', async (t) => {
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
    t.ok(Buffer.concat(chunks).equals(data), 'who reads the old file gets all of it')
    for (const each of [handle, inside, last]) await each?.close()
    await driver.close?.()
    t.same(await readdir(root), ['moved'])
    t.same(await readdir(join(root, 'moved')), [])
  })

  await t.test('a folder into which an upload is under way is busy', async (t) => {
    const root = await folder('uploads')
    const driver = await openShare(server, { root_folder_path: 'uploads' })
    await driver.mkdir(at('/folder'))
    const { source: body, body: stream } = endless()
    const writing = driver.write(at('/folder/file'), body)
    for (let tries = 0; tries < 100 && (await readdir(join(root, 'folder'))).length === 0; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await refuses(t, async () => driver.move?.(at('/folder'), at('/moved')), 'busy', 'a move')
    stream.push(null)
    await writing
    await driver.move?.(at('/folder'), at('/moved'))
    t.same(await readdir(join(root, 'moved')), ['file'])
    await driver.close?.()
  })

  await t.test('a file that another program has open is replaced all the same', async (t) => {
    const root = await folder('shared')
    const driver = await openShare(server, { root_folder_path: 'shared' })
    const other = await openShare(server, { root_folder_path: 'shared' })
    await put(driver, '/file', 'old')
    // As the one who changes it: then it is open on the connection of the rename.
    const updating = await other.open?.(at('/file'), 'update')
    await put(driver, '/file', 'new')
    t.equal(await textAt(driver, '/file'), 'new')
    await updating?.close()
    t.same(await readdir(root), ['file'])
    await driver.close?.()
    await other.close?.()
  })

  await t.test('links stay inside of the share', async (t) => {
    const root = await folder('links')
    await writeFile(join(root, 'file'), 'content')
    await symlink('file', join(root, 'inside'))
    await symlink('/etc/hostname', join(root, 'outside'))
    const driver = await openShare(server, { root_folder_path: 'links' })
    t.equal(await textAt(driver, '/inside'), 'content')
    await refuses(t, () => textAt(driver, '/outside'), ['denied', 'not_found'], 'a symlink that leads out')
    await driver.remove(at('/inside'))
    t.same((await readdir(root)).sort(), ['file', 'outside'])
    await driver.close?.()
  })

  await t.test('short names that the server makes up lead nowhere', async (t) => {
    const root = await folder('short')
    await writeFile(join(root, 'hidden:file.txt'), 'x')
    await writeFile(join(root, 'plain'), 'x')
    const driver = await openShare(server, { root_folder_path: 'short' })
    const names = await namesIn(driver, '/')
    t.ok(names.includes('plain'))
    for (const name of names.filter((each) => each !== 'plain')) {
      t.match(name, /~/, 'Samba shows a name of its own making for what Windows does not allow')
      t.equal(await textAt(driver, `/${name}`), 'x', 'and takes it')
    }
    await refuses(t, () => textAt(driver, '/plain~1'), 'not_found', 'none of that name')
    await put(driver, '/draft~1', 'mine')
    t.equal(await textAt(driver, '/draft~1'), 'mine', 'a user may choose such a name')
    await driver.close?.()
  })

  await t.test('what a killed run has left goes, what others are writing stays', async (t) => {
    const root = await folder('left')
    const instance = { name: 'this-run', isOver: (name: string) => name === 'dead-run' }
    const driver = await openShare(server, { root_folder_path: 'left' }, { instance })
    await writeFile(join(root, '.~tidegate-part-dead-run-abc'), 'x')
    await writeFile(join(root, '.~tidegate-part-other-run-abc'), 'x')
    await mkdir(join(root, 'folder'))
    await writeFile(join(root, 'folder', '.~tidegate-part-dead-run-abc'), 'x')
    t.same(await namesIn(driver, '/'), ['folder'])
    for (let tries = 0; tries < 50 && (await readdir(root)).length > 2; tries++) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    t.same((await readdir(root)).sort(), ['.~tidegate-part-other-run-abc', 'folder'])
    await driver.remove(at('/folder'))
    await t.rejects(access(join(root, 'folder')), { code: 'ENOENT' })
    await driver.close?.()
  })

  await t.test('a copy is made by the server, of any size', async (t) => {
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
