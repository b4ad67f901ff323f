/** The SFTP driver on OpenSSH's server. */
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { sftpFields, sftpType, type SftpOptions } from '../../../drivers/sftp/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, listed, put, refuses, shownBy, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { startOpenSsh } from '../../servers/openssh.js'
import { testEnv } from '../env.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { until } from '../../until.js'

void t.test('SFTP', { skip: lacks('sshd', 'ssh-keygen') }, async (t) => {
  const server = await startOpenSsh()
  t.teardown(() => server.stop())
  const folder = async (): Promise<string> => {
    const made = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
    t.teardown(() => rm(made, { recursive: true, force: true }))
    return made
  }
  const open = async (root: string, more: Partial<SftpOptions> = {}, env: Partial<DriverEnv> = {}) => {
    const { address, username, privateKey } = server
    const options = { address, username, private_key: privateKey, root_folder_path: root, ...more }
    return (await sftpType.open(checkOptions(sftpFields, options), testEnv(env))) as WritableDriver
  }

  await t.test('SFTP passes the conformance suite', async (t) => {
    await conformance(t, {
      type: sftpType,
      many: 1100,
      open: async () => {
        const root = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
        return {
          driver: await open(root),
          again: (uploads) => open(root, {}, { resumableUploads: async () => uploads }),
          dispose: () => rm(root, { recursive: true, force: true }),
        }
      },
    })
  })

  await t.test('SFTP shows symlinks as their targets, and removes only the symlink', async (t) => {
    const root = await folder()
    await writeFile(join(root, 'file'), 'content')
    await symlink('file', join(root, 'link'))
    await symlink('nowhere', join(root, 'dangling'))
    const driver = await open(root, { ignore_symlink_error: true })
    t.match(await driver.stat(at('/link')), { kind: 'file', isSymlink: true, size: 7 })
    t.match(await driver.stat(at('/dangling')), { kind: 'symlink' })
    t.same(
      (await listed(driver, '/')).map(({ name, kind }) => [name, kind]),
      [
        ['dangling', 'symlink'],
        ['file', 'file'],
        ['link', 'file'],
      ],
    )
    const modified = new Date('2001-02-03T04:05:06Z')
    for (const link of ['/link', '/dangling'].map(at)) {
      await driver.setSymlinkTime?.(link, modified)
      t.same((await driver.stat(link, { ofSymlink: true })).modified, modified, `the time of ${link} is its own`)
    }
    t.not(
      (await driver.stat(at('/file'))).modified.getTime(),
      modified.getTime(),
      'the time of the target is unchanged',
    )
    await refuses(t, async () => driver.setSymlinkTime?.(at('/file'), modified), 'invalid', 'a file')
    await driver.remove(at('/link'))
    t.same((await readdir(root)).sort(), ['dangling', 'file'])
    await driver.close?.()
    const strict = await open(root)
    t.same(
      (await listed(strict, '/')).map(({ name }) => name),
      ['file'],
      'dangling symlinks are left out by default',
    )
    await strict.close?.()
  })

  await t.test('SFTP lists names that do not survive a round trip, and a folder with them is not empty', async (t) => {
    const root = await folder()
    for (const name of ['good', 'back\\slash', Buffer.from([0x62, 0xff, 0xfe])]) {
      await writeFile(Buffer.concat([Buffer.from(`${root}/`), Buffer.from(name)]), '')
    }
    await symlink('good', join(root, 'link\\to'))
    const driver = await open(root)
    const { names, logged } = shownBy(driver)
    t.same(await names('/'), ['good'])
    t.same(await names('/'), ['good'])
    t.match(logged, [{ folder: '/' }])
    await mkdir(join(root, 'folder'))
    await writeFile(join(root, 'folder', 'a\\b'), '')
    await refuses(t, () => driver.remove(at('/folder')), 'not_empty', 'a folder with such a name')
    await driver.close?.()
  })

  await t.test('SFTP stores the first host key and rejects another one', async (t) => {
    const root = await folder()
    const { state, values: kept } = memoryState()
    const first = await open(root, {}, { state })
    await first.close?.()
    t.same([...kept.values()], [server.hostKey])
    kept.set([...kept.keys()][0] ?? '', 'SHA256:somebodyelse')
    await refuses(t, () => open(root, {}, { state }), 'unavailable', 'a changed host key')
    const given = await open(root, { host_key: server.hostKey }, { state })
    await given.close?.()
  })

  await t.test('SFTP rejects wrong options with a fitting error', async (t) => {
    const root = await folder()
    await refuses(t, () => open(root, { username: 'nobody-here' }), 'denied', 'an unknown user')
    await refuses(t, () => open(root, { private_key: 'no key' }), 'invalid', 'an invalid key')
    await refuses(t, () => open(root, { address: 'host:port:more' }), 'invalid', 'an invalid address')
    await refuses(t, () => open(root, { address: '127.0.0.1:1' }), 'unavailable', 'no server listens')
    await refuses(t, () => open(join(root, 'missing')), 'invalid', 'a missing root')
  })

  await t.test('SFTP removes staged files of dead instances, and not those of other running ones', async (t) => {
    const root = await folder()
    const driver = await open(root, {}, { instance: { name: 'this-run', isOver: (name) => name === 'dead-run' } })
    await writeFile(join(root, '.~tidegate-part-dead-run-abc'), 'x')
    await writeFile(join(root, '.~tidegate-part-other-run-abc'), 'x')
    await put(driver, '/file', 'content')
    t.same(
      (await listed(driver, '/')).map(({ name }) => name),
      ['file'],
    )
    await until(async () => (await readdir(root)).length <= 2)
    t.same((await readdir(root)).sort(), ['.~tidegate-part-other-run-abc', 'file'])
    t.equal(await textAt(driver, '/file'), 'content')
    await driver.close?.()
  })
})
