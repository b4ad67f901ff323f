/**
 * Which entries of a folder a principal sees, and what the folder rules set for the folder. Paths are of the whole
 * tree.
 */
import type { ThumbnailKind } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import { reservedPrefix, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import { foldName } from '../database/search/folding.js'
import { isRestricted, type Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { covers } from './folder-rules.js'
import type { FolderRights } from './policy.js'

/** Limits a listing to some of the folder's entries. */
export interface EntryFilter {
  readonly foldersOnly?: boolean | undefined
  /** Only names with this prefix. */
  readonly startsWith?: string | undefined
  /** Only names that contain this text, compared as the search does: in any case. */
  readonly contains?: string | undefined
  /** Not this name. */
  readonly except?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** Properties of a folder or file that clients receive with its entries. */
export interface FolderView extends FolderRights {
  readonly readme: string
  readonly header: string
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

type Members = Pick<Access, 'memberFilter'>

/**
 * Returns the entries of a folder that the principal sees, in their order. Yields to the event loop, because matching
 * patterns against many names takes long. `hasReserved`: whether a name of the entries may be reserved by the gateway.
 * Rejects with `aborted`.
 */
export async function visibleEntries(
  access: Members,
  at: Path,
  entries: readonly Entry[],
  filter: EntryFilter = {},
  hasReserved = true,
): Promise<readonly Entry[]> {
  const view = viewOf(access, at, filter)
  if (view.isUnfiltered && !hasReserved) return entries
  const visible: Entry[] = []
  const pauses = new Pauses(filter.signal)
  let count = 0
  for (const entry of entries) {
    if (view.isVisible(entry)) visible.push(entry)
    if (view.isQuick && ++count % quickEntries !== 0) continue
    if (pauses.areDue) await pauses.take()
  }
  return visible.length < entries.length ? visible : entries
}

/** Entries without patterns that are quicker than a look at the clock for each. */
const quickEntries = 1000

/** Whether `visibleEntries` of the folder `at` would return this entry. */
export function isVisible(access: Members, at: Path, entry: Entry): boolean {
  return viewOf(access, at, {}).isVisible(entry)
}

/**
 * The filter for the entries of a folder. `isQuick`: no rule applies, and names are not searched. `isUnfiltered`: only
 * reserved names are removed.
 */
function viewOf(
  access: Members,
  at: Path,
  { foldersOnly = false, startsWith = '', contains = '', except }: EntryFilter,
): { readonly isUnfiltered: boolean; readonly isQuick: boolean; isVisible(entry: Entry): boolean } {
  const members = access.memberFilter(at)
  const part = foldName(contains)
  return {
    isUnfiltered: members.showsAll && !foldersOnly && startsWith === '' && part === '' && except === undefined,
    isQuick: members.showsAll && part === '',
    isVisible({ name, kind }) {
      if ((foldersOnly && kind !== 'folder') || !name.startsWith(startsWith) || name === except) return false
      if (part !== '' && !foldName(name).includes(part)) return false
      return !name.startsWith(reservedPrefix) && members.shows(name)
    },
  }
}

export function folderView(
  dependencies: Pick<TreeDependencies, 'rules' | 'mounts'>,
  access: Pick<Access, 'folderRights'>,
  at: Path,
): FolderView {
  const rule = dependencies.rules.nearest(at)
  const row = dependencies.mounts.rowOf(at)
  return {
    readme: rule && covers(rule, rule.readmeSub, at) ? rule.readme : '',
    header: rule && covers(rule, rule.headerSub, at) ? rule.header : '',
    ...access.folderRights(at),
    provider: row?.driver ?? 'unknown',
    signed: needsSignature(dependencies, at),
    thumbnails: (row && dependencies.mounts.storageOf(row.id)?.traits.thumbnails) ?? [],
  }
}

/** Whether URLs of `at` must be signed because of a storage option or a folder rule. */
export function needsSignature({ rules, mounts }: Pick<TreeDependencies, 'rules' | 'mounts'>, at: Path): boolean {
  return mounts.rowOf(at)?.enableSign === true || isRestricted(rules, at)
}
