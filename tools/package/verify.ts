/**
 * `npm run package:verify -- [--out DIR]`: installs the packages in `build/` as their users would, in a fresh Debian 12
 * without Node.js, npm and a compiler, made by debootstrap, and makes and runs the image. As root. Prints what it has
 * seen, and has the status 1 if anything is not as it must be.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { access, copyFile, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { architectures, isForeign } from './architectures.js'
import { assert } from './assert.js'
import { addresses, ready, stop, useProtocols, useThumbnails } from './daemon.js'
import { run } from './run.js'
import { verifyImage } from './verify-image.js'

/** A Debian system below a folder. Its programs see the processes and the network of this machine. */
class System {
  constructor(readonly root: string) {}

  /** The words that run a program in it, by mounts that end with the program. */
  #enter(words: readonly string[]): readonly string[] {
    const mounts = 'mount --bind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
    return ['--mount', '--propagation', 'private', 'sh', '-c', mounts, this.root, ...words]
  }

  run(...words: readonly string[]): Promise<string> {
    const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C.UTF-8' }
    return run('unshare', this.#enter(words), { environment })
  }

  start(...words: readonly string[]): ChildProcess {
    const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
    return spawn('unshare', this.#enter(words), { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  }

  path(name: string): string {
    return join(this.root, name)
  }

  async has(name: string): Promise<boolean> {
    return access(this.path(name)).then(
      () => true,
      () => false,
    )
  }
}

/** The archive, as an ordinary user. */
async function verifyArchive(system: System, archive: string): Promise<void> {
  await mkdir(system.path('home/ann'), { recursive: true })
  await run('chown', ['1000:1000', system.path('home/ann')])
  await run('tar', ['-xzf', archive, '-C', system.path('opt')])
  const folder = (await run('ls', [system.path('opt')])).trim()
  const asAnn = ['setpriv', '--reuid', '1000', '--regid', '1000', '--clear-groups']
  const words = [...asAnn, `/opt/${folder}/bin/tidegate`, 'serve', '--data', '/home/ann/data', ...addresses]
  const daemon = system.start(...words)
  try {
    const isReady = await ready(daemon)
    await useProtocols(isReady)
    await useThumbnails(isReady)
    await stop(daemon)
  } finally {
    daemon.kill('SIGKILL')
  }
}

/** The command of the unit, as its user, with a socket that hears what it tells systemd. */
async function startUnit(
  system: System,
): Promise<{ readonly daemon: ChildProcess; readonly heard: () => Promise<string> }> {
  const unit = await readFile(system.path('usr/lib/systemd/system/tidegate.service'), 'utf8')
  const [, command = ''] = /^ExecStart=(.*)$/m.exec(unit) ?? []
  const variables = Array.from(unit.matchAll(/^Environment=(.*)$/gm), ([, variable = '']) => variable)
  const socket = '/run/notify'
  const log = system.path('run/heard')
  const listener = spawn('python3', [
    '-c',
    'import os,socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM);s.bind(sys.argv[1]);os.chmod(sys.argv[1],0o777)\nwhile True:\n open(sys.argv[2],"ab").write(s.recv(4096)+b"\\n")',
    ...[system.path(socket), log],
  ])
  const user = ['setpriv', '--reuid', 'tidegate', '--regid', 'tidegate', '--clear-groups']
  const daemon = system.start(
    ...user,
    'env',
    `NOTIFY_SOCKET=${socket}`,
    ...variables,
    ...command.split(' '),
    ...addresses,
  )
  daemon.once('exit', () => listener.kill())
  return { daemon, heard: async () => readFile(log, 'utf8').catch(() => '') }
}

/** The Debian package: installed, started, upgraded, removed, purged. */
async function verifyDebianPackage(system: System, file: string): Promise<void> {
  await copyFile(file, system.path('root/tidegate.deb'))
  const before = await filesOf(system)
  await system.run('apt-get', 'install', '-y', '-q', '--no-install-recommends', '/root/tidegate.deb')
  await system.run('systemd-analyze', 'verify', '/usr/lib/systemd/system/tidegate.service')
  assert(true, 'installed, and the unit is valid')
  const { daemon, heard } = await startUnit(system)
  try {
    const isReady = await ready(daemon)
    await useProtocols(isReady)
    await useThumbnails(isReady)
    while (!(await heard()).includes('READY=1')) await wait(50)
    assert(true, 'the unit tells systemd that it is ready')
    await stop(daemon)
  } finally {
    daemon.kill('SIGKILL')
  }
  for (const name of ['run/notify', 'run/heard']) await rm(system.path(name))
  const configuration = system.path('etc/tidegate/tidegate.json')
  await writeFile(configuration, '{ "log_level": "warn" }\n')
  await system.run('dpkg', '-i', '/root/tidegate.deb')
  assert((await readFile(configuration, 'utf8')).includes('warn'), 'an upgrade keeps a changed configuration')
  await system.run('dpkg', '--remove', 'tidegate')
  assert(await system.has('var/lib/tidegate/data.db'), 'after the removal the data is there')
  await mkdir(system.path('var/lib/tidegate/photos'))
  await writeFile(system.path('var/lib/tidegate/photos/own'), 'in the folder of another storage')
  const said = await system.run('dpkg', '--purge', 'tidegate')
  assert(said.includes('stay in /var/lib/tidegate'), 'the purge says what stays')
  assert(
    (await readFile(system.path('var/lib/tidegate/files/by-http'), 'utf8')) === 'by HTTP',
    'the files of users stay',
  )
  assert(await system.has('var/lib/tidegate/photos/own'), 'also those in other folders')
  assert(!(await system.has('var/lib/tidegate/data.db')), 'nothing else of the data stays')
  await rm(system.path('var/lib/tidegate'), { recursive: true })
  const left = (await filesOf(system)).filter((name) => !before.includes(name) && name.includes('tidegate'))
  assert(left.length === 0, `nothing else is left: ${left.join(' ')}`)
}

/** The paths of all files in the system. */
async function filesOf({ root }: System): Promise<readonly string[]> {
  return (await run('find', [root, '-xdev', '-not', '-path', `${root}/var/lib/apt/*`, '-printf', '%P\\n'])).split('\n')
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { out: { type: 'string', default: 'build' } } })
  const out = resolve(values.out)
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { readonly version: string }
  const architecture = architectures.find((each) => !isForeign(each))
  if (architecture === undefined) throw new Error(`there are no packages for ${process.arch}`)
  const archive = join(out, `tidegate-${version}-linux-${architecture.name}.tar.gz`)
  const debian = join(out, `tidegate_${version}_${architecture.debian}.deb`)
  for (const file of [archive, debian]) await stat(file)
  const work = await mkdtemp(join(tmpdir(), 'tidegate-verify-'))
  try {
    const base = join(work, 'base')
    await run('debootstrap', ['--variant=minbase', 'bookworm', base])
    console.log('the archive, on a minimal Debian 12, as an ordinary user')
    await run('cp', ['-a', base, join(work, 'archive')])
    await verifyArchive(new System(join(work, 'archive')), archive)
    console.log('the image, on the same')
    await mkdir(join(work, 'image'))
    await verifyImage(archive, architecture, base, join(work, 'image'))
    console.log('the Debian package, on the same')
    const system = new System(base)
    await system.run('apt-get', 'update', '-q')
    await verifyDebianPackage(system, debian)
    await run('lintian', ['--fail-on', 'error', debian])
    assert(true, 'lintian finds no errors')
  } finally {
    await rm(work, { recursive: true })
  }
}

await main()
