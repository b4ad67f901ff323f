/** The Debian package: the same program below /usr/lib/tidegate, the unit, its user, completions and manual pages. */
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Architecture } from './architectures.js'
import { normalize } from './archive.js'
import { run } from './run.js'

export interface DebianPackage {
  readonly architecture: Architecture
  /** The folder that `writeTree` has written. */
  readonly tree: string
  /** Completions and manual pages, by their path. */
  readonly generated: ReadonlyMap<string, string>
  readonly version: string
  /** Seconds since 1970, of every file. */
  readonly time: number
  /** The oldest version of the C library that the binaries run with. */
  readonly libc: string
}

const program = 'usr/lib/tidegate'
const configuration = 'etc/tidegate/tidegate.json'

/** systemd-sysusers and systemd-tmpfiles make the account and its folder. */
const sysusers = 'u tidegate - "Tidegate storage gateway" /var/lib/tidegate /usr/sbin/nologin\n'
const tmpfiles = 'd /var/lib/tidegate 0700 tidegate tidegate -\n'

/** What lintian takes for errors, and is meant so. */
const overrides = `# The package brings Node.js and the libraries of its images, so that it runs on other releases too.
tidegate: embedded-library *
# Scripts of dependencies, which that Node.js could run.
tidegate: missing-dep-for-interpreter node *
# The project has no address for mail yet.
tidegate: bogus-mail-host Maintainer tidegate@localhost
`

const postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
  systemd-sysusers tidegate.conf
  install -d -m 0700 -o tidegate -g tidegate /var/lib/tidegate
  # It may hold the password of a database.
  if [ -z "$2" ]; then chown root:tidegate /${configuration}; chmod 0640 /${configuration}; fi
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    if [ -z "$2" ]; then systemctl enable tidegate; fi
    # Also after a removal, which stops the service and leaves it enabled.
    if systemctl is-enabled --quiet tidegate; then
      systemctl restart tidegate || echo 'The service has not started; the reason: journalctl -u tidegate'
    fi
  fi
fi
`

const prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl stop tidegate; fi
`

/**
 * What the daemon has stored of its own goes; what users have stored stays, also in other folders that storages show.
 */
const postrm = `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ]; then
  data=/var/lib/tidegate
  if [ -d "$data" ]; then
    for name in data.db data.db-wal data.db-shm search.db search.db-wal search.db-shm daemon.pid ssh spool rclone thumbnails backups temp; do
      rm -rf "\${data:?}/$name"
    done
    rm -rf "$data"/.tidegate-scratch-*
    rmdir --ignore-fail-on-non-empty "$data/files" 2>/dev/null || true
    rmdir --ignore-fail-on-non-empty "$data"
  fi
  rm -rf /etc/systemd/system/tidegate.service.d /etc/systemd/system/multi-user.target.wants/tidegate.service
  if [ -d "$data" ]; then
    echo "The files of users stay in $data, and so does the account tidegate that owns them."
  elif command -v userdel >/dev/null; then
    userdel tidegate 2>/dev/null || true
  fi
fi
`

/** Writes the package to the file. `root`: a folder that does not exist, for its content. */
export async function writeDebianPackage(file: string, root: string, made: DebianPackage): Promise<void> {
  const { architecture, tree, generated, version, time, libc } = made
  await mkdir(join(root, 'usr/lib'), { recursive: true })
  await cp(tree, join(root, program), { recursive: true, verbatimSymlinks: true })
  // These files have their places in the system.
  for (const name of ['systemd', 'config', 'LICENSE', 'CHANGELOG.md'])
    await rm(join(root, program, name), { recursive: true })
  await put(root, 'usr/lib/systemd/system/tidegate.service', await unit())
  await put(root, 'usr/lib/sysusers.d/tidegate.conf', sysusers)
  await put(root, 'usr/lib/tmpfiles.d/tidegate.conf', tmpfiles)
  await put(root, 'usr/share/lintian/overrides/tidegate', overrides)
  await put(root, configuration, '{}\n')
  for (const [path, text] of generated) {
    const isPage = path.startsWith('usr/share/man/')
    await put(root, isPage ? `${path}.gz` : path, isPage ? gzipSync(text, { level: 9 }) : text)
  }
  const docs = 'usr/share/doc/tidegate'
  await put(root, `${docs}/changelog.gz`, gzipSync(await readFile('CHANGELOG.md'), { level: 9 }))
  await put(root, `${docs}/copyright`, await copyright())
  await cp('config', join(root, docs, 'examples'), { recursive: true })
  await symlink('../lib/tidegate/bin/tidegate', await parentOf(root, 'usr/bin/tidegate'))

  await normalize(root, time)
  const [size = ''] = (await run('du', ['-sk', '--apparent-size', root])).split('\t')
  const control = `Package: tidegate
Version: ${version}
Architecture: ${architecture.debian}
Maintainer: Tidegate <tidegate@localhost>
Installed-Size: ${size}
Depends: libc6 (>= ${libc}), libstdc++6, systemd | systemd-standalone-sysusers, procps
Suggests: ffmpeg
Section: net
Priority: optional
Description: storage gateway: one tree, served over HTTP, WebDAV and SFTP
 Storages (folders, servers, buckets, cloud drives) are mounted into one tree,
 which a console, a JSON API, WebDAV and SFTP serve to the same users under the
 same rules. The package has its own Node.js.
`
  await put(root, 'DEBIAN/control', control)
  await put(root, 'DEBIAN/conffiles', `/${configuration}\n`)
  await put(
    root,
    'DEBIAN/md5sums',
    await run('sh', ['-c', `find usr -type f | LC_ALL=C sort | xargs -d '\\n' md5sum`], { folder: root }),
  )
  for (const [name, text] of Object.entries({ postinst, prerm, postrm })) await put(root, `DEBIAN/${name}`, text)
  await normalize(join(root, 'DEBIAN'), time)
  for (const name of ['postinst', 'prerm', 'postrm']) await run('chmod', ['755', join(root, 'DEBIAN', name)])
  await run('dpkg-deb', ['--root-owner-group', '-Zxz', '--build', root, file], {
    environment: { SOURCE_DATE_EPOCH: String(time) },
  })
}

/** The unit of the repository, with the program and the configuration of the package. */
async function unit(): Promise<string> {
  const text = await readFile('systemd/tidegate.service', 'utf8')
  const [, sections = ''] = /^(\[Unit\].*)/ms.exec(text) ?? []
  const replaced = sections
    .replace('ExecStart=/usr/bin/node /usr/lib/tidegate/dist/src/main.js', 'ExecStart=/usr/bin/tidegate')
    .replace(
      'Environment=TIDEGATE_DATA=/var/lib/tidegate\n',
      `Environment=TIDEGATE_DATA=/var/lib/tidegate\nEnvironment=TIDEGATE_CONFIG=/${configuration}\n`,
    )
  if (!replaced.includes('ExecStart=/usr/bin/tidegate serve\n') || !replaced.includes('TIDEGATE_CONFIG=/etc')) {
    throw new Error('systemd/tidegate.service has other lines than the package expects')
  }
  return `# Tidegate as a service. Change it with "systemctl edit tidegate".\n\n${replaced}`
}

async function copyright(): Promise<string> {
  const license = (await readFile('LICENSE', 'utf8')).trim().split('\n')
  const indented = license.map((line) => (line === '' ? ' .' : ` ${line}`)).join('\n')
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Tidegate
Comment: The licenses of Node.js and of each dependency are beside them, below /usr/lib/tidegate.

Files: *
Copyright: the contributors of Tidegate
License: Expat
${indented}
`
}

async function parentOf(root: string, path: string): Promise<string> {
  await mkdir(dirname(join(root, path)), { recursive: true })
  return join(root, path)
}

async function put(root: string, path: string, content: string | Buffer): Promise<void> {
  await writeFile(await parentOf(root, path), content)
}
