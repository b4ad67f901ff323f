/** One check of a server, and the response of OpenSSH's server. */
import type { Ground } from './ground.js'

export interface Check {
  /** Unique in the suite: the table of differences refers to checks by title. */
  readonly title: string
  /** The response of OpenSSH's server, as text. */
  readonly told: string
  /** The session is that of a read-only user. */
  readonly readOnly?: boolean
  /** The check requires symlinks. A few checks run everywhere, to test the errors of storages without symlinks. */
  readonly needs?: 'symlinks'
  run(ground: Ground): Promise<string>
}

/** Checks of one section of the draft, or of OpenSSH's extensions to it. */
export interface Section {
  readonly title: string
  readonly checks: readonly Check[]
}

export function check(title: string, told: string, run: Check['run']): Check {
  return { title, told, run }
}

/** A check of something that only storages with symlinks support. */
export function withSymlinks(title: string, told: string, run: Check['run']): Check {
  return { title, told, run, needs: 'symlinks' }
}

/** Joins several responses. */
export async function all(...answers: readonly (Promise<unknown> | string | number | boolean)[]): Promise<string> {
  const told: string[] = []
  for (const answer of answers) told.push(String(await answer))
  return told.join(', ')
}

/** The distinct responses. */
export function distinct(answers: Iterable<string>): string {
  return [...new Set(answers)].sort().join(' / ')
}
