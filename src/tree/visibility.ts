/**
 * Which entries of a folder a principal sees, and what the folder rules set for the folder. Paths are of the whole
 * tree.
 */
import { performance } from 'node:perf_hooks'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { hasPermission, type Principal } from '../accounts/principal.js'
import type { ThumbnailKind } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../contract/errors.js'
import { childOf, parentOf, reservedPrefix, type Path } from '../contract/path.js'
import type { TreeDependencies } from './dependencies.js'
import { covers, type Rules } from './folder-rules.js'
import { excludes, hidesSegmentOf, isHidden, mayWriteContent } from './policy.js'

/** Limits a listing to some of the folder's entries. */
export interface EntryFilter {
  readonly foldersOnly?: boolean | undefined
  /** Only names with this prefix. */
  readonly startsWith?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Properties of a folder or file that clients receive with its entries. */
export interface FolderView {
  readonly readme: string
  readonly header: string
  /** The principal may change something here. */
  readonly write: boolean
  /** A folder rule lets every user write here. */
  readonly writeByRule: boolean
  /** The driver's name, or `unknown` for a folder between mounts. */
  readonly provider: string
  /**
   * URLs of files here must be signed because of a storage option or a folder rule, independent of the `sign_all`
   * setting.
   */
  readonly signed: boolean
  /** Kinds of files for which the storage has thumbnails. */
  readonly thumbnails: readonly ThumbnailKind[]
}

/**
 * Returns the entries of a folder that the principal sees, in their order. Yields to the event loop, because matching
 * patterns against many names takes long. Rejects with `aborted`.
 */
export async function visibleEntries(
  rules: Rules,
  principal: Principal,
  at: Path,
  entries: readonly Entry[],
  filter: EntryFilter = {},
): Promise<readonly Entry[]> {
  const view = viewOf(rules, principal, at, filter)
  if (view.isUnfiltered && withoutReserved.has(entries)) return entries
  const visible: Entry[] = []
  let since = performance.now()
  for (const entry of entries) {
    if (view.isVisible(entry)) visible.push(entry)
    if (view.isQuick || performance.now() - since < yieldInterval) continue
    await yieldToEventLoop()
    if (filter.signal?.aborted === true) throw new GatewayError('aborted')
    since = performance.now()
  }
  if (visible.length < entries.length) return visible
  if (view.isUnfiltered) withoutReserved.add(entries)
  return entries
}

/** Milliseconds of work between two yields to the event loop. */
const yieldInterval = 5

/** Whether `visibleEntries` of the folder `at` would return this entry. */
export function isVisible(rules: Rules, principal: Principal, at: Path, entry: Entry): boolean {
  return viewOf(rules, principal, at, {}).isVisible(entry)
}

/**
 * The filter for the entries of a folder. `isQuick`: no rule applies. `isUnfiltered`: only reserved names are removed.
 */
function viewOf(
  rules: Rules,
  principal: Principal,
  at: Path,
  { foldersOnly = false, startsWith = '' }: EntryFilter,
): { readonly isUnfiltered: boolean; readonly isQuick: boolean; isVisible(entry: Entry): boolean } {
  const rule = rules.nearest(at)
  const hides =
    rule !== undefined && rule.hide !== '' && covers(rule, rule.hideSub, at) && !hasPermission(principal, 'seeHidden')
  const hasRulesBelow = rules.below(at).length > 0
  const isQuick = !hides && !hasRulesBelow
  return {
    isUnfiltered: isQuick && !foldersOnly && startsWith === '',
    isQuick,
    isVisible(entry) {
      if ((foldersOnly && entry.kind !== 'folder') || !entry.name.startsWith(startsWith)) return false
      if (entry.name.startsWith(reservedPrefix)) return false
      if (hides && isHidden(principal, childOf(at, entry.name), rule)) return false
      return !hasRulesBelow || !isExcludedReader(rules, principal, childOf(at, entry.name))
    },
  }
}

/**
 * Listings known to have no reserved names. Checking a large folder again for each page would dominate the cost of the
 * page.
 */
const withoutReserved = new WeakSet<readonly Entry[]>()

/** Whether listings of the parent folder omit `at`. */
export function isInvisible(rules: Rules, principal: Principal, at: Path): boolean {
  return isHidden(principal, at, rules.nearest(parentOf(at))) || isExcludedReader(rules, principal, at)
}

/** Whether `at` has a rule of its own that limits reading to other users. */
function isExcludedReader(rules: Rules, principal: Principal, at: Path): boolean {
  const rule = rules.ruleOf(at)
  return rule !== undefined && excludes(rule.readUsers, principal)
}

export function folderView(
  dependencies: Pick<TreeDependencies, 'rules' | 'mounts'>,
  principal: Principal,
  at: Path,
): FolderView {
  const rule = dependencies.rules.nearest(at)
  const writeByRule = rule !== undefined && rule.write && covers(rule, rule.writeSub, at)
  const changes = (['write', 'rename', 'move', 'copy', 'remove'] as const).some((each) =>
    hasPermission(principal, each),
  )
  const isReadOnly = rule !== undefined && excludes(rule.writeUsers, principal) && covers(rule, rule.writeUsersSub, at)
  const row = dependencies.mounts.rowOf(at)
  return {
    readme: rule && covers(rule, rule.readmeSub, at) ? rule.readme : '',
    header: rule && covers(rule, rule.headerSub, at) ? rule.header : '',
    write: !isReadOnly && (writeByRule || changes || mayWriteContent(principal, rule, at)),
    writeByRule,
    provider: row?.driver ?? 'unknown',
    signed: needsSignature(dependencies, at),
    thumbnails: (row && dependencies.mounts.storageOf(row.id)?.traits.thumbnails) ?? [],
  }
}

/** Whether URLs of `at` must be signed because of a storage option or a folder rule. */
export function needsSignature({ rules, mounts }: Pick<TreeDependencies, 'rules' | 'mounts'>, at: Path): boolean {
  return mounts.rowOf(at)?.enableSign === true || isClosedOrHidden(rules, at)
}

/** Whether a rule restricts reading `at`, or hides it, for any user. */
export function isClosedOrHidden(rules: Rules, at: Path): boolean {
  const rule = rules.nearest(at)
  if (rule === undefined) return false
  const reaches = (sub: boolean) => covers(rule, sub, at) || covers(rule, sub, parentOf(at))
  return (
    (rule.password !== '' && reaches(rule.passwordSub)) ||
    (rule.readUsers.length > 0 && reaches(rule.readUsersSub)) ||
    (rule.hide !== '' && (reaches(rule.hideSub) || hidesSegmentOf(rule, at)))
  )
}
