/**
 * SFTP servers that set no attributes, or flush nothing: what is reported as done is done, by the server or beside it.
 */
import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sftpFields, sftpType } from '../../../drivers/sftp/index.js'
import { asPath } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { lacks } from '../../programs.js'
import { startMinimalSftp } from '../../servers/minimal-sftp.js'
import { startOpenSsh } from '../../servers/openssh.js'
import { newTree, sourceOf } from '../../tree/tree-fixture.js'

const [file, other] = [asPath('/file'), asPath('/other')]
const modified = new Date('2001-02-03T04:05:06Z')
const later = new Date('2002-03-04T05:06:07Z')

/** A storage on a folder of this server: on a new one, unless `host` names one. */
async function mounted(
  t: Test,
  account: { readonly address: string; readonly username: string; readonly privateKey?: string },
  host?: string,
) {
  const folder = host ?? (await mkdtemp(join(tmpdir(), 'tidegate-sftp-')))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { address, username, privateKey: private_key = '' } = account
  const options = checkOptions(sftpFields, { address, username, private_key, root_folder_path: folder })
  const driverOf = (env: Parameters<typeof sftpType.open>[1]) => sftpType.open(options, env)
  const { mounts } = await newTree(t, { '/': { driverOf, traits: sftpType.traits ?? {} } })
  return mounts.find(file).storage
}

const minimal = async (t: Test, settingAttributes: Parameters<typeof startMinimalSftp>[0], host?: string) => {
  const server = await startMinimalSftp(settingAttributes)
  t.teardown(() => server.stop())
  return mounted(t, { address: server.address, username: 'ada' }, host)
}

const restricted = async (t: Test, words: string) => {
  const server = await startOpenSsh(words)
  t.teardown(() => server.stop())
  return mounted(t, server)
}

const skip = lacks('sshd', 'ssh-keygen')

const servers = [
  { name: 'does not implement setting attributes', open: (t: Test) => minimal(t, 'OP_UNSUPPORTED'), sets: true },
  { name: 'reports attributes as set and ignores them', open: (t: Test) => minimal(t, 'OK'), sets: true },
  {
    name: 'denies setting attributes',
    open: (t: Test) => restricted(t, '-P setstat,fsetstat'),
    sets: false,
    skip,
  },
]

for (const { name, open, sets, skip } of servers) {
  void t.test(`a server that ${name}`, { skip: skip ?? false }, async (t) => {
    const storage = await open(t)

    await t.test('the time and mode of a write are shown', async (t) => {
      t.match(await storage.write(file, sourceOf('abc'), { modified, mode: 0o640 }), { modified, mode: 0o640 })
      t.match(await storage.stat(file, { refresh: true }), { modified, mode: 0o640, size: 3 })
      t.match((await storage.list(asPath('/'), { refresh: true })).entries, [{ modified, mode: 0o640 }])
    })

    await t.test('and those of a handle, which go with the file', async (t) => {
      const handle = await storage.open(file, 'replace')
      await handle.write([Buffer.from('abcd')], 0)
      await handle.commit?.({ modified: later, mode: 0o604 })
      await handle.close()
      t.match(await storage.stat(file, { refresh: true }), { modified: later, mode: 0o604, size: 4 })
      await storage.copy(file, other)
      t.match(await storage.stat(other, { refresh: true }), { modified: later, mode: 0o604 })
    })

    await t.test('attributes that are set later are shown, or refused', async (t) => {
      const set = storage.setAttributes(file, { modified, mode: 0o600 })
      if (sets) await set
      else await t.rejects(set, { code: 'denied' })
      const expected = sets ? { modified, mode: 0o600 } : { modified: later, mode: 0o604 }
      t.match(await storage.stat(file, { refresh: true }), expected)
    })
  })
}

void t.test('a server that sets attributes has no record of them beside it', { skip }, async (t) => {
  const storage = await restricted(t, '')
  await storage.write(file, sourceOf('abc'), { modified, mode: 0o640 })
  await storage.setAttributes(file, { modified: later, mode: 0o600 })
  t.match(await storage.stat(file, { refresh: true }), { modified: later, mode: 0o600 })
  t.notOk(await storage.records.attributes.of(file))
})

void t.test('no special bits come to a server, and its folders keep theirs', { skip }, async (t) => {
  const server = await startOpenSsh()
  t.teardown(() => server.stop())
  const host = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
  t.teardown(() => rm(host, { recursive: true, force: true }))
  const storage = await mounted(t, server, host)
  const modeOf = (name: string) => (statSync(join(host, name)).mode & 0o7777).toString(8)
  const bits = async (name: string, mode: number) => {
    await chmod(join(host, name), mode)
    return asPath(`/${name}`)
  }
  await storage.write(file, sourceOf('abc'), { mode: 0o6755 })
  t.equal(modeOf('file'), '755', 'write() with a mode')
  await storage.write(await bits('file', 0o6755), sourceOf('abcd'))
  t.equal(modeOf('file'), '755', 'write() over a program')
  await storage.copy(await bits('file', 0o6755), other)
  t.equal(modeOf('other'), '755', 'copy()')
  await storage.setAttributes(other, { mode: 0o6000 })
  t.equal(modeOf('other'), '600', 'setAttributes()')
  for (const change of ['write', 'truncate'] as const) {
    const handle = await storage.open(await bits('file', 0o6755), 'update')
    t.equal(modeOf('file'), '6755', 'nothing has changed yet')
    await (change === 'write' ? handle.write([Buffer.from('x')], 0) : handle.truncate(1))
    t.equal(modeOf('file'), '755', change)
    await handle.close()
  }
  const replacing = await storage.open(await bits('file', 0o6755), 'replace')
  await replacing.commit?.({ mode: 0o4700 })
  await replacing.close()
  t.equal(modeOf('file'), '700', 'commit()')
  await storage.mkdir(asPath('/folder'))
  await storage.setAttributes(await bits('folder', 0o3755), { mode: 0o4050, modified })
  t.equal(modeOf('folder'), '3750', 'a folder')
  const before = modeOf('.')
  await storage.setAttributes(asPath('/'), { mode: 0 })
  t.equal(modeOf('.'), before, 'the root')
})

void t.test(
  'a server that does not remove special bits is asked before each write, until the file has none',
  async (t) => {
    const host = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
    const program = join(host, 'file')
    await writeFile(program, 'abc')
    let asked = 0
    let status: 'FAILURE' | 'PERMISSION_DENIED' | 'OP_UNSUPPORTED' | 'OK' = 'FAILURE'
    const nextStatus = () => {
      asked++
      return status
    }
    const storage = await minimal(t, nextStatus, host)
    const opened = async () => {
      await chmod(program, 0o4755)
      return storage.open(file, 'update')
    }
    const first = await opened()
    await t.rejects(first.write([Buffer.from('x')], 0), { code: 'unavailable' })
    status = 'OK'
    await first.write([Buffer.from('y')], 0)
    await first.write([Buffer.from('z')], 1)
    t.equal(asked, 2, 'a removal is asked for until it succeeds')
    await first.close()

    const refused = { code: 'denied', reason: 'the file has special mode bits that cannot be removed' }
    for (status of ['PERMISSION_DENIED', 'OP_UNSUPPORTED'] as const) {
      const handle = await opened()
      await t.rejects(handle.write([Buffer.from('no')], 0), refused, status)
      await t.rejects(handle.truncate(0), refused, status)
      t.equal(await readFile(program, 'utf8'), 'yzc', 'nothing has changed')
      await chmod(program, 0o755)
      await handle.write([Buffer.from('y')], 0)
      await handle.close()
    }
  },
)

void t.test('sync() rejects if the server cannot flush, and changes nothing', { skip }, async (t) => {
  const storage = await restricted(t, '-P fsync')
  const content = randomBytes(1000)
  const handle = await storage.open(file, 'replace')
  await handle.write([content], 0)
  await t.rejects(async () => handle.sync(), { code: 'unsupported' })
  await handle.commit?.()
  await handle.close()
  t.equal((await storage.stat(file)).size, content.length)
})
