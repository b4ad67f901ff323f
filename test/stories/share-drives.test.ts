/** Client programs on a share as a WebDAV drive: its visitors copy in and out by rclone, and mount it by davfs2. */
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import type { ShareMode } from '../../src/base/rights.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'

const run = promisify(execFile)
const gnomeLacks = lacks('gio', 'gvfsd-dav', 'dbus-run-session')
const code = 'code of the share'

/** Every line must succeed. GNOME looks for the root of the mount above the drive too. */
const byGnome = `
set -e
printf '%s\\n%s\\n' gnome "$CODE" | gio mount "$DAV"
gio list "$DAV" | grep -x 'spring tide.txt'
test "$(gio cat "$DAV/spring tide.txt")" = 'high water'
gio mkdir "$DAV/made"
gio copy 'spring tide.txt' "$DAV/made/added.txt"
gio copy "$DAV/made/added.txt" "$DAV/copied.txt"
! gio remove "$DAV/copied.txt"
! gio rename "$DAV/copied.txt" renamed.txt
gio mount -u "$DAV"
`

async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-drives-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Shares a folder of the admin's as a drive. Resolves to its URL. */
async function drive(running: RunningGateway, id: string, path: string, mode: ShareMode): Promise<string> {
  const { accounts, shares } = running.gateway
  const creatorId = accounts.users.byUniqueRole('admin')?.id ?? 0
  await shares.create(
    id,
    {
      ...{
        creatorId,
        mode,
        code,
        expires: undefined,
        maxVisits: 0,
        disabled: false,
        remark: '',
        readme: '',
      },
      ...{ header: '', orderBy: '', orderDirection: '', extractFolder: '', allowFrom: [], webdav: true },
      ...{ uploadMaxBytes: 0, uploadMaxFiles: 0 },
    },
    [asPath(path)],
  )
  return `${running.davUrl}@s/${id}/`
}

void t.test('a share as a drive', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  const place = await temporaryFolder(t)
  // davfs2 keeps its cache as another user.
  await chmod(place, 0o755)
  const source = join(place, 'source')
  await mkdir(join(source, 'below'), { recursive: true })
  await writeFile(join(source, 'spring tide.txt'), 'high water\n')
  await writeFile(join(source, 'below', 'neap'), 'low water\n'.repeat(10_000))

  await t.test(
    'rclone copies in and out, a second time nothing, and removes nothing',
    { skip: lacks('rclone') },
    async (t) => {
      await mkdir(join(files, 'by-rclone'))
      const url = await drive(running, 'rclone', '/by-rclone', 'both')
      const { stdout: obscured } = await run('rclone', ['obscure', code])
      const config = join(place, 'rclone.conf')
      await writeFile(
        config,
        `[d]\ntype = webdav\nurl = ${url}\nvendor = owncloud\nuser = rclone\npass = ${obscured.trim()}\n`,
      )
      const rclone = async (...words: readonly string[]) =>
        (await run('rclone', ['--config', config, '--retries', '1', '-v', ...words])).stderr
      t.notMatch(await rclone('copy', source, 'd:'), /nothing to transfer/)
      t.match(await rclone('copy', source, 'd:'), /nothing to transfer/, 'the times are kept')
      await t.resolves(run('diff', ['-r', source, join(files, 'by-rclone')]))
      await rclone('copy', 'd:', join(place, 'back'))
      await t.resolves(run('diff', ['-r', source, join(place, 'back')]))
      await writeFile(join(place, 'back', 'spring tide.txt'), 'higher water\n')
      await rclone('copy', join(place, 'back'), 'd:')
      t.equal(await readFile(join(files, 'by-rclone', 'spring tide.txt'), 'utf8'), 'higher water\n')
      await t.rejects(rclone('deletefile', 'd:spring tide.txt'))
      await t.rejects(rclone('moveto', 'd:spring tide.txt', 'd:renamed'))
      t.same((await readdir(join(files, 'by-rclone'))).sort(), ['below', 'spring tide.txt'])
    },
  )

  await t.test('GNOME’s programs mount it, list, read, add and copy', { skip: gnomeLacks }, async (t) => {
    await run('cp', ['-r', source, join(files, 'by-gnome')])
    await drive(running, 'gnome', '/by-gnome', 'both')
    const home = join(place, 'home')
    await mkdir(join(home, 'run'), { recursive: true, mode: 0o700 })
    const dav = `dav://${new URL(running.url).host}/dav/@s/gnome`
    const env = {
      ...process.env,
      HOME: home,
      XDG_RUNTIME_DIR: join(home, 'run'),
      LC_ALL: 'C.UTF-8',
      DAV: dav,
      CODE: code,
    }
    await t.resolves(run('dbus-run-session', ['--', 'bash', '-c', byGnome], { cwd: source, env }))
    t.equal(await readFile(join(files, 'by-gnome', 'made', 'added.txt'), 'utf8'), 'high water\n')
    t.equal(await readFile(join(files, 'by-gnome', 'copied.txt'), 'utf8'), 'high water\n')
  })

  await t.test('davfs2 mounts it, reads, adds and replaces', { skip: lacks('mount.davfs') }, async (t) => {
    await run('cp', ['-r', source, join(files, 'by-davfs')])
    const mount = async (url: string, id: string) => {
      const folder = join(place, `mount-${id}`)
      const cache = join(place, `cache-${id}`)
      await mkdir(folder)
      await mkdir(cache)
      await chmod(cache, 0o777)
      const secrets = join(place, `secrets-${id}`)
      await writeFile(secrets, `${folder} ${id} "${code}"\n`, { mode: 0o600 })
      const config = join(place, `davfs2-${id}.conf`)
      // With the default of `buf_size`, davfs2 1.6 cannot list folders on Linux 6.16 and newer.
      const lines = [`secrets ${secrets}`, `cache_dir ${cache}`, 'buf_size 64', 'ask_auth 0', 'delay_upload 0']
      await writeFile(config, `${lines.join('\n')}\n`)
      await run('mount.davfs', ['-o', `conf=${config}`, url, folder], { timeout: 120_000 })
      t.teardown(() => run('umount.davfs', [folder]).catch(() => undefined))
      return folder
    }
    const folder = await mount(await drive(running, 'davfs', '/by-davfs', 'both'), 'davfs')
    await t.resolves(run('diff', ['-r', '--exclude=lost+found', source, folder]))
    await mkdir(join(folder, 'made'))
    await writeFile(join(folder, 'made', 'note.txt'), 'first')
    await writeFile(join(folder, 'made', 'note.txt'), 'second, and longer')
    await t.rejects(rm(join(folder, 'spring tide.txt')))
    await run('umount.davfs', [folder])
    t.equal(await readFile(join(files, 'by-davfs', 'made', 'note.txt'), 'utf8'), 'second, and longer')
    t.same(await readdir(join(files, 'by-davfs')), ['below', 'made', 'spring tide.txt'])
    t.same(running.gateway.locks.list(), [], 'no lock is left')

    const single = await mount(await drive(running, 'single', '/by-davfs/spring tide.txt', 'read'), 'single')
    t.equal(await readFile(join(single, 'spring tide.txt'), 'utf8'), 'high water\n')
    await t.rejects(writeFile(join(single, 'spring tide.txt'), 'x').then(() => run('umount.davfs', [single])))
    t.equal(await readFile(join(files, 'by-davfs', 'spring tide.txt'), 'utf8'), 'high water\n')
  })
})
