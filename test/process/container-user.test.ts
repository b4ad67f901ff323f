/** A daemon that is started as root with PUID, PGID and UMASK, as in a container. */
import { lstat, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { applyContainerUser } from '../../src/process/container-user.js'
import { startDaemon } from '../gateway.js'

const needsRoot = process.getuid?.() !== 0 && 'only root can become another user'

void t.test(
  'the daemon becomes that user, who owns the data but for what is below files',
  { skip: needsRoot },
  async (t) => {
    const first = await startDaemon(t)
    await first.stop()
    const { dataFolder, adminPassword } = first
    await mkdir(join(dataFolder, 'files', 'below'))
    await writeFile(join(dataFolder, 'files', 'below', 'old'), 'old')
    await writeFile(join(t.testdir(), 'outside'), '')
    await symlink(join(t.testdirName, 'outside'), join(dataFolder, 'link'))
    const environment = { PUID: '4242', PGID: '4243', UMASK: '027' }
    const { pid, davUrl } = await startDaemon(t, { dataFolder, adminPassword, environment })
    const status = await readFile(`/proc/${pid}/status`, 'utf8')
    t.match(status, /^Uid:\t4242\t4242\t4242\t4242$/m)
    t.match(status, /^Gid:\t4243\t4243\t4243\t4243$/m)
    t.match(status, /^Groups:\t4243 ?$/m)
    const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
    const { status: stored } = await fetch(`${davUrl}new`, { method: 'PUT', body: 'new', headers: { authorization } })
    t.equal(stored, 201)
    t.match(await lstat(join(dataFolder, 'files', 'new')), { uid: 4242, gid: 4243 })
    t.equal((await lstat(join(dataFolder, 'files', 'new'))).mode & 0o777, 0o640)
    for (const name of ['.', 'ssh', 'ssh/ssh_host_rsa_key', 'files', 'link']) {
      t.match(await lstat(join(dataFolder, name)), { uid: 4242, gid: 4243 }, name)
    }
    t.match(await lstat(join(dataFolder, 'files', 'below', 'old')), { uid: 0 }, 'files of users keep their owner')
    t.match(await lstat(join(t.testdirName, 'outside')), { uid: 0 }, 'symlinks are not followed')
  },
)

void t.test('values that are no numbers are refused before anything is changed', async (t) => {
  const umask = async () => /^Umask:.*$/m.exec(await readFile('/proc/self/status', 'utf8'))?.[0]
  const before = await umask()
  for (const wrong of [
    { UMASK: '0o22' },
    { UMASK: '999' },
    { PUID: '-1' },
    { PUID: 'root' },
    { PUID: '1', PGID: '4294967295' },
  ]) {
    if (process.getuid?.() !== 0 && !('UMASK' in wrong)) continue
    await t.rejects(applyContainerUser(join(t.testdir(), 'data'), wrong), { code: 'invalid' })
  }
  await applyContainerUser('/nonexistent/data', { PUID: '', PGID: '', UMASK: '' })
  t.equal(await umask(), before)
})
