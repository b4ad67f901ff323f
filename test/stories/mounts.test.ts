/**
 * The tree mounted as a file system, by davfs2 over WebDAV and by sshfs over SFTP: a real source tree is copied in,
 * searched, built, compared, committed with git, and removed again. The mount shows the same files as the other
 * protocols.
 */
import { execFile, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks, onlyWithVariants } from '../programs.js'

const run = promisify(execFile)

/** About a hundred files of C, including a program, from a dependency of the project. */
const sources = fileURLToPath(new URL('../../../node_modules/cpu-features/deps/cpu_features', import.meta.url))

/** The repository that is cloned: this one with TIDEGATE_VARIANTS=all, else one of the sources. */
async function repositoryOf(t: Test): Promise<string> {
  if (onlyWithVariants === false) return fileURLToPath(new URL('../../..', import.meta.url))
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-mounts-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await run('cp', ['-r', `${sources}/.`, folder])
  for (const words of [
    ['init', '--quiet'],
    ['add', '--all'],
    ['commit', '--quiet', '-m', 'sources'],
  ])
    await git('-C', folder, ...words)
  return folder
}

const git = (...words: readonly string[]) =>
  run('git', ['-c', 'user.name=tide', '-c', 'user.email=tide@localhost', ...words])

const compile = [
  ...['-DSTACK_LINE_READER_BUFFER_SIZE=1024', '-DHAVE_DLFCN_H', '-DHAVE_STRONG_GETAUXVAL', '-Iinclude'],
  ...['src/filesystem.c', 'src/hwcaps.c', 'src/stack_line_reader.c', 'src/string_view.c'],
  ...['src/impl_x86_linux_or_android.c', 'src/impl_aarch64_linux_or_android.c', 'src/utils/list_cpu_features.c'],
]

interface Mounted {
  readonly folder: string
  /** Unmounts. Resolves when everything is written to the server. */
  readonly unmount: () => Promise<void>
}

/** A folder that the mounting program, which may run as another user, can access. */
async function openFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-mounts-'))
  await chmod(folder, 0o755)
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

async function mounted(t: Test, folder: string, unmount: readonly [string, ...string[]]): Promise<Mounted> {
  let isMounted = true
  const end = async (): Promise<void> => {
    if (!isMounted) return
    isMounted = false
    const [program, ...words] = unmount
    await run(program, [...words, folder], { timeout: 180_000 })
  }
  t.teardown(end)
  t.ok((await run('findmnt', ['--noheadings', folder])).stdout.includes('fuse'), 'it is mounted')
  return { folder, unmount: end }
}

/** A daemon in a separate process: starting a program from a mount that this process serves would deadlock. */
async function daemonWith(t: Test, driver: string): Promise<{ daemon: Daemon; base: string }> {
  const daemon = await startDaemon(t)
  if (driver === 'Local') return { daemon, base: '' }
  const call = async (path: string, body: object, authorization = ''): Promise<unknown> => {
    const headers = { 'content-type': 'application/json', authorization }
    const response = await fetch(daemon.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const { code, data } = (await response.json()) as { code: number; data: unknown }
    t.equal(code, 200, path)
    return data
  }
  const user = { username: 'admin', password: daemon.adminPassword }
  const { token } = (await call('/api/auth/login', user)) as { token: string }
  await call('/api/admin/storage/create', { mount_path: '/other', driver, addition: '{}' }, token)
  return { daemon, base: 'other/' }
}

/** `buf_size`: with the default of 16 KiB, davfs2 1.6 cannot list folders on Linux 6.16 and newer. */
async function mountDavfs(t: Test, daemon: Daemon, base: string): Promise<Mounted> {
  const place = await openFolder(t)
  const folder = join(place, 'mount')
  const cache = join(place, 'cache')
  await mkdir(folder)
  await mkdir(cache)
  await chmod(cache, 0o777)
  const secrets = join(place, 'secrets')
  await writeFile(secrets, `${folder} admin "${daemon.adminPassword}"\n`, { mode: 0o600 })
  const config = join(place, 'davfs2.conf')
  const lines = [`secrets ${secrets}`, `cache_dir ${cache}`, 'buf_size 64', 'ask_auth 0', 'delay_upload 0']
  await writeFile(config, `${lines.join('\n')}\n`)
  await run('mount.davfs', ['-o', `conf=${config}`, daemon.davUrl + base, folder], { timeout: 120_000 })
  return mounted(t, folder, ['umount.davfs'])
}

async function mountSshfs(t: Test, daemon: Daemon, base: string): Promise<Mounted> {
  const place = await openFolder(t)
  const folder = join(place, 'mount')
  await mkdir(folder)
  const options = [
    ...['password_stdin', 'StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null'],
    ...['PreferredAuthentications=password', 'PubkeyAuthentication=no', 'idmap=user'],
  ]
  const words = ['-p', String(daemon.sftpPort), ...options.flatMap((option) => ['-o', option])]
  const child = spawn('sshfs', [`admin@127.0.0.1:/${base}`, folder, ...words], {
    stdio: ['pipe', 'inherit', 'inherit'],
  })
  child.stdin.end(`${daemon.adminPassword}\n`)
  const status = await new Promise((resolve) => child.once('exit', resolve))
  t.equal(status, 0, 'sshfs mounts')
  return mounted(t, folder, ['fusermount3', '-u'])
}

/** Copies the tree to the mount, searches, builds, runs and compares it. */
async function workWithSources(t: Test, folder: string): Promise<void> {
  const tree = join(folder, 'cpu features')
  await run('cp', ['-r', sources, tree])
  await t.resolves(run('diff', ['-r', sources, tree]), 'the copy is the same')
  const { stdout } = await run('grep', ['-rl', 'GetX86Info', '.'], { cwd: tree })
  const { stdout: expected } = await run('grep', ['-rl', 'GetX86Info', '.'], { cwd: sources })
  t.same(stdout.split('\n').sort(), expected.split('\n').sort(), 'a search finds the same files')
  await run('gcc', ['-o', 'list_cpu_features', ...compile], { cwd: tree })
  t.match((await run(join(tree, 'list_cpu_features'))).stdout, /arch/, 'the program that was built there runs')
  await run('mv', ['list_cpu_features', 'renamed'], { cwd: tree })
  await t.resolves(run('test', ['-x', 'renamed'], { cwd: tree }))
}

void t.test(
  'davfs2: a source tree is copied in, searched, built, compared and removed',
  { skip: lacks('mount.davfs', 'gcc') },
  async (t) => {
    for (const driver of ['Local', 'Memory']) {
      await t.test(`over ${driver}`, async (t) => {
        const { daemon, base } = await daemonWith(t, driver)
        const { folder, unmount } = await mountDavfs(t, daemon, base)
        await workWithSources(t, folder)
        await writeFile(join(folder, 'note.txt'), 'first')
        await writeFile(join(folder, 'note.txt'), 'second, and longer')
        await unmount()
        const user = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
        const get = (path: string) =>
          fetch(daemon.davUrl + base + path, { headers: { authorization: `Basic ${user}` } })
        t.equal(await (await get('note.txt')).text(), 'second, and longer')
        const license = await get('cpu%20features/LICENSE')
        t.equal(await license.text(), await readFile(join(sources, 'LICENSE'), 'utf8'))
        const again = await mountDavfs(t, daemon, base)
        await t.resolves(run('diff', ['-r', '--exclude=renamed', sources, join(again.folder, 'cpu features')]))
        await run('rm', ['-r', join(again.folder, 'cpu features'), join(again.folder, 'note.txt')])
        const left = (await readdir(again.folder)).filter((name) => name !== 'lost+found') // created by davfs2
        t.same(left, [])
        await again.unmount()
        t.equal((await get('cpu%20features/')).status, 404, 'nothing is left on the server')
      })
    }
  },
)

void t.test(
  'sshfs: a repository is cloned, a source tree unpacked, built, searched and removed',
  { skip: lacks('sshfs', 'git', 'gcc', 'tar') },
  async (t) => {
    for (const driver of ['Local', 'Memory']) {
      await t.test(`over ${driver}`, async (t) => {
        const { daemon, base } = await daemonWith(t, driver)
        const { folder, unmount } = await mountSshfs(t, daemon, base)
        await workWithSources(t, folder)
        const archive = join(folder, 'sources.tar.gz')
        await run('tar', ['-C', sources, '-czf', archive, '.'])
        await mkdir(join(folder, 'unpacked'))
        await run('tar', ['-C', join(folder, 'unpacked'), '-xzf', archive])
        await t.resolves(run('diff', ['-r', sources, join(folder, 'unpacked')]), 'the archive is unpacked completely')

        const clone = join(folder, 'clone')
        const repository = await repositoryOf(t)
        await git('clone', '--quiet', '--depth', '1', `file://${repository}`, clone)
        t.equal((await git('-C', clone, 'status', '--porcelain')).stdout, '', 'the clone is clean')
        await writeFile(join(clone, 'tide.txt'), 'neap\n')
        await git('-C', clone, 'add', 'tide.txt')
        await git('-C', clone, 'commit', '--quiet', '-m', 'tide')
        await t.resolves(git('-C', clone, 'fsck', '--no-dangling'), 'git fsck finds no corrupt object')
        t.match((await git('-C', clone, 'log', '--oneline', '-1')).stdout, /tide/)
        await run('rm', [
          '-r',
          ...['cpu features', 'unpacked', 'sources.tar.gz', 'clone'].map((name) => join(folder, name)),
        ])
        t.same(await readdir(folder), [])
        await unmount()
      })
    }
  },
)
