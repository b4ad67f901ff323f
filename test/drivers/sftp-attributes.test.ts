/** SFTP servers that set no attributes, or flush nothing: what is reported as done is done, by the server or beside it. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sftpFields, sftpType } from '../../drivers/sftp/index.js'
import { asPath } from '../../src/contract/path.js'
import { checkOptions } from '../../src/storage/fields.js'
import { lacks } from '../programs.js'
import { startMinimalSftp } from '../services/minimal-sftp.js'
import { startOpenSsh } from '../services/openssh.js'
import { newTree, sourceOf } from '../tree/tree-fixture.js'

const [file, other] = [asPath('/file'), asPath('/other')]
const modified = new Date('2001-02-03T04:05:06Z')
const later = new Date('2002-03-04T05:06:07Z')

/** A storage on a new folder of this server. */
async function mounted(
  t: Test,
  account: { readonly address: string; readonly username: string; readonly privateKey?: string },
) {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const { address, username, privateKey: private_key = '' } = account
  const options = checkOptions(sftpFields, { address, username, private_key, root_folder_path: folder })
  const driverOf = (env: Parameters<typeof sftpType.open>[1]) => sftpType.open(options, env)
  const { mounts } = await newTree(t, { '/': { driverOf, traits: sftpType.traits ?? {} } })
  return mounts.find(file).storage
}

const minimal = async (t: Test, settingAttributes: Parameters<typeof startMinimalSftp>[0]) => {
  const server = await startMinimalSftp(settingAttributes)
  t.teardown(() => server.stop())
  return mounted(t, { address: server.address, username: 'ada' })
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
