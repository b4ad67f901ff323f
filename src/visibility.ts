/** What a principal may know of a folder: which of its entries, and what the folder rules say of it. Paths are of the whole tree. */
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Entry, ThumbnailKind } from './driver.js'
import { GatewayError } from './errors.js'
import { childOf, parentOf, reservedPrefix, type Path } from './path.js'
import { hidesOnTheWay, isHidden, mayWriteContent } from './policy.js'
import { holds, type Principal } from './principal.js'
import { covers, type Rules } from './rules.js'
import type { TreeParts } from './tree-parts.js'

/** Which entries of a folder are asked for. */
export interface EntryFilter {
  readonly foldersOnly?: boolean | undefined
  /** Only names that begin like this. */
  readonly startsWith?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** What a client is told of a folder or file beside its entries. */
export interface FolderView {
  readonly readme: string
  readonly header: string
  /** The principal may change something here. */
  readonly write: boolean
  /** A folder rule lets everybody write here. */
  readonly writeByRule: boolean
  /** The driver's name, or `unknown` for a folder between mounts. */
  readonly provider: string
  /** Links to files in here need a signature: a storage option or a folder rule says so (the `sign_all` setting aside). */
  readonly signed: boolean
  /** Kinds of files of which there are thumbnails. */
  readonly thumbnails: readonly ThumbnailKind[]
}

/**
 * Those of a folder's entries that the principal may know of, in their order. Other requests get their turn between, as patterns may
 * take long on many names.
 */
export async function visibleEntries(
  rules: Rules,
  principal: Principal,
  at: Path,
  entries: readonly Entry[],
  filter: EntryFilter = {},
): Promise<readonly Entry[]> {
  const view = viewOf(rules, principal, at, filter)
  if (view.isPlain && withoutReserved.has(entries)) return entries
  const seen: Entry[] = []
  let since = performance.now()
  for (const entry of entries) {
    if (view.isSeen(entry)) seen.push(entry)
    if (view.isQuick || performance.now() - since < slice) continue
    await nextTurn()
    if (filter.signal?.aborted === true) throw new GatewayError('aborted')
    since = performance.now()
  }
  if (seen.length < entries.length) return seen
  if (view.isPlain) withoutReserved.add(entries)
  return entries
}

/** Milliseconds after which other requests get their turn. */
const slice = 5

/** Whether `visibleEntries` of its folder has this one. */
export function isVisible(rules: Rules, principal: Principal, at: Path, entry: Entry): boolean {
  return viewOf(rules, principal, at, {}).isSeen(entry)
}

/**
 * How the principal sees the entries of a folder. `isQuick`: no rule is asked. `isPlain`: nothing is asked but whether the core itself
 * has put them there.
 */
function viewOf(
  rules: Rules,
  principal: Principal,
  at: Path,
  { foldersOnly = false, startsWith = '' }: EntryFilter,
): { readonly isPlain: boolean; readonly isQuick: boolean; isSeen(entry: Entry): boolean } {
  const rule = rules.nearest(at)
  const hides =
    rule !== undefined && rule.hide !== '' && covers(rule, rule.hideSub, at) && !holds(principal, 'seeHidden')
  const ruled = rules.below(at).length > 0
  const isQuick = !hides && !ruled
  return {
    isPlain: isQuick && !foldersOnly && startsWith === '',
    isQuick,
    isSeen(entry) {
      if ((foldersOnly && entry.kind !== 'folder') || !entry.name.startsWith(startsWith)) return false
      if (entry.name.startsWith(reservedPrefix)) return false
      if (hides && isHidden(principal, childOf(at, entry.name), rule)) return false
      return !ruled || !isShutOut(rules, principal, childOf(at, entry.name))
    },
  }
}

/** Listings that were looked through before: for a page of a large folder that takes longer than all the rest. */
const withoutReserved = new WeakSet<readonly Entry[]>()

/** Whether a listing of the folder that holds it leaves it out. */
export function isUnseen(rules: Rules, principal: Principal, at: Path): boolean {
  return isHidden(principal, at, rules.nearest(parentOf(at))) || isShutOut(rules, principal, at)
}

/** Whether it is a folder for other readers. */
function isShutOut(rules: Rules, principal: Principal, at: Path): boolean {
  const rule = rules.of(at)
  return rule !== undefined && rule.readUsers.length > 0 && !rule.readUsers.includes(principal.userId)
}

export function folderView(parts: Pick<TreeParts, 'rules' | 'mounts'>, principal: Principal, at: Path): FolderView {
  const rule = parts.rules.nearest(at)
  const excluded = rule !== undefined && rule.writeUsers.length > 0 && !rule.writeUsers.includes(principal.userId)
  const writeByRule = rule !== undefined && rule.write && covers(rule, rule.writeSub, at)
  const changes = (['write', 'rename', 'move', 'copy', 'remove'] as const).some((each) => holds(principal, each))
  const shut = excluded && covers(rule, rule.writeUsersSub, at)
  const row = parts.mounts.rowOf(at)
  return {
    readme: rule && covers(rule, rule.readmeSub, at) ? rule.readme : '',
    header: rule && covers(rule, rule.headerSub, at) ? rule.header : '',
    write: !shut && (writeByRule || changes || mayWriteContent(principal, rule, at)),
    writeByRule,
    provider: row?.driver ?? 'unknown',
    signed: needsSignature(parts, at),
    thumbnails: (row && parts.mounts.storageOf(row.id)?.traits.thumbnails) ?? [],
  }
}

/** Whether links to what is at `at` need a signature, which proves who made them: a storage option or a folder rule says so. */
export function needsSignature({ rules, mounts }: Pick<TreeParts, 'rules' | 'mounts'>, at: Path): boolean {
  return mounts.rowOf(at)?.enableSign === true || isClosedOrHidden(rules, at)
}

/** Whether a rule closes or hides something here for anybody. */
export function isClosedOrHidden(rules: Rules, at: Path): boolean {
  const rule = rules.nearest(at)
  if (rule === undefined) return false
  const reaches = (sub: boolean) => covers(rule, sub, at) || covers(rule, sub, parentOf(at))
  return (
    (rule.password !== '' && reaches(rule.passwordSub)) ||
    (rule.readUsers.length > 0 && reaches(rule.readUsersSub)) ||
    (rule.hide !== '' && (reaches(rule.hideSub) || hidesOnTheWay(rule, at)))
  )
}
