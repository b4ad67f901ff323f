/** The entries of a folder that a principal sees, as a sorted listing or in pages. */
import type { ThumbnailKind } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import { undefinedIfMissing } from '../base/errors.js'
import { childOf, reservedPrefix, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import { foldName } from '../base/folding.js'
import type { ListedRight } from '../base/rights.js'
import type { FolderListing } from '../storage/listings.js'
import type { Order } from '../storage/sorting.js'
import type { Access, Place } from './access.js'
import { needsSignature, type Decisions } from './decisions.js'
import type { AccessOptions } from './operation-options.js'
import { covers } from './folder-rules.js'
import type { MemberFilter } from './policy/names.js'
import type { FolderRights } from './policy/one-path.js'
import { unreadable, type SeenEntry } from './seen-entry.js'
import { mayFollow } from './symlinks.js'

/** Limits a listing to some of the folder's entries. */
export interface EntryFilter {
  readonly foldersOnly?: boolean | undefined
  /** The prefix of the listed names. */
  readonly startsWith?: string | undefined
  /** A text that the listed names contain, compared as the search does: in any case. */
  readonly contains?: string | undefined
  /** A name that is not listed. */
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
   * URLs of files here must be signed because of a storage option, a folder rule or a grant, independent of the
   * `sign_all` setting.
   */
  readonly signed: boolean
  /** Kinds of files for which the storage has thumbnails. */
  readonly thumbnails: readonly ThumbnailKind[]
}

/** Descriptors that a listing holds between two pages: two of the folder. */
const descriptorsOfListing = 2

export interface FolderListOptions extends AccessOptions, EntryFilter {
  /** Does not use the cached listing. Requires the right to write here. */
  readonly refresh?: boolean | undefined
  /** The order; that of the storage's options by default. */
  readonly order?: Order | undefined
  /** The part that is returned. Its entries are as current as the backend reports. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
  /** Looks at no more than about this many entries of a folder whose listing is not cached, in the backend's order. */
  readonly atMost?: number | undefined
}

/** A listing that is cached with its serialized form. */
export interface CachedListing {
  /** All entries of the folder, also those that the principal does not see. */
  readonly entries: readonly Entry[]
  /** See `CacheItem.serialized`. */
  readonly serialized: NonNullable<FolderListing['serialized']>
}

/** A folder as the principal sees it. */
export interface Listing {
  /** The requested part: sorted, with mount points, without hidden entries. */
  readonly entries: readonly SeenEntry[]
  /** Number of entries in all parts. */
  readonly total: number
  readonly folder: FolderView
  readonly rights: readonly ListedRight[]
  /** The cached listing from which these entries were chosen; undefined if there is none, or they are a page. */
  readonly cached: CachedListing | undefined
}

/** See `VirtualFs.list`. */
export async function list(access: Access, path: Path, options: FolderListOptions): Promise<Listing> {
  const folder = await access.resolveAndAuthorize('list', path, options)
  const { at } = folder
  if (options.refresh === true) access.decisions.authorize('refresh', at, options)
  // Few names of a folder have a given beginning.
  const part = options.startsWith === undefined ? options.limit : 0
  const { signal, refresh, order, atMost } = options
  const listing = await access.tree.list(at, { signal, refresh, order, part, atMost })
  const shown = await entriesSeen(access, folder, listing, options)
  const { offset = 0, limit } = options
  const requested = limit === undefined && offset === 0 ? shown : shown.slice(offset, offset + (limit ?? shown.length))
  const refreshed =
    listing.current || requested.length === 0
      ? requested
      : await access.tree.refreshed(at, requested, { signal, preferred: listing.storage })
  const entries = await factsSeen(access, folder, refreshed, options)
  const { serialized } = listing
  return {
    entries,
    total: shown.length,
    folder: folderView(access, at),
    rights: access.decisions.rightsInFolder(at, options.password),
    cached: serialized && requested === shown ? { entries: listing.entries, serialized } : undefined,
  }
}

/**
 * The entries of a folder as the principal sees them, in pages and in any order. Rejects once the session is revoked.
 * `complete`: as in `MountedTree.pages`.
 */
export async function* pages(
  access: Access,
  folder: Place,
  options: AccessOptions & { readonly complete?: boolean },
): AsyncGenerator<readonly Entry[]> {
  const release = access.dependencies.descriptors.take(access.principal.holder, descriptorsOfListing)
  try {
    for await (const page of access.tree.pages(folder.at, options)) {
      access.assertNotRevoked()
      const shown = await entriesSeen(access, folder, { entries: page }, { signal: options.signal })
      yield await factsSeen(access, folder, shown, options)
    }
  } finally {
    release()
  }
}

/** An entry is hidden if it is hidden by either path of the folder. */
async function entriesSeen(
  access: Access,
  { named, at }: Place,
  { entries, hasReserved, places }: Pick<FolderListing, 'entries'> & Partial<FolderListing>,
  filter: EntryFilter,
): Promise<readonly Entry[]> {
  const shown = await visibleEntries(access.decisions, at, entries, filter, hasReserved, places)
  return named === at ? shown : visibleEntries(access.decisions, named, shown, filter, false)
}

/** The entries of a folder that the principal sees, without what it must not read. */
function factsSeen(
  access: Access,
  folder: Place,
  entries: readonly Entry[],
  options: AccessOptions,
): Promise<readonly SeenEntry[]> {
  const facts = access.decisions.factsOfMembers(folder.at, entries)
  return symlinksSeen(
    access,
    folder,
    folder.named === folder.at ? facts : access.decisions.factsOfMembers(folder.named, facts),
    options,
  )
}

/** Shows a symlink as its target only if the principal may see the target. */
async function symlinksSeen(
  access: Access,
  folder: Place,
  entries: readonly SeenEntry[],
  options: AccessOptions,
): Promise<readonly SeenEntry[]> {
  if (!entries.some((entry) => entry.isSymlink === true)) return entries
  const seen: SeenEntry[] = []
  for (const entry of entries) {
    const place = { ...folder, at: childOf(folder.at, entry.name) }
    const visible = entry.isSymlink === true ? await symlinkSeen(access, place, entry, options) : entry
    if (visible) seen.push(visible)
  }
  return seen
}

/** Undefined if the symlink has been removed meanwhile. */
async function symlinkSeen(
  access: Access,
  place: Place,
  entry: SeenEntry,
  options: AccessOptions,
): Promise<SeenEntry | undefined> {
  if (await mayFollow(access, 'read', place, options)) return entry
  // Nothing else than grants lets a principal see what it may not read.
  if (access.decisions.hasGrants && (await mayFollow(access, 'see', place, options))) return unreadable(entry)
  return undefinedIfMissing(access.tree.entry(place.at, { signal: options.signal, ofSymlink: true }))
}

/**
 * Returns the entries of a folder that the principal sees, in their order. Yields to the event loop, because matching
 * patterns against many names takes long. `hasReserved`: whether a name of the entries may be reserved by the gateway.
 * `places`: as in `FolderListing`. Rejects with `aborted`.
 */
export async function visibleEntries(
  decisions: Pick<Decisions, 'memberFilter'>,
  at: Path,
  entries: readonly Entry[],
  filter: EntryFilter = {},
  hasReserved = true,
  places?: FolderListing['places'],
): Promise<readonly Entry[]> {
  const view = viewOf(decisions, at, filter, hasReserved)
  if (view.isUnfiltered) return entries
  const known = places && view.members && seenByGrants(entries, view.members, places)
  if (known) return known
  // Most are visible, and a list that grows is copied many times.
  const visible = [...entries]
  const pauses = new Pauses(filter.signal)
  let [count, shown] = [0, 0]
  for (const entry of entries) {
    if (view.isVisible(entry)) visible[shown++] = entry
    if (view.isQuick && ++count % quickEntries !== 0) continue
    if (pauses.areDue) await pauses.take()
  }
  if (shown === entries.length) return entries
  visible.length = shown
  return visible
}

/** Members with grants that are looked up by name in less time than all members of a folder are asked. */
const maxNamed = 1000

/** The entries that are seen, by looking up those that have grants. Undefined if these are not few or not known. */
function seenByGrants(
  entries: readonly Entry[],
  members: MemberFilter,
  places: NonNullable<FolderListing['places']>,
): readonly Entry[] | undefined {
  const { withGrants, areSeen } = members.others ?? {}
  const names = withGrants?.keys && [...withGrants.keys()]
  if (names === undefined || names.length > Math.min(maxNamed, entries.length / 4)) return undefined
  const placeOf = places()
  if (placeOf === undefined) return undefined
  const excepted = names.filter((name) => members.shows(name) !== areSeen).flatMap((name) => placeOf.get(name) ?? [])
  excepted.sort((one, other) => one - other)
  if (areSeen !== true) return excepted.flatMap((place) => entries[place] ?? [])
  const parts = [...excepted, entries.length].map((place, index) =>
    entries.slice((excepted[index - 1] ?? -1) + 1, place),
  )
  return excepted.length === 0 ? entries : ([] as Entry[]).concat(...parts)
}

/** Entries without patterns that are quicker than a look at the clock for each. */
const quickEntries = 1000

/**
 * The filter for the entries of a folder. `isQuick`: names are neither matched against patterns nor searched.
 * `isUnfiltered`: all entries are visible. `members`: set if nothing else hides any.
 */
function viewOf(
  decisions: Pick<Decisions, 'memberFilter'>,
  at: Path,
  { foldersOnly = false, startsWith = '', contains = '', except }: EntryFilter,
  hasReserved: boolean,
): {
  readonly isUnfiltered: boolean
  readonly isQuick: boolean
  readonly members: MemberFilter | undefined
  isVisible(entry: Entry): boolean
} {
  const members = decisions.memberFilter(at)
  const part = foldName(contains)
  const asksAll = !hasReserved && !foldersOnly && startsWith === '' && part === '' && except === undefined
  return {
    isUnfiltered: members.showsAll && asksAll,
    isQuick: !members.hasPatterns && part === '',
    members: asksAll ? members : undefined,
    isVisible({ name, kind }) {
      if (asksAll) return members.shows(name)
      if ((foldersOnly && kind !== 'folder') || !name.startsWith(startsWith) || name === except) return false
      if (part !== '' && !foldName(name).includes(part)) return false
      return !name.startsWith(reservedPrefix) && members.shows(name)
    },
  }
}

export function folderView(access: Access, at: Path): FolderView {
  const { rules, mounts } = access.dependencies
  const rule = rules.nearest(at)
  const row = mounts.rowOf(at)
  return {
    readme: rule && covers(rule, rule.readmeSub, at) ? rule.readme : '',
    header: rule && covers(rule, rule.headerSub, at) ? rule.header : '',
    ...access.decisions.folderRights(at),
    provider: row?.driver ?? 'unknown',
    // A member that a grant denies to somebody needs a signature, and a listing signs all URLs or none.
    signed: needsSignature(access.dependencies, at) || access.dependencies.grants.deniesReadingBelow(at),
    thumbnails: (row && mounts.storageOf(row.id)?.traits.thumbnails) ?? [],
  }
}
