/** A configuration of rclone with remotes for tests, and storages on them. */
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { rcloneFields, rcloneType, type RcloneOptions } from '../../../drivers/rclone/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import type { WritableDriver } from '../../driver-conformance/subject.js'
import { findProgram } from '../../programs.js'
import { testEnv } from '../env.js'

const run = promisify(execFile)

// With it, rclone 1.60 refuses every S3 remote.
delete process.env.AWS_CA_BUNDLE

/** The rclone under test: the installed one, or another version that the environment names. */
export const rclone = process.env.TIDEGATE_RCLONE ?? findProgram('rclone') ?? 'rclone'

export interface RcloneMount {
  readonly config: string
  /** The folder of the remotes that store their files on this machine. */
  readonly files: string
  /** The data folder of the gateway that the storages belong to. */
  readonly data: string
  /** Opens a storage. */
  open(remote: string, more?: Partial<RcloneOptions>, env?: Partial<DriverEnv>): Promise<WritableDriver>
  /** A new folder of a remote, as `name:folder`. Made on remotes that have empty folders. */
  folder(remote: string): Promise<string>
  /** Runs rclone with the configuration. Resolves to what it prints. */
  rclone(...words: readonly string[]): Promise<string>
  stop(): Promise<void>
}

/** Options of a section of the configuration, by the name of the remote. */
export type Sections = Readonly<Record<string, Readonly<Record<string, string>>>>

/**
 * Remotes that need no server: `local`, `memory`, and those that are made of others: `alias`, `crypt`, `union`,
 * `combine`, `chunker`.
 */
export async function startRclone(more: Sections = {}): Promise<RcloneMount> {
  const home = await mkdtemp(join(tmpdir(), 'tidegate-rclone-'))
  const files = join(home, 'files')
  const data = join(home, 'data')
  for (const name of ['local', 'alias', 'crypt', 'one', 'two', 'left', 'right', 'chunks'])
    await mkdir(join(files, name), { recursive: true })
  await mkdir(data)
  const config = join(home, 'rclone.conf')
  const sections: Sections = {
    local: { type: 'local' },
    memory: { type: 'memory' },
    alias: { type: 'alias', remote: join(files, 'alias') },
    crypt: { type: 'crypt', remote: join(files, 'crypt'), password: await obscured('a password') },
    union: { type: 'union', upstreams: `${join(files, 'one')} ${join(files, 'two')}`, create_policy: 'ff' },
    combine: { type: 'combine', upstreams: `left=${join(files, 'left')} right=${join(files, 'right')}` },
    chunker: { type: 'chunker', remote: join(files, 'chunks'), chunk_size: '1Mi' },
    ...more,
  }
  const text = Object.entries(sections).map(([name, options]) =>
    [`[${name}]`, ...Object.entries(options).map(([key, value]) => `${key} = ${value}`), ''].join('\n'),
  )
  await writeFile(config, text.join('\n'), { mode: 0o600 })
  const mount: RcloneMount = {
    config,
    files,
    data,
    open: async (remote, options = {}, env = {}) =>
      (await rcloneType.open(
        checkOptions(rcloneFields, { remote, config_path: config, program_path: rclone, ...options }),
        testEnv({ own: { data, protectedPaths: [] }, ...env }),
      )) as WritableDriver,
    folder: async (remote) => {
      const name = randomUUID()
      const base =
        remote === 'local:' ? `${remote}${join(files, 'local')}/` : remote.endsWith(':') ? remote : `${remote}/`
      await mount.rclone('mkdir', base + name)
      return base + name
    },
    rclone: async (...words) => (await run(rclone, ['--config', config, ...words], { maxBuffer: 1 << 26 })).stdout,
    stop: () => rm(home, { recursive: true, force: true, maxRetries: 3 }),
  }
  return mount
}

/** A password as configurations of rclone have it. */
export async function obscured(password: string): Promise<string> {
  return (await run(rclone, ['obscure', password])).stdout.trim()
}
