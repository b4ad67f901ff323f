/**
 * Names of staged files beside their targets, on servers where other clients see them. The reserved names of the
 * gateway are not used, because a server that is another gateway rejects them.
 */
import { randomBytes } from 'node:crypto'
import type { Instance } from '../../../src/contract/driver-env.js'
import { cleanPath, nameOf, type Path } from '../../../src/base/path.js'

const prefix = '.~tidegate-part-'

/** Returns a new name. `instance`: the run of the program that stages the file. */
export function stagedName(instance: string): string {
  return `${prefix}${instance}-${randomBytes(6).toString('hex')}`
}

/**
 * The run of the program that staged the file of this name; undefined for any other name, including one with a slash,
 * so that a sweep cannot leave its folder.
 */
export function stagingRun(name: string): string | undefined {
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : ''
  return /^[\w-]+$/.test(rest) ? rest.replace(/-[a-z0-9]*$/, '') : undefined
}

/** Whether the run that staged the file has certainly ended. */
export function isOrphan(name: string, instance: Instance): boolean {
  const run = stagingRun(name)
  return run !== undefined && instance.isOver(run) === true
}

/** A staged file that a later run may resume. */
export interface ResumableFile {
  /** Path within the driver. */
  readonly path: Path
  /** Number of bytes from the start of the file that the server has stored durably. */
  readonly committed: number
}

export function resumeTokenOf({ path, committed: held }: ResumableFile): string {
  return `${held}:${path}`
}

/** Parses a token. Undefined unless it names a staged file, so that a token cannot refer to any other file. */
export function parseResumeToken(token: string): ResumableFile | undefined {
  const [, digits, text = ''] = /^(\d{1,16}):(\/.*)$/s.exec(token) ?? []
  if (digits === undefined || cleanPath(text) !== text) return undefined
  const path = text as Path
  return stagingRun(nameOf(path)) === undefined ? undefined : { path, committed: Number(digits) }
}

/** The paths of the staged files of these tokens. */
export function resumablePaths(tokens: readonly string[]): ReadonlySet<Path> {
  return new Set(tokens.map(parseResumeToken).flatMap((file) => (file ? [file.path] : [])))
}
