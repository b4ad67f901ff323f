/**
 * The tree below a root of a share, as its visitors change it. What the mode of the share permits is decided in
 * `src/tree/policy/`; here is what no other tree has: the limits of a share, new names in place of those that exist,
 * and a root that is not made again. Every protocol gets this tree, so that none of them can pass by.
 */
import { joinSignals } from '../base/cancellation.js'
import { GatewayError, isGatewayError, TreeError, undefinedIfMissing } from '../base/errors.js'
import { checkName, childOf, maxNameLength, nameOf, root, segmentsOf, under, type Path } from '../base/path.js'
import type { EventKind } from '../audit/event.js'
import type { OpenFile, OpenMode } from '../contract/capabilities.js'
import type { Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import type { LockRequest } from '../database/tables/locks.js'
import type { ShareScope, Principal } from '../accounts/principal.js'
import type { FolderOptions } from '../tree/entry-changes.js'
import type { FileWriteOptions } from '../tree/file-content.js'
import type { FileOpenOptions } from '../tree/file-handles.js'
import type { LockResult } from '../tree/locks-and-properties.js'
import type {
  AccessOptions,
  ChangeOptions,
  Reservation,
  TransferResult,
  WriteResult,
} from '../tree/operation-options.js'
import { VirtualFs, type TransferOptions, type TreeDependencies, type WritableTreeFile } from '../tree/virtual-fs.js'
import { shareFull, type ShareUpload, type ShareUploads } from './share-uploads.js'
import { refusedToCreator } from './visitor-errors.js'

/** The highest number of a new name. */
const maxNumber = 1 << 17
/** Maximum number of names that are tried after the first that was free. */
const maxTries = 1000
/** Maximum bytes of an extension. A longer end of a name is none. */
const maxExtension = 64

type CopyOptions = Omit<TransferOptions, 'advance' | 'beforeItems'>

export class SharedTree extends VirtualFs {
  constructor(
    dependencies: TreeDependencies,
    principal: Principal,
    private readonly uploads: ShareUploads,
  ) {
    super(dependencies, principal)
  }

  get #share(): ShareScope {
    const { share } = this.principal
    if (share === undefined) throw new Error('not a visitor of a share')
    return share
  }

  /**
   * Stores a file. In mode `upload` it gets a name that is free, in the root, and nothing is replaced. Rejects with
   * `no_space` (`share_full`) if the limits do not allow it, `denied` (`share_not_writable`) where visitors may store
   * nothing, and `not_found` (`share_ended`) if the root is missing.
   */
  override write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    return this.#changing('file.stored', path, options, async (mode) => {
      if (mode === 'upload') return this.#add(path, source, options)
      const isThere = await this.#isThere(path, options)
      const counted = { ...options, makingFolder: (make: () => Promise<void>) => this.#makeFolder(make) }
      const replacing = (upload: ShareUpload) => super.write(path, upload.counted(source), counted)
      return this.#counting(source.size, isThere ? 0 : 1, replacing)
    })
  }

  /**
   * Copies within the share, and counts the copies as uploaded. Rejects as `write` does, and as `VirtualFs.copy` does.
   * A copy that fails after it has made its folder counts as a whole, because its stored part is not known. If others
   * add files to the source meanwhile, their bytes count, but their number does not. One network makes only some copies
   * at a time, and waits with others.
   */
  override copy(from: Path, to: Path, options: CopyOptions): Promise<TransferResult> {
    const { copies } = this.uploads
    const copy = () => this.#changing('copied', from, options, () => this.#copy(from, to, options))
    return copies.run(this.principal.holder, copy, options.signal)
  }

  async #copy(from: Path, to: Path, options: CopyOptions): Promise<TransferResult> {
    const growth = new AbortController()
    const joined = joinSignals(options.signal, growth.signal)
    const { signal } = joined
    let upload: ShareUpload | undefined
    let size = { bytes: 0, made: 0 }
    let before: Entry['kind'] | undefined
    let done = 0
    const beforeItems = async () => {
      before = await this.#kindOf(to, { signal })
      size = await this.#sizeOf(from, before, { ...options, signal })
      upload = await this.uploads.begin(this.#share.id, size.bytes, size.made)
      upload.copied(size.bytes)
    }
    // The source may grow while it is copied.
    const advance = (more: number) => {
      done += more
      if (done <= size.bytes) return
      upload?.copied(done)
      growth.abort()
    }
    try {
      const result = await super.copy(from, to, { ...options, beforeItems, advance, signal })
      await upload?.finish(size.made)
      return result
    } catch (error) {
      const isMade = async () => (await this.#kindOf(to).catch(() => 'folder')) === 'folder'
      if (upload !== undefined && before !== 'folder' && (await isMade())) await upload.finish(size.made)
      throw growth.signal.aborted ? shareFull() : error
    } finally {
      joined.release()
      await upload?.release()
    }
  }

  /**
   * Returns the bytes, and the number of files and folders, that a copy makes. `before`: the kind of the entry at its
   * target.
   */
  async #sizeOf(
    from: Path,
    before: Entry['kind'] | undefined,
    { signal, deep }: CopyOptions,
  ): Promise<{ readonly bytes: number; readonly made: number }> {
    const { kind, size } = await super.stat(from, { signal })
    if (kind !== 'folder') return { bytes: size, made: before === 'file' ? 0 : 1 }
    let [bytes, made] = [0, 1]
    if (deep === false) return { bytes, made }
    for await (const { entry } of super.members(from, [], { signal })) {
      made += 1
      if (entry.kind !== 'folder') bytes += entry.size
    }
    return { bytes, made }
  }

  async #kindOf(path: Path, { signal }: AccessOptions = {}): Promise<Entry['kind'] | undefined> {
    return (await undefinedIfMissing(super.stat(path, { signal }), 'parent_missing', 'not_folder'))?.kind
  }

  override mkdir(path: Path, options: FolderOptions = {}): Promise<void> {
    const counted = { ...options, makingFolder: (make: () => Promise<void>) => this.#makeFolder(make) }
    return this.#changing('folder.made', path, options, () => super.mkdir(path, counted))
  }

  /** A folder counts as a file. */
  async #makeFolder(make: () => Promise<void>): Promise<void> {
    await this.#counting(0, 1, async () => {
      await make()
      return { created: true }
    })
  }

  /** A file that is made to be locked counts as one that is uploaded. */
  override lock(path: Path, request: LockRequest, options: ChangeOptions = {}): Promise<LockResult> {
    return this.#changing('locked', path, options, async () => {
      if (options.makesFile === false || (await this.#isThere(path, options))) {
        return super.lock(path, request, { ...options, makesFile: false })
      }
      return this.#counting(0, 1, () => super.lock(path, request, options))
    })
  }

  /** Handles that write are not counted. Rejects with `unsupported` for these. */
  override open(path: Path, mode: 'update' | 'replace', options?: FileOpenOptions): Promise<WritableTreeFile>
  override open(path: Path, mode: OpenMode, options?: FileOpenOptions): Promise<OpenFile>
  override async open(path: Path, mode: OpenMode, options: FileOpenOptions = {}): Promise<OpenFile> {
    if (mode !== 'read') throw new GatewayError('unsupported')
    return super.open(path, mode, options)
  }

  override async reserve(): Promise<Reservation> {
    throw new GatewayError('unsupported')
  }

  override async symlink(): Promise<void> {
    throw new GatewayError('unsupported')
  }

  override async hardLink(): Promise<void> {
    throw new GatewayError('unsupported')
  }

  /** Runs a change if the root exists, and tells no more of a refusal than that. */
  #changing<Result>(
    kind: EventKind,
    path: Path,
    options: AccessOptions,
    change: (mode: 'upload' | 'both') => Promise<Result>,
  ): Promise<Result> {
    return this.recordingRefusals(kind, path, () => this.#permitted(options, change))
  }

  async #permitted<Result>(
    { signal }: AccessOptions,
    change: (mode: 'upload' | 'both') => Promise<Result>,
  ): Promise<Result> {
    const { mode } = this.#share
    if (mode === 'read') throw notWritable()
    if ((await undefinedIfMissing(super.stat(root, { signal }), ...refusedToCreator)) === undefined) {
      throw new GatewayError('not_found', { detail: 'share_ended' })
    }
    try {
      return await change(mode)
    } catch (error) {
      // A part of the tree was changed, so that the change was not refused as a whole.
      if (error instanceof TreeError) throw error
      if (!isGatewayError(error, ...refusedToCreator) || isAboutName(error)) throw error
      throw notWritable(error)
    }
  }

  /** Runs an upload within the limits of the share. */
  async #counting<Result extends { readonly created: boolean }>(
    bytes: number | undefined,
    files: number,
    work: (upload: ShareUpload) => Promise<Result>,
  ): Promise<Result> {
    const upload = await this.uploads.begin(this.#share.id, bytes, files)
    try {
      const result = await work(upload)
      await upload.finish(result.created ? 1 : 0)
      return result
    } finally {
      await upload.release()
    }
  }

  async #isThere(path: Path, options: AccessOptions): Promise<boolean> {
    return (await this.#kindOf(path, options)) !== undefined
  }

  /** Adds a file by its name, or by the first of `name (1)`, `name (2)` … that is free. */
  async #add(path: Path, source: Source, options: FileWriteOptions): Promise<WriteResult> {
    if (segmentsOf(path).length !== 1) {
      throw new GatewayError('invalid', { reason: 'files are uploaded to this share by a name, without folders' })
    }
    const name = checkName(nameOf(path))
    // A new file has no entity tag.
    if (options.ifMatch !== undefined)
      throw new GatewayError('precondition_failed', { reason: 'If-Match does not hold' })
    await super.assertMayChange('write', root, options)
    const { signal, modified } = options
    const pathOf = (number: number) => childOf(root, numbered(name, number))
    return this.#counting(source.size, 1, async (upload) => {
      // No name is free if the creator may write none of them, or too many exist.
      const first = await firstFree((number) => this.#isFree(pathOf(number), options))
      if (first === undefined) throw notWritable()
      for (let number = first; number < first + maxTries; number++) {
        if (!(await upload.claim(this.#inTree(pathOf(number))))) continue
        try {
          return await super.write(pathOf(number), upload.counted(source), { signal, modified, createOnly: true })
        } catch (error) {
          // Another client has just made a file of this name.
          if (!isTaken(error)) throw error
          // A body that was read once cannot be stored by another name.
          if (!source.rereadable && !upload.isUnread) break
        }
      }
      throw new GatewayError('busy', { retryAfter: 1 })
    })
  }

  /** Whether a new file can have this path, as far as is known. */
  async #isFree(path: Path, { signal }: AccessOptions): Promise<boolean> {
    if (await this.uploads.isClaimed(this.#inTree(path))) return false
    try {
      await super.checkWritable(path, { signal, createOnly: true })
      return true
    } catch (error) {
      // A name that the creator must not see is refused in the same way as in a folder that is missing.
      const isRefused = isGatewayError(error, 'parent_missing', ...refusedToCreator) && !isAboutName(error)
      if (isTaken(error) || isRefused) return false
      throw error
    }
  }

  /** The path of the whole tree, by which uploads of several shares of one folder know it. */
  #inTree(path: Path): Path {
    return under(this.principal.base, path)
  }
}

/** Whether an entry has the name, whatever it is. */
function isTaken(error: unknown): boolean {
  return isGatewayError(error, 'exists', 'is_folder', 'locked')
}

/** Whether the error is about a name that would be refused everywhere. */
function isAboutName(error: unknown): boolean {
  return isGatewayError(error) && error.detail === 'system_file'
}

/**
 * The least free number, as far as can be known from a few of them: those below it are taken, unless some were removed.
 * Undefined if none is found.
 */
async function firstFree(isFree: (number: number) => Promise<boolean>): Promise<number | undefined> {
  if (await isFree(0)) return 0
  let taken = 0
  let free = 1
  while (!(await isFree(free))) {
    taken = free
    free *= 2
    if (free > maxNumber) return undefined
  }
  while (free - taken > 1) {
    const middle = Math.floor((taken + free) / 2)
    if (await isFree(middle)) free = middle
    else taken = middle
  }
  return free
}

/** `name.ext`, `name (1).ext`, `name (2).ext` …, of at most `maxNameLength` bytes. */
export function numbered(name: string, number: number): string {
  if (number === 0) return name
  const dot = name.lastIndexOf('.')
  const hasExtension = dot > 0 && Buffer.byteLength(name.slice(dot)) <= maxExtension
  const [stem, extension] = hasExtension ? [name.slice(0, dot), name.slice(dot)] : [name, '']
  const end = ` (${number})${extension}`
  const characters = Array.from(stem)
  while (Buffer.byteLength(characters.join('') + end) > maxNameLength) characters.pop()
  return characters.join('') + end
}

function notWritable(cause?: unknown): GatewayError {
  return new GatewayError('denied', { detail: 'share_not_writable', cause })
}
