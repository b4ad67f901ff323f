/** Parses the options of a storage: which remote, and how its program is started. */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import { GatewayError } from '../../src/base/errors.js'
import { trimTrailing } from '../../src/base/path.js'
import type { RcloneOptions } from './index.js'

/** The command by which a process is started. Storages with equal commands share one process. */
export interface RcloneCommand {
  /** Absolute path of the program. */
  readonly program: string
  /** Absolute path of the configuration file; empty for the default of rclone. */
  readonly config: string
  readonly password: string
  /** Words for the command line. */
  readonly flags: readonly string[]
  /** The data folder of the gateway. */
  readonly data: string
}

/** The remote of a storage, as rclone and the option name it. */
export interface RemoteName {
  /** `name:` or `name:folder`. */
  readonly fs: string
  /** Name of the section of the configuration. */
  readonly section: string
}

/**
 * Names that rclone accepts for a remote of the configuration (rclone: fs/fspath). Without a comma and a leading colon,
 * which begin connection strings and remotes that are not in the configuration.
 */
const remotePattern = /^([\p{L}\p{N}_.+@][\p{L}\p{N}_.+@ -]*):([^\0]*)$/u

/**
 * Parses `name:` or `name:folder`. Throws `invalid` for everything else: local paths, connection strings, remotes that
 * are defined by the text, and flags. Folders cannot contain `]`, which ends the remote in URLs of rclone, or `..`.
 */
export function parseRemote(text: string): RemoteName {
  const [, section, folder = ''] = remotePattern.exec(text.trim()) ?? []
  if (section === undefined) {
    throw new GatewayError('invalid', {
      reason: 'remote must be the name of a remote in the configuration of rclone with a colon, or name:folder',
    })
  }
  if (folder.includes(']')) {
    throw new GatewayError('invalid', {
      reason: 'the folder in remote must not contain "]": name it by an alias remote',
    })
  }
  if (folder.split('/').includes('..')) throw new GatewayError('invalid', { reason: 'remote must not contain ".."' })
  // rclone redirects requests for paths with empty segments.
  const path = folder.replaceAll(/\/{2,}/g, '/')
  return { fs: `${section}:${path === '/' ? path : trimTrailing(path, '/')}`, section }
}

const size = /^(?:off|\d{1,9}(?:\.\d{1,3})?(?:[BKMGTP]i?)?)$/
const duration = /^(?:\d{1,6}(?:\.\d{1,3})?(?:ms|[smhd]))+$/
const flag = /^(?:true|false)$/

const rate = String.raw`(?:off|\d{1,9}(?:\.\d{1,3})?[BKMGTPbkmgtp]?i?)`
const bandwidth = String.raw`(?:(?:[A-Z][a-z]{2}-)?\d\d:\d\d,)?${rate}(?::${rate})?`

/** The flags that an admin may give, and their values. None of them names a file, a program, an address or a remote. */
const allowedFlags: Readonly<Record<string, RegExp>> = {
  // A limit or up:down, or a timetable of them.
  bwlimit: new RegExp(`^${bandwidth}(?: ${bandwidth})*$`),
  'buffer-size': size,
  contimeout: duration,
  'disable-http2': flag,
  'low-level-retries': /^[1-9]\d{0,2}$/,
  'no-check-certificate': flag,
  timeout: duration,
  tpslimit: /^\d{1,6}(?:\.\d{1,3})?$/,
  'tpslimit-burst': /^\d{1,6}$/,
  'use-server-modtime': flag,
  'user-agent': /^[ -~]{1,200}$/,
}

/** Parses flags, one on each line: `--name=value`, or `--name` for `true`. Throws `invalid` for any other. */
export function parseFlags(text: string): readonly string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  return lines
    .filter((line) => line !== '')
    .map((line) => {
      const [, name = '', value = 'true'] = /^--([a-z\d-]+)(?:[= ](.*))?$/.exec(line) ?? []
      const pattern = Object.hasOwn(allowedFlags, name) ? allowedFlags[name] : undefined
      if (!pattern) {
        const names = Object.keys(allowedFlags).map((each) => `--${each}`)
        throw new GatewayError('invalid', { reason: `flags accepts ${names.join(', ')}, one on each line` })
      }
      if (!pattern.test(value)) throw new GatewayError('invalid', { reason: `the value of --${name} is not accepted` })
      return `--${name}=${value}`
    })
}

/** Rejects with `invalid` if an option is malformed, or the program or the configuration file does not exist. */
export async function commandOf(options: RcloneOptions, data: string): Promise<RcloneCommand> {
  const { config_path: config, config_password: password } = options
  const flags = parseFlags(options.flags)
  if (password.includes('\0')) throw new GatewayError('invalid', { reason: 'config_password contains a NUL character' })
  if (config !== '' && !(await isAccessible(resolve(data, config), constants.R_OK))) {
    throw new GatewayError('invalid', { reason: 'config_path is not a file that the gateway can read' })
  }
  return {
    program: await programOf(options.program_path, data),
    config: config === '' ? '' : resolve(data, config),
    password,
    flags,
    data,
  }
}

async function programOf(text: string, data: string): Promise<string> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder.startsWith('/'))
  const candidates = text === '' ? folders.map((folder) => join(folder, 'rclone')) : [resolve(data, text)]
  for (const candidate of candidates) if (await isAccessible(candidate, constants.X_OK)) return candidate
  const reason = text === '' ? 'rclone is not installed' : 'program_path is not a program that the gateway can run'
  throw new GatewayError('invalid', { reason })
}

function isAccessible(file: string, mode: number): Promise<boolean> {
  return access(file, mode).then(
    () => true,
    () => false,
  )
}
