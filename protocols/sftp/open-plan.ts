/** What the flags of an OPEN mean for the tree (draft §6.3), decided from them and from what stands there. */
import { openFlag } from './protocol.js'

export interface OpenPlan {
  readonly read: boolean
  readonly write: boolean
  /** Every write goes to the end, wherever it says. */
  readonly append: boolean
  /** 'create': an empty file takes the name at once, then it is written as if it had stood there before. */
  readonly action: 'read' | 'update' | 'replace' | 'create' | 'refuse missing' | 'refuse existing'
}

/**
 * As open(2) has it: without READ and WRITE it is opened to read; EXCL counts only with CREAT; a name that is not there
 * needs CREAT. Bytes of an existing file stay unless TRUNC, which counts only with WRITE: who opens to read loses nothing.
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

/** Whether the plan depends on what stands at the name, so that it has to be looked up: not to read, nor to replace whatever it is. */
export function needsLookup(flags: number): boolean {
  const { write, create, truncate, exclusive } = openFlag
  const replacing = write | create | truncate
  if ((flags & (replacing | exclusive)) === replacing) return false
  return (flags & replacing) !== 0
}
