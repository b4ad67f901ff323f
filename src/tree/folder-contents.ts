/** The entries of a folder that one principal sees, as a sorted listing or in pages. Paths are of the whole tree. */
import type { Entry } from '../contract/entry.js'
import { isGatewayError, undefinedIfMissing } from '../contract/errors.js'
import { childOf, type Path } from '../contract/path.js'
import type { FolderListing } from '../storage/listings.js'
import type { MountedTree } from '../storage/mounted-tree.js'
import type { Order } from '../storage/sorting.js'
import type { Access, NamedPath } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import type { AccessOptions } from './operation-options.js'
import { folderView, visibleEntries, type EntryFilter, type FolderView } from './visibility.js'

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

  async list(folder: NamedPath, options: FolderListOptions): Promise<Listing> {
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
    const entries = await this.#symlinksSeen(at, refreshed, options)
    return {
      entries,
      total: shown.length,
      folder: folderView(this.dependencies, this.access.principal, at),
      serialized: entries === listing.entries ? listing.serialized : undefined,
    }
  }

  /**
   * The same entries in pages, in any order. Rejects once the session is revoked. `complete`: as in `MountedTree.pages`.
   */
  async *pages(
    folder: NamedPath,
    options: AccessOptions & { readonly complete?: boolean },
  ): AsyncGenerator<readonly Entry[]> {
    const { at } = folder
    const { descriptors } = this.dependencies
    const release = descriptors.take(this.access.principal.holder, descriptorsOfListing)
    try {
      for await (const page of this.tree.pages(at, options)) {
        this.access.assertNotRevoked()
        yield await this.#symlinksSeen(at, await this.#visible(folder, page, { signal: options.signal }), options)
      }
    } finally {
      release()
    }
  }

  /** An entry is hidden if it is hidden by either path of the folder. */
  async #visible(
    { named, at }: NamedPath,
    entries: readonly Entry[],
    filter: EntryFilter,
    hasReserved?: boolean,
  ): Promise<readonly Entry[]> {
    const { rules } = this.dependencies
    const { principal } = this.access
    const shown = await visibleEntries(rules, principal, at, entries, filter, hasReserved)
    return named === at ? shown : visibleEntries(rules, principal, named, shown, filter, false)
  }

  /** Shows a symlink as its target only if the principal may read the target. */
  async #symlinksSeen(folder: Path, entries: readonly Entry[], options: AccessOptions): Promise<readonly Entry[]> {
    if (!entries.some((entry) => entry.isSymlink === true)) return entries
    const seen: Entry[] = []
    for (const entry of entries) {
      const visible =
        entry.isSymlink === true ? await this.#symlinkSeen(childOf(folder, entry.name), entry, options) : entry
      if (visible) seen.push(visible)
    }
    return seen
  }

  /** Undefined if the symlink has been removed meanwhile. */
  async #symlinkSeen(at: Path, entry: Entry, options: AccessOptions): Promise<Entry | undefined> {
    try {
      await this.access.followSymlinks('read', at, options)
      return entry
    } catch (error) {
      if (!isGatewayError(error, 'denied', 'hidden', 'password_required', 'throttled')) throw error
      return await undefinedIfMissing(this.tree.entry(at, { signal: options.signal, ofSymlink: true }))
    }
  }
}
