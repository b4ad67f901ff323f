/**
 * Names of files that are being written, beside the one that they will have, on servers where everybody sees them. The names that the
 * gateway reserves for itself would be refused where the server is another gateway.
 */
import { randomBytes } from 'node:crypto'
import type { Instance } from '../../src/driver.js'
import { cleanPath, nameOf, type Path } from '../../src/path.js'

const prefix = '.~tidegate-part-'

/** A new one. `instance`: the run of the program that writes it. */
export function stagedName(instance: string): string {
  return `${prefix}${instance}-${randomBytes(6).toString('hex')}`
}

/**
 * The run of the program that this name is of; undefined for every other name. Of a name with a slash too: what is swept must
 * not be in another folder.
 */
export function stagedBy(name: string): string | undefined {
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : ''
  return /^[\w-]+$/.test(rest) ? rest.replace(/-[a-z0-9]*$/, '') : undefined
}

/** Whether it is of a run of the program that is over for sure. */
export function isAbandoned(name: string, instance: Instance): boolean {
  const by = stagedBy(name)
  return by !== undefined && instance.isOver(by) === true
}

/** A staged file that a later run may go on with. */
export interface KeptFile {
  /** As the driver sees it. */
  readonly path: Path
  /** Bytes from its start that the server surely holds. */
  readonly held: number
}

export function tokenOf({ path, held }: KeptFile): string {
  return `${held}:${path}`
}

/** Undefined for what names no staged file: no token reaches any other. */
export function keptFile(token: string): KeptFile | undefined {
  const [, digits, text = ''] = /^(\d{1,16}):(\/.*)$/s.exec(token) ?? []
  if (digits === undefined || cleanPath(text) !== text) return undefined
  const path = text as Path
  return stagedBy(nameOf(path)) === undefined ? undefined : { path, held: Number(digits) }
}

/** The staged files that these tokens stand for. */
export function keptPaths(tokens: readonly string[]): ReadonlySet<Path> {
  return new Set(tokens.map(keptFile).flatMap((kept) => (kept ? [kept.path] : [])))
}
