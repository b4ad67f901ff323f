/** Translates the flags of OPEN (draft §6.3) into an operation on the tree. */
import { openFlag } from './wire.js'

export interface OpenPlan {
  readonly read: boolean
  readonly write: boolean
  /** Every write appends, regardless of its offset. */
  readonly append: boolean
  /** 'create': an empty file is created immediately, then replaced as if it had existed before. */
  readonly action: 'read' | 'update' | 'replace' | 'create' | 'refuse missing' | 'refuse existing'
}

/**
 * Follows open(2). Without READ and WRITE, the file is opened for reading. EXCL requires CREAT. A file that does not
 * exist requires CREAT. TRUNC requires WRITE, so that opening for reading never truncates a file.
 */
export function planOpen(flags: number, exists: boolean): OpenPlan {
  const has = (flag: keyof typeof openFlag) => (flags & openFlag[flag]) !== 0
  const write = has('write')
  const read = has('read') || !write
  const plan = (action: OpenPlan['action']): OpenPlan => ({ read, write, append: write && has('append'), action })
  if (!exists && !has('create')) return plan('refuse missing')
  if (has('create') && has('exclusive')) return plan(exists ? 'refuse existing' : 'create')
  if (!exists || (write && has('truncate'))) return plan('replace')
  return plan(write ? 'update' : 'read')
}

/** Whether the plan depends on what exists at the path. False for plain reads, and for replacing whatever exists. */
export function needsLookup(flags: number): boolean {
  const { write, create, truncate, exclusive } = openFlag
  const replacing = write | create | truncate
  if ((flags & (replacing | exclusive)) === replacing) return false
  return (flags & replacing) !== 0
}
