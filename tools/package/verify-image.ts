/**
 * Builds the image of an archive and runs it: as its user, with no more rights than it needs, and as root that becomes
 * another user.
 */
import { spawn } from 'node:child_process'
import { copyFile, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Architecture } from './architectures.js'
import { assert } from './assert.js'
import { addresses, ready, stop, useProtocols, useThumbnails } from './daemon.js'
import { run } from './run.js'

/** What an engine reads in the image to run it. */
interface Configuration {
  readonly User: string
  readonly Env: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly Healthcheck: { readonly Test: readonly string[] }
  readonly Volumes: Readonly<Record<string, object>>
}

interface Image {
  readonly configuration: Configuration
  /** The parameters of buildah before those of `run`. */
  readonly storage: readonly string[]
  /** The name of a container of the image, and its root folder. */
  readonly container: string
  readonly root: string
  /** The content of the volume: a folder of this machine. */
  readonly data: string
}

const volume = '/var/lib/tidegate'
const password = 'the password in a file'
const isolation = ['--isolation', 'chroot']

/**
 * `archive`: its file. `base`: the folder of a Debian system. `work`: an empty folder. Needs root and buildah, whose
 * isolation `chroot` is used, because it works in containers too.
 */
export async function verifyImage(
  archive: string,
  architecture: Architecture,
  base: string,
  work: string,
): Promise<void> {
  const image = await build(archive, architecture, base, work)
  const { User, Volumes } = image.configuration
  assert(User === '1000:1000' && Object.keys(Volumes).join() === volume, 'the image names its user and its volume')
  await verifyAsItsUser(image, join(work, 'password'))
  await verifyLeastRights(image)
  await verifyAsRoot(image)
}

async function build(archive: string, { name }: Architecture, base: string, work: string): Promise<Image> {
  const storage = ['--root', join(work, 'images'), '--runroot', join(work, 'run'), '--storage-driver', 'vfs']
  const buildah = async (...words: readonly string[]) => (await run('buildah', [...storage, ...words])).trim()
  const empty = await buildah('from', 'scratch')
  await buildah('add', empty, base, '/')
  await buildah('commit', '--rm', '--format', 'docker', empty, 'localhost/base')
  const context = join(work, 'context')
  await mkdir(join(context, 'build'), { recursive: true })
  for (const file of ['Containerfile', '.dockerignore']) await copyFile(file, join(context, file))
  await copyFile(archive, join(context, 'build', basename(archive)))
  const values = ['--build-arg', 'BASE=localhost/base', '--build-arg', `ARCH=${name}`]
  await buildah('bud', ...isolation, '--format', 'docker', ...values, '--tag', 'localhost/tidegate', context)
  const image = JSON.parse(await buildah('inspect', '--type', 'image', 'localhost/tidegate')) as {
    readonly Docker: { readonly config: Configuration }
  }
  const container = await buildah('from', 'localhost/tidegate')
  // Else buildah mounts one of its own at the same place, before or after that of `run`.
  await buildah('config', '--volume', `${volume}-`, container)
  const root = await buildah('mount', container)
  const data = join(work, 'data')
  // As an engine does with a new volume.
  await run('cp', ['-a', join(root, volume), data])
  return { configuration: image.Docker.config, storage, container, root, data }
}

/** A program and its parameters. */
type Words = readonly [string, readonly string[]]

/** The words that run others in the container. */
function inContainer(image: Image, options: readonly string[], words: readonly string[]): Words {
  const { storage, container, data } = image
  return [
    'buildah',
    [...storage, 'run', ...isolation, '--volume', `${data}:${volume}`, ...options, container, '--', ...words],
  ]
}

function serveOf({ configuration: { Entrypoint, Cmd } }: Image): readonly string[] {
  return [...Entrypoint, ...Cmd, ...addresses]
}

/** With the password of a file, and the health check. */
async function verifyAsItsUser(image: Image, secret: string): Promise<void> {
  const { Test } = image.configuration.Healthcheck
  /** What the health check complains of; empty: of nothing. */
  const complaint = () =>
    run(...inContainer(image, [], Test.slice(1))).then(
      () => '',
      (error: unknown) => String(error),
    )
  await writeFile(secret, `${password}\n`)
  const mounted = ['--volume', `${secret}:/run/secrets/password:ro`]
  const options = [...mounted, '--env', 'TIDEGATE_ADMIN_PASSWORD_FILE=/run/secrets/password']
  await use(inContainer(image, options, serveOf(image)), async (status) => {
    assert(/^Uid:\t1000\t1000\t/m.test(status), 'the daemon runs as the user of the image')
    const found = await complaint()
    assert(found === '', `the health check finds that it is ready ${found}`)
  })
  assert((await complaint()) !== '', 'the health check fails when no daemon runs')
}

/**
 * Mounts for the image at $0, with the volume $1, then runs the rest: as an engine does with `--read-only --tmpfs
 * /tmp`.
 */
const enter = `
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
mount -t tmpfs tmpfs "$0/tmp" && mount --bind "$1" "$0${volume}" && shift && exec chroot "$0" "$@"`

/** The words that serve as process 1 of the image. `rights`: options of setpriv. */
function readOnly(image: Image, rights: readonly string[], variables: readonly string[]): Words {
  const { configuration, root, data } = image
  const namespaces = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child']
  const setpriv = ['setpriv', ...rights, '--inh-caps', '-all', '--no-new-privs']
  const environment = ['env', '-i', ...configuration.Env, ...variables]
  return ['unshare', [...namespaces, 'sh', '-c', enter, root, data, ...setpriv, ...environment, ...serveOf(image)]]
}

async function verifyLeastRights(image: Image): Promise<void> {
  const rights = ['--reuid', '1000', '--regid', '1000', '--clear-groups', '--bounding-set', '-all']
  await use(readOnly(image, rights, []), async (status, pid) => {
    assert(/^NSpid:.*\t1$/m.test(status), 'the daemon is process 1')
    assert(/^CapBnd:\t0+$/m.test(status) && /^CapEff:\t0+$/m.test(status), 'it has no capabilities')
    assert(/^(?:\S+ ){4}\/ ro,/m.test(await readFile(`/proc/${pid}/mountinfo`, 'utf8')), 'its root is read-only')
  })
}

async function verifyAsRoot(image: Image): Promise<void> {
  const variables = ['PUID=4242', 'PGID=4243', 'UMASK=027']
  const few = ['--bounding-set', '-all,+chown,+setuid,+setgid']
  const refused = await run(...readOnly(image, few, variables)).then(String, String)
  assert(refused.includes('DAC_READ_SEARCH'), 'as root without a capability that it needs, the daemon says which')
  // A file that is replaced keeps its mode.
  const file = join(image.data, 'files', 'by-dav')
  await rm(file)
  const enough = ['--bounding-set', '-all,+chown,+dac_read_search,+setuid,+setgid']
  await use(readOnly(image, enough, variables), (status) => {
    assert(/^Uid:\t4242\t4242\t/m.test(status) && /^Gid:\t4243\t4243\t/m.test(status), 'root becomes PUID and PGID')
  })
  const { uid, gid, mode } = await stat(file)
  assert(uid === 4242 && gid === 4243 && (mode & 0o777) === 0o640, 'files are theirs, with the rights of UMASK')
}

/** Rejects unless the daemon serves and stops. `check` gets its status of proc(5), and its number. */
async function use(
  [program, parameters]: Words,
  check: (status: string, pid: number) => void | Promise<void>,
): Promise<void> {
  const started = spawn(program, parameters, { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const at = await ready(started)
    const pid = await innermost(started.pid ?? 0)
    await check(await readFile(`/proc/${pid}/status`, 'utf8'), pid)
    await useProtocols({ ...at, password })
    await useThumbnails({ ...at, password })
    await stop(started, pid)
  } finally {
    // Ending what waits for the daemon would leave it running.
    if (started.exitCode === null && started.signalCode === null) {
      process.kill(await innermost(started.pid ?? 0), 'SIGKILL')
      started.kill('SIGKILL')
    }
  }
}

/** The last of the processes that each wait for the next. */
async function innermost(pid: number): Promise<number> {
  const child = Number(await run('pgrep', ['--parent', String(pid)]).catch(() => ''))
  return child === 0 ? pid : innermost(child)
}
