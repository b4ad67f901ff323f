/** A share that a visitor has opened: what each path in it is. */
import type { Entry } from '../contract/entry.js'
import type { ThumbnailKind } from '../contract/capabilities.js'
import type { Source } from '../contract/call-options.js'
import { GatewayError, undefinedIfMissing, isGatewayError } from '../base/errors.js'
import { nameOf, root, segmentsOf, childOf, within, type Path } from '../base/path.js'
import { foldName } from '../base/folding.js'
import { changingRights, type ChangingRight } from '../base/rights.js'
import { sortedInTurns, type Order } from '../storage/sorting.js'
import type { FolderListOptions } from '../tree/folder-contents.js'
import type { FileWriteOptions } from '../tree/file-content.js'
import type { AccessOptions, WriteResult } from '../tree/operation-options.js'
import type { SeenEntry, TreeMember, VirtualFs } from '../tree/virtual-fs.js'
import type { StoredShare } from './shares.js'
import { refusedToCreator } from './visitor-errors.js'

/** A file or folder of a share. */
export interface OpenRoot {
  /** The name of the root in a share of several. */
  readonly name: string
  /** The tree below it, as visitors see it. */
  readonly fs: VirtualFs
}

/** The place of a path in a share: the folder of several roots, or a path of the tree below one root. */
export type SharedPlace =
  | { readonly kind: 'roots' }
  | {
      readonly kind: 'entry'
      readonly fs: VirtualFs
      readonly path: Path
      /** The name of the entry; never empty. */
      readonly name: string
    }

/** The entries of a folder of a share. */
export interface SharedListing {
  readonly entries: readonly SeenEntry[]
  readonly total: number
  /** Kinds of files for which the storage has thumbnails. */
  readonly thumbnails: readonly ThumbnailKind[]
  /** The rights of visitors for those entries that have no grants of their own. */
  readonly rights: readonly ChangingRight[]
}

/** A member of a folder of a share, at any depth. */
export interface SharedMember extends TreeMember {
  readonly fs: VirtualFs
  /** The path of the member below that folder, without a leading slash. */
  readonly name: string
}

/** The part of a folder's members that one tree of the share has. */
interface Branch {
  readonly fs: VirtualFs
  /** The root of the tree, if that is the member. */
  readonly top: SeenEntry | undefined
  /** The folder in the tree. */
  readonly folder: Path
  /** The names of the members; empty: all. */
  readonly names: readonly string[]
}

export interface SharedEntry {
  readonly entry: SeenEntry
  readonly thumbnails: readonly ThumbnailKind[]
}

export type SharedListOptions = Pick<
  FolderListOptions,
  'signal' | 'order' | 'contains' | 'offset' | 'limit' | 'foldersOnly'
>

export class OpenShare {
  constructor(
    readonly share: StoredShare,
    /** The roots that the creator may share now. */
    readonly roots: readonly OpenRoot[],
    /** The secret of the visit that has begun, for the cookie of the visitor. Undefined if none has. */
    readonly cookie: string | undefined,
  ) {}

  /** Rejects with `not_found` for a first name that no root has. `path`: within the share. */
  at(path: Path): SharedPlace {
    const { roots, id } = this.share
    const [first, ...rest] = segmentsOf(path)
    if (roots.length === 1) {
      const [only] = this.roots
      if (only === undefined) throw new GatewayError('not_found')
      return { kind: 'entry', fs: only.fs, path, name: nameOf(path) || only.name || id }
    }
    if (first === undefined) return { kind: 'roots' }
    const found = this.roots.find(({ name }) => name === first)
    if (found === undefined) throw new GatewayError('not_found')
    return { kind: 'entry', fs: found.fs, path: rest.reduce(childOf, root), name: nameOf(path) }
  }

  /**
   * Returns the place of a path, as `at` does, for a protocol in which every share is a folder: a shared file appears
   * in a folder by its name. Rejects as `at` does, and as `stat` of the file does.
   */
  async inFolder(path: Path, options: AccessOptions = {}): Promise<SharedPlace> {
    const [only] = this.roots
    const mayBeFile = only !== undefined && this.share.roots.length === 1 && only.name !== ''
    if (mayBeFile && (path === root || path === childOf(root, only.name))) {
      const { kind } = await only.fs.stat(root, options)
      if (kind === 'file') {
        return path === root ? { kind: 'roots' } : { kind: 'entry', fs: only.fs, path: root, name: only.name }
      }
    }
    return this.at(path)
  }

  /** The entry at a path, with the name by which visitors know it. */
  async view(path: Path, options: AccessOptions = {}): Promise<SharedEntry> {
    const place = this.at(path)
    if (place.kind === 'roots' || this.#isDropFolder(path)) {
      return { entry: folderEntry(place.kind === 'roots' ? this.share.id : place.name), thumbnails: [] }
    }
    const { entry, folder } = await place.fs.view(place.path, options)
    return { entry: { ...entry, name: place.name }, thumbnails: folder.thumbnails }
  }

  /** The entries of a folder, in the order of the share unless `options` has another. */
  async list(path: Path, options: SharedListOptions = {}): Promise<SharedListing> {
    const place = this.at(path)
    if (this.#isDropFolder(path)) return { entries: [], total: 0, thumbnails: [], rights: [] }
    const order = options.order ?? this.order
    if (place.kind === 'roots') return this.listRoots({ ...options, order })
    const { entries, total, folder, rights } = await place.fs.list(place.path, { ...options, order })
    // Without `share`: only the creator shares it further.
    const changing = changingRights.filter((right) => rights.includes(right))
    return { entries, total, thumbnails: folder.thumbnails, rights: changing }
  }

  /**
   * Stores a file for the visitor, as `SharedTree.write` does: its name may be another one. Missing folders are made in
   * mode `both`.
   */
  async write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    const place = this.#placeToChange(path)
    return place.fs.write(place.path, source, { ...options, parents: this.share.mode === 'both' })
  }

  /** Makes a folder, and those above it that are missing. Rejects as `write`. */
  async mkdir(path: Path, options: AccessOptions = {}): Promise<void> {
    const place = this.#placeToChange(path)
    await place.fs.mkdir(place.path, { ...options, parents: true })
  }

  /** Nothing is made beside the roots of a share. */
  #placeToChange(path: Path): Extract<SharedPlace, { readonly kind: 'entry' }> {
    const place = this.share.mode === 'read' ? undefined : this.at(path)
    if (place?.kind !== 'entry' || place.path === root) {
      throw new GatewayError('denied', { detail: 'share_not_writable' })
    }
    return place
  }

  /** Visitors who may only upload see an empty folder. */
  #isDropFolder(path: Path): boolean {
    if (this.share.mode !== 'upload') return false
    if (path !== root) throw new GatewayError('not_found')
    return true
  }

  /**
   * Rejects as `VirtualFs.assertMembersReadable`, for the members of a folder of the share. `names`: only these; empty:
   * all.
   */
  async assertMembersReadable(path: Path, names: readonly string[], options: AccessOptions = {}): Promise<void> {
    for (const { fs, top, folder, names: selected } of await this.#branches(path, names, options)) {
      if (top?.kind === 'file') await fs.assertAllowed('read', root, options)
      else await fs.assertMembersReadable(folder, selected, options)
    }
  }

  /** Yields the same members at any depth, a folder before what is in it. */
  async *members(path: Path, names: readonly string[], options: AccessOptions = {}): AsyncGenerator<SharedMember> {
    for (const { fs, top, folder, names: selected } of await this.#branches(path, names, options)) {
      if (top !== undefined) yield { fs, path: root, entry: top, name: top.name }
      if (top?.kind === 'file') continue
      for await (const { path: at, entry } of fs.members(folder, selected, options)) {
        const below = (within(folder, at) ?? at).slice(1)
        yield { fs, path: at, entry, name: top === undefined ? below : `${top.name}/${below}` }
      }
    }
  }

  /** The trees that hold these members: one for each root if the folder is that of several roots. */
  async #branches(path: Path, names: readonly string[], { signal }: AccessOptions): Promise<readonly Branch[]> {
    if (this.share.mode === 'upload') throw new GatewayError('not_found')
    const place = this.at(path)
    if (place.kind === 'entry') return [{ fs: place.fs, top: undefined, folder: place.path, names }]
    const branches: Branch[] = []
    for (const { fs, name } of this.roots) {
      const isSelected = names.length === 0 || names.includes(name)
      if (!isSelected || branches.some(({ top }) => top?.name === name)) continue
      const seen = await undefinedIfMissing(fs.view(root, { signal }), ...refusedToCreator)
      if (seen !== undefined && seen.entry.kind !== 'symlink') {
        branches.push({ fs, top: { ...seen.entry, name }, folder: root, names: [] })
      }
    }
    if (branches.length < names.length) throw new GatewayError('not_found')
    return branches
  }

  /** The order of listings of the share; undefined if it leaves that to the storages. */
  get order(): Order | undefined {
    const { orderBy, orderDirection, extractFolder } = this.share
    if (orderBy === '' && extractFolder === '') return undefined
    return { by: orderBy === '' ? 'given' : orderBy, direction: orderDirection, folders: extractFolder }
  }

  /** The roots that exist, by the names by which they appear in a folder. */
  async listRoots(options: SharedListOptions = {}): Promise<SharedListing> {
    const { signal, order, contains = '', offset = 0, limit, foldersOnly } = options
    const found = await Promise.all(this.roots.map((each) => entryOf(each, signal)))
    const there = found.filter((each) => each !== undefined)
    const names = new Set<string>()
    const entries: SeenEntry[] = []
    for (const { entry } of there) {
      if (names.has(entry.name)) continue
      names.add(entry.name)
      const matches = foldName(entry.name).includes(foldName(contains))
      if (matches && (foldersOnly !== true || entry.kind === 'folder')) entries.push(entry)
    }
    const sorted = order === undefined ? entries : await sortedInTurns(entries, order)
    const shown = sorted.slice(offset, limit === undefined ? undefined : offset + limit)
    const [first, ...others] = there.map(({ thumbnails }) => thumbnails)
    const thumbnails = (first ?? []).filter((kind) => others.every((kinds) => kinds.includes(kind)))
    return { entries: shown, total: entries.length, thumbnails, rights: [] }
  }
}

/** Undefined if it is missing, or its storage does not answer. */
async function entryOf({ fs, name }: OpenRoot, signal: AbortSignal | undefined): Promise<SharedEntry | undefined> {
  try {
    const seen = await undefinedIfMissing(fs.view(root, { signal }), ...refusedToCreator)
    return seen && { entry: { ...seen.entry, name }, thumbnails: seen.folder.thumbnails }
  } catch (error) {
    if (isGatewayError(error, 'aborted', 'unauthenticated', 'internal')) throw error
    return undefined
  }
}

/** A folder that only a share has. */
export function folderEntry(name: string): Entry {
  return { name, kind: 'folder', size: 0, modified: new Date(NaN) }
}
