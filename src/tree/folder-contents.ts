/**
 * The entries of a folder that one principal sees, as a sorted listing, in pages, or at any depth. Paths are of the
 * whole tree, except those of `TreeMembers`.
 */
import type { ThumbnailKind } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import { isGatewayError, undefinedIfMissing, GatewayError } from '../base/errors.js'
import { childOf, nameOf, reservedPrefix, type Path } from '../base/path.js'
import { Pauses } from '../base/pauses.js'
import { foldName } from '../database/search/folding.js'
import type { FolderListing } from '../storage/listings.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import type { Order } from '../storage/sorting.js'
import { needsSignature, type Access, type Place } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import type { AccessOptions } from './operation-options.js'
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

/** A folder as the principal sees it. */
export interface Listing {
  /** The requested part: sorted, with mount points, without hidden entries. */
  readonly entries: readonly Entry[]
  /** Number of entries in all parts. */
  readonly total: number
  readonly folder: FolderView
  /** As `FolderListing.serialized`; undefined if these entries are not a whole cached listing. */
  readonly serialized: FolderListing['serialized']
}

export class FolderContents {
  constructor(
    private readonly dependencies: Pick<TreeDependencies, 'rules' | 'mounts' | 'descriptors'>,
    private readonly access: Access,
    private readonly tree: MountedTree,
  ) {}

  async list(folder: Place, options: FolderListOptions): Promise<Listing> {
    const { at } = folder
    // Few names of a folder have a given beginning.
    const part = options.startsWith === undefined ? options.limit : 0
    const { signal, refresh, order, atMost } = options
    const listing = await this.tree.list(at, { signal, refresh, order, part, atMost })
    const shown = await this.#visible(folder, listing.entries, options, listing.hasReserved)
    const { offset = 0, limit } = options
    const requested =
      limit === undefined && offset === 0 ? shown : shown.slice(offset, offset + (limit ?? shown.length))
    const refreshed =
      listing.current || requested.length === 0
        ? requested
        : await this.tree.refreshed(at, requested, { signal, preferred: listing.storage })
    const entries = await this.#symlinksSeen(folder, refreshed, options)
    return {
      entries,
      total: shown.length,
      folder: folderView(this.dependencies, this.access, at),
      serialized: entries === listing.entries ? listing.serialized : undefined,
    }
  }

  /**
   * The same entries in pages, in any order. Rejects once the session is revoked. `complete`: as in
   * `MountedTree.pages`.
   */
  async *pages(
    folder: Place,
    options: AccessOptions & { readonly complete?: boolean },
  ): AsyncGenerator<readonly Entry[]> {
    const { at } = folder
    const { descriptors } = this.dependencies
    const release = descriptors.take(this.access.principal.holder, descriptorsOfListing)
    try {
      for await (const page of this.tree.pages(at, options)) {
        this.access.assertNotRevoked()
        yield await this.#symlinksSeen(folder, await this.#visible(folder, page, { signal: options.signal }), options)
      }
    } finally {
      release()
    }
  }

  /** An entry is hidden if it is hidden by either path of the folder. */
  async #visible(
    { named, at }: Place,
    entries: readonly Entry[],
    filter: EntryFilter,
    hasReserved?: boolean,
  ): Promise<readonly Entry[]> {
    const shown = await visibleEntries(this.access, at, entries, filter, hasReserved)
    return named === at ? shown : visibleEntries(this.access, named, shown, filter, false)
  }

  /** Shows a symlink as its target only if the principal may read the target. */
  async #symlinksSeen(folder: Place, entries: readonly Entry[], options: AccessOptions): Promise<readonly Entry[]> {
    if (!entries.some((entry) => entry.isSymlink === true)) return entries
    const seen: Entry[] = []
    for (const entry of entries) {
      const visible =
        entry.isSymlink === true
          ? await this.#symlinkSeen({ ...folder, at: childOf(folder.at, entry.name) }, entry, options)
          : entry
      if (visible) seen.push(visible)
    }
    return seen
  }

  /** Undefined if the symlink has been removed meanwhile. */
  async #symlinkSeen(place: Place, entry: Entry, options: AccessOptions): Promise<Entry | undefined> {
    try {
      await this.access.symlinks.follow('read', place, options)
      return entry
    } catch (error) {
      if (!isGatewayError(error, 'denied', 'hidden', 'password_required', 'throttled')) throw error
      return await undefinedIfMissing(this.tree.entry(place.at, { signal: options.signal, ofSymlink: true }))
    }
  }
}

/**
 * Returns the entries of a folder that the principal sees, in their order. Yields to the event loop, because matching
 * patterns against many names takes long. `hasReserved`: whether a name of the entries may be reserved by the gateway.
 * Rejects with `aborted`.
 */
export async function visibleEntries(
  access: Pick<Access, 'memberFilter'>,
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

/**
 * The filter for the entries of a folder. `isQuick`: no rule applies, and names are not searched. `isUnfiltered`: only
 * reserved names are removed.
 */
function viewOf(
  access: Pick<Access, 'memberFilter'>,
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

/** `path`: that of the principal. */
export interface TreeMember {
  readonly path: Path
  readonly entry: Entry
}

/** A folder whose members are being visited. */
interface OpenFolder {
  readonly path: Path
  /** Without symlinks, in the whole tree. */
  readonly real: Path
  readonly entries: AsyncGenerator<Entry>
}

/**
 * The members of a folder at any depth, as listings show them. A symlink is shown as what it leads to. Left out are
 * symlinks that lead nowhere or to what the principal must not read, and those to a folder that contains them.
 */
export class TreeMembers {
  constructor(
    private readonly access: Access,
    private readonly tree: MountedTree,
    private readonly folders: FolderContents,
    private readonly stat: (path: Path, options: AccessOptions) => Promise<Entry>,
  ) {}

  /**
   * Rejects if the folder at `path`, one of its members `names`, or a folder below them that a rule closes, cannot be
   * read. An empty list of names is all members.
   */
  async assertReadable(path: Path, names: readonly string[], options: AccessOptions): Promise<void> {
    const { named } = await this.access.resolveAndAuthorize('list', path, options)
    if (names.length === 0) {
      if ((await this.stat(path, options)).kind !== 'folder') throw new GatewayError('not_folder')
      await this.access.assertListableBelow(named, options)
    }
    const pauses = new Pauses(options.signal)
    for (const name of names) {
      await pauses.take()
      const member = childOf(path, name)
      const { kind } = await this.stat(member, options)
      if (kind === 'symlink') throw new GatewayError('not_found')
      if (kind !== 'folder') await this.access.resolveAndAuthorize('read', member, options)
      else {
        const folder = await this.access.resolveAndAuthorize('list', member, options)
        await this.access.assertListableBelow(folder.named, options)
      }
    }
  }

  /** Yields the members, a folder before what is in it. Rejects if one that listings show cannot be listed. */
  async *below(path: Path, names: readonly string[], options: AccessOptions): AsyncGenerator<TreeMember> {
    const top = await this.#open(path, undefined, options)
    const open: OpenFolder[] = [names.length === 0 ? top : { ...top, entries: this.#selected(path, names, options) }]
    const pauses = new Pauses(options.signal)
    try {
      for (let folder = open.at(-1); folder; folder = open.at(-1)) {
        await pauses.take()
        const next: IteratorResult<Entry, unknown> = await folder.entries.next()
        if (next.done === true) {
          open.pop()
          continue
        }
        const entry = next.value
        if (entry.kind === 'symlink') continue
        const member = childOf(folder.path, entry.name)
        if (entry.kind === 'folder') {
          const below = await this.#open(member, entry.isSymlink === true ? undefined : folder.real, options)
          if (open.some(({ real }) => real === below.real)) continue
          open.push(below)
        }
        yield { path: member, entry }
      }
    } finally {
      for (const { entries } of open) await entries.return(undefined)
    }
  }

  /** `parent`: the real path of its parent, if it is no symlink. */
  async #open(path: Path, parent: Path | undefined, options: AccessOptions): Promise<OpenFolder> {
    const folder = await this.access.resolveAndAuthorize('list', path, options)
    const { signal } = options
    const real =
      parent === undefined ? await this.tree.realPath(folder.at, { signal, last: true }) : childOf(parent, nameOf(path))
    return { path, real, entries: distinct(this.folders.pages(folder, { ...options, complete: true })) }
  }

  async *#selected(path: Path, names: readonly string[], options: AccessOptions): AsyncGenerator<Entry> {
    for (const name of new Set(names)) {
      const entry = await this.stat(childOf(path, name), options)
      if (entry.kind === 'symlink') throw new GatewayError('not_found')
      // Its name may have another spelling.
      yield { ...entry, name }
    }
  }
}

/** The entries of these pages. Of several with the same name, which the same path leads to, the first. */
async function* distinct(pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<Entry> {
  const names = new Set<string>()
  for await (const page of pages) {
    for (const entry of page) {
      if (names.has(entry.name)) continue
      names.add(entry.name)
      yield entry
    }
  }
}
