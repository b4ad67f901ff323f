/** One question to a server, and the answer that OpenSSH's gives. */
import type { Ground } from './ground.js'

export interface Check {
  /** Unique in the suite: the table of differences names checks by it. */
  readonly title: string
  /** What OpenSSH's server answers, in words. */
  readonly told: string
  /** Somebody asks who may change nothing. */
  readonly readOnly?: boolean
  /** It means nothing where there are no links; a few checks ask everywhere whether those are refused rightly. */
  readonly needs?: 'links'
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

/** A check of something that only storages with links have. */
export function withLinks(title: string, told: string, run: Check['run']): Check {
  return { title, told, run, needs: 'links' }
}

/** Several answers as one. */
export async function all(...answers: readonly (Promise<unknown> | string | number | boolean)[]): Promise<string> {
  const told: string[] = []
  for (const answer of answers) told.push(String(await answer))
  return told.join(', ')
}

/** The answers that came, each once. */
export function distinct(answers: Iterable<string>): string {
  return [...new Set(answers)].sort().join(' / ')
}
