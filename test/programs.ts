/** Programs that tests run, each with its Debian package. */
import { spawn } from 'node:child_process'
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface Program {
  readonly name: string
  readonly package: string
  /** Further packages that its tests need. */
  readonly with?: readonly string[]
  /** A file that exists if it is installed, for what is not a program in PATH. */
  readonly file?: string
  /**
   * Whether its package conflicts with another one of this table, or would start a service, and is unpacked in
   * `unpackedFolder` instead of installed.
   */
  readonly unpacked?: true
}

/** Packages that are not installed are unpacked in this folder and run from it. */
const unpackedFolder = '/opt/tidegate-test-programs'

const programs: readonly Program[] = [
  { name: 'curl', package: 'curl' },
  { name: 'wrk', package: 'wrk' },
  { name: 'rclone', package: 'rclone' },
  { name: 'litmus', package: 'litmus' },
  { name: 'sftp', package: 'openssh-client' },
  { name: 'ssh-keygen', package: 'openssh-client' },
  { name: 'lftp', package: 'lftp' },
  { name: 'psftp', package: 'putty-tools' },
  { name: 'paramiko', package: 'python3-paramiko', file: '/usr/lib/python3/dist-packages/paramiko/__init__.py' },
  { name: 'sshd', package: 'openssh-server' },
  { name: 'ssh-audit', package: 'ssh-audit' },
  { name: 'mount.davfs', package: 'davfs2' },
  { name: 'cadaver', package: 'cadaver' },
  { name: 'sshfs', package: 'sshfs' },
  { name: 'nginx', package: 'nginx-light' },
  { name: 'haproxy', package: 'haproxy' },
  { name: 'caddy', package: 'caddy' },
  { name: 'apache2', package: 'apache2-bin' },
  { name: 'openssl', package: 'openssl' },
  { name: 'git', package: 'git' },
  { name: 'zsh', package: 'zsh' },
  { name: 'fish', package: 'fish' },
  { name: 'gcc', package: 'gcc' },
  { name: 'tar', package: 'tar' },
  { name: 'unzip', package: 'unzip' },
  { name: 'bsdtar', package: 'libarchive-tools' },
  { name: 'python3', package: 'python3' },
  { name: 'findmnt', package: 'util-linux' },
  { name: 'setpriv', package: 'util-linux' },
  { name: 'ps', package: 'procps' },
  { name: 'ffmpeg', package: 'ffmpeg' },
  { name: 'ffprobe', package: 'ffmpeg' },
  { name: 'chromium', package: 'chromium' },
  { name: 'gio', package: 'libglib2.0-bin' },
  { name: 'gvfsd-dav', package: 'gvfs-backends' },
  { name: 'dbus-run-session', package: 'dbus-daemon' },
  { name: 'soffice', package: 'libreoffice-writer-nogui', with: ['python3-uno'] },
  { name: 'swift-proxy-server', package: 'swift-proxy' },
  { name: 'swift-account-server', package: 'swift-account' },
  { name: 'swift-container-server', package: 'swift-container' },
  { name: 'swift-object-server', package: 'swift-object' },
  { name: 'swift-ring-builder', package: 'swift' },
  { name: 'memcached', package: 'memcached' },
  { name: 'vsftpd', package: 'vsftpd' },
  { name: 'pure-ftpd', package: 'pure-ftpd', with: ['libsodium23'], unpacked: true },
  { name: 'pure-pw', package: 'pure-ftpd', unpacked: true },
  { name: 'slapd', package: 'slapd', with: ['libltdl7', 'libodbc2', 'libwrap0'], unpacked: true },
  { name: 'smbd', package: 'samba' },
  { name: 'smbpasswd', package: 'samba-common-bin' },
  { name: 'smbcontrol', package: 'samba' },
  { name: 'aria2c', package: 'aria2' },
  { name: 'qbittorrent-nox', package: 'qbittorrent-nox' },
  { name: 'fail2ban-regex', package: 'fail2ban' },
  { name: 'postgres', package: 'postgresql' },
  { name: 'initdb', package: 'postgresql' },
]

/**
 * Absolute path of a program, searched in PATH and in Debian's folders of servers, or of its file in the table.
 * Undefined if it is not installed.
 */
export function findProgram(name: string): string | undefined {
  const file = programs.find((program) => program.name === name)?.file
  if (file !== undefined) return existsSync(file) ? file : undefined
  const folders = [
    ...(process.env.PATH ?? '').split(':'),
    ...['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/libexec'],
    ...['bin', 'sbin'].map((folder) => join(unpackedFolder, 'usr', folder)),
    ...postgresFolders(),
  ]
  return folders
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK)
        return true
      } catch {
        return false
      }
    })
}

/** Where Debian installs the programs of PostgreSQL, by version. */
function postgresFolders(): readonly string[] {
  const folder = '/usr/lib/postgresql'
  return existsSync(folder) ? readdirSync(folder).map((version) => join(folder, version, 'bin')) : []
}

/**
 * The `skip` option of a test: false if every program is installed, otherwise the reason. With CI=true always false, so
 * that a missing program is a failure.
 */
export function lacks(...names: readonly string[]): string | false {
  if (process.env.CI === 'true') return false
  const missing = names.filter((name) => findProgram(name) === undefined)
  return missing.length === 0 ? false : `not installed: ${missing.join(', ')}`
}

/**
 * Installs missing programs (as root on a system with apt-get), and reports those that cannot be installed. Resolves to
 * the programs that are still missing.
 */
export async function setUpPrograms(say: (line: string) => void): Promise<readonly Program[]> {
  const missing = programs.filter((program) => findProgram(program.name) === undefined)
  if (missing.length === 0) return []
  const packages = [
    ...new Set(missing.flatMap((program) => [...(program.unpacked ? [] : [program.package]), ...(program.with ?? [])])),
  ]
  const unpacked = [...new Set(missing.filter((program) => program.unpacked).map((program) => program.package))]
  const apt = findProgram('apt-get')
  if (apt === undefined || process.getuid?.() !== 0) {
    say(`Missing programs: ${missing.map((program) => program.name).join(', ')}. Tests that run them are skipped.`)
    say(`On Debian and Ubuntu: sudo apt-get install ${packages.join(' ')}`)
    return missing
  }
  say(`Installing ${[...packages, ...unpacked].join(' ')} for the tests.`)
  const install = async (): Promise<boolean> => {
    const words = ['-o', 'Dpkg::Options::=--force-unsafe-io', 'install', '--yes', '--no-install-recommends']
    if (!(await succeeds(apt, [...words, ...packages]))) return false
    for (const name of unpacked) if (!(await unpack(apt, name))) return false
    return true
  }
  // Package lists may be absent, as in a new container, or old. They are fetched only if the first attempt fails.
  if (!(await install())) {
    await succeeds(apt, ['update'])
    await install()
  }
  const still = missing.filter((program) => findProgram(program.name) === undefined)
  if (still.length > 0) say(`Could not install: ${still.map((program) => program.name).join(', ')}.`)
  return still
}

/** Unpacks the files of a package without installing it. */
async function unpack(apt: string, name: string): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-package-'))
  try {
    // apt's own download user cannot write to this folder.
    const isDownloaded = await succeeds(apt, ['-o', 'APT::Sandbox::User=root', 'download', name], folder)
    const [file] = readdirSync(folder)
    if (!isDownloaded || file === undefined) return false
    return await succeeds('dpkg-deb', ['--extract', join(folder, file), unpackedFolder])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Whether the program ends with status 0. */
async function succeeds(program: string, words: readonly string[], cwd?: string): Promise<boolean> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const child = spawn(program, words, { env, cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  return new Promise((resolve) => {
    child.on('error', () => resolve(false)).on('close', (status) => resolve(status === 0))
  })
}

/**
 * The `skip` option of a test that repeats another one against a server with another configuration. `npm run soak`
 * runs most of these tests: it sets `TIDEGATE_VARIANTS=all`.
 */
export const onlyWithVariants = process.env.TIDEGATE_VARIANTS === 'all' ? false : 'runs with TIDEGATE_VARIANTS=all'
