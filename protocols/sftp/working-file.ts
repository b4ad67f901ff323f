/**
 * A file that this session has open. All handles of the session on one path share it, so that they see the same bytes.
 * Changes run in the order of their requests. Adjacent writes are merged into one.
 *
 * A new or truncated file is staged. It gets its name when it is published: at the CLOSE of a handle with write access,
 * or before a rename. Handles that remain open then use the published file.
 */
import type { Attributes, OpenFile, WritableFile } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { newFileMode } from '../../src/contract/modes.js'
import type { Path } from '../../src/base/path.js'
import type { WritableTreeFile } from '../../src/tree/virtual-fs.js'
import type { SftpFileSystem } from './file-system.js'

/** Maximum size of merged writes, in bytes. */
const mergeLimit = 1024 * 1024

interface Write {
  readonly kind: 'write'
  readonly data: readonly Buffer[]
  readonly length: number
  /** The position in the file; undefined: append. */
  readonly position: number | undefined
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}
interface Step {
  readonly kind: 'step'
  readonly run: () => Promise<void>
}

/** A handle of the tree. */
type SessionFile = OpenFile & Partial<Pick<WritableTreeFile, 'isMovedAway'>>

export class WorkingFile {
  /** Undefined: closed; reopened on the next access. */
  #file: SessionFile | undefined
  /** The last reopening. Concurrent accesses must not each open a handle. */
  #reopening: Promise<unknown> = Promise.resolve()
  #entry: Entry
  #size: number
  #mode: number | undefined
  /** The time that was set after the last change of the content. */
  #modified: Date | undefined
  /** Time of the last change of the content by this session; undefined: none since the entry was determined. */
  #written: Date | undefined
  /** Whether there are bytes or attributes that `commit` has not published yet. */
  #changed = false
  /** Error of a failed write to the staged file, which must not be published then. */
  #failure: GatewayError | undefined
  /** Length of the prefix that was written without a gap, in bytes. */
  #contiguous = 0
  #isPartial = false
  /**
   * The file may be published partially. False once `restart` has reopened it, without the check in `beforePublish`.
   */
  #isResumable = true
  /** The file was removed or replaced: further writes have no visible effect. */
  #unlinked = false
  /** Whether a handle can read the file: only then, it is opened again with the right to read. */
  isRead = false
  readonly #queue: (Write | Step)[] = []
  #pumping = false
  readonly #reads = new Set<Promise<unknown>>()

  constructor(
    private readonly fs: SftpFileSystem,
    /** Aborts when the session ends. */
    private readonly signal: AbortSignal,
    public path: Path,
    file: OpenFile,
    /** The file is staged and was never published. */
    private unpublished: boolean,
    /** Whether the file was opened for writing. */
    readonly isWritable: boolean,
    /** Permission bits of a new file. */
    mode?: number,
    /** Removes the empty file that OPEN created under the name. Called if the staged file is never published. */
    private readonly dropEmpty?: () => Promise<void>,
  ) {
    this.#file = file
    this.#entry = file.entry
    this.#size = unpublished ? 0 : file.entry.size
    this.#changed = unpublished
    this.#mode = mode
  }

  /** Whether the file is published although the client disconnected before CLOSE, so that the upload can be resumed. */
  get isPartial(): boolean {
    return this.#isPartial
  }

  /** Whether writes go to a staged file. Until it is published, others see the old file under its name, or none. */
  get isStaged(): boolean {
    return this.#file?.commit !== undefined && !this.#unlinked
  }

  /** Whether the file was removed or replaced while it was open. */
  get isUnlinked(): boolean {
    return this.#unlinked
  }

  /** Size in bytes after the last completed change. */
  get size(): number {
    return this.#size
  }

  /** The entry as the session sees it, with all completed changes. */
  get entry(): Entry {
    return {
      ...this.#entry,
      kind: 'file',
      size: this.#size,
      modified: this.#modified ?? this.#written ?? this.#entry.modified,
      ...(this.#mode !== undefined && { mode: this.#mode }),
    }
  }

  /**
   * Reads from `position` into `into`, after all changes that were requested before. Resolves to the number of bytes.
   */
  async read(into: Buffer, position: number): Promise<number> {
    if (this.#pumping || this.#queue.length > 0) await this.changesDone()
    const reading = this.#opened('read').then((file) => file.read(into, position))
    this.#reads.add(reading)
    try {
      return await reading
    } finally {
      this.#reads.delete(reading)
    }
  }

  /**
   * Writes `length` bytes at `position`, or at the end if it is undefined. The caller must not change the buffers until
   * the promise settles.
   */
  write(data: readonly Buffer[], length: number, position: number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ kind: 'write', data, length, position, resolve, reject })
      this.#schedulePump()
    })
  }

  truncate(size: number): Promise<void> {
    return this.#after(async () => {
      const file = await this.#opened('update')
      await this.#guard(file.truncate(size))
      this.#size = size
      this.#contiguous = Math.min(this.#contiguous, size)
      this.#markChanged()
    })
  }

  /** Begins the file anew, in a new staged file. Others see the old content until the new one is published. */
  restart(): Promise<void> {
    return this.#after(async () => {
      const { signal } = this
      const options = { readable: this.isRead, mode: this.entry.mode, signal }
      await this.#exchange(await this.fs.open(this.path, 'replace', options))
      this.#isResumable = false
      this.#failure = undefined
      this.#size = 0
      this.#contiguous = 0
      this.#markChanged()
    })
  }

  /** Sets mode and modification time: when the file is published if it is staged, otherwise immediately. */
  setAttributes(to: Attributes): Promise<void> {
    return this.#after(async () => {
      if (to.mode !== undefined) this.#mode = newFileMode(to.mode)
      this.#modified = to.modified ?? this.#modified
      if (this.#unlinked) return
      if (this.#file?.commit) this.#changed = true
      else await this.fs.setAttributes(this.path, to, { signal: this.signal })
    })
  }

  /** Flushes written bytes to the medium. Resolves to false, and changes nothing, if the backend cannot. */
  sync(): Promise<boolean> {
    return this.#after(async () => {
      const file = await this.#opened('update')
      try {
        await file.sync()
        return true
      } catch (error) {
        if (isGatewayError(error, 'unsupported')) return false
        this.#recordFailure(error)
        throw error
      }
    })
  }

  /** Resolves when all changes that were requested before have ended. */
  changesDone(): Promise<void> {
    return this.#after(async () => undefined)
  }

  /** Publishes the staged file. If a write failed, rejects and leaves the old file. */
  publish(): Promise<void> {
    return this.#after(() => this.#publish())
  }

  /**
   * Publishes the contiguous prefix of a file that was never published, so that the upload can be resumed. Does nothing
   * if there is no such prefix, or a write failed. Rejects, and publishes nothing, if what follows the prefix cannot be
   * cut off, or if publishing fails.
   */
  publishPartial(): Promise<void> {
    return this.#after(async () => {
      if (!this.unpublished || !this.#isResumable || this.#unlinked) return
      if (this.#failure !== undefined || this.#contiguous === 0) return
      this.#isPartial = true
      if (this.#contiguous < this.#size) await (await this.#opened('update')).truncate(this.#contiguous)
      await this.#publish()
    })
  }

  /**
   * Publishes the file and closes a staged file, which is bound to the current name. Called before a rename. Later
   * changes wait until `renamed` settles, which never rejects: they may reopen the file by its path. If the file was
   * copied and the source removed, it is reopened, so that they change the copy.
   */
  publishForRename(renamed: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const step = this.#after(async () => {
        await this.#publish()
        if (this.#file?.commit && !this.#unlinked) {
          await this.#file.close()
          this.#file = undefined
        }
        const from = this.path
        resolve()
        await renamed
        if (this.path !== from && this.#file?.isMovedAway?.() === true) await this.#reopenMoved(this.#file)
      })
      step.catch(reject)
    })
  }

  /** If it cannot be opened now, the next access tries again, and reports the error. */
  async #reopenMoved(removed: SessionFile): Promise<void> {
    this.#file = undefined
    await removed.close().catch(() => undefined)
    await this.#opened('update').catch(() => undefined)
  }

  /** Opens the backend's file, so that its content stays readable after its name is removed or replaced. */
  pin(): Promise<void> {
    return this.#after(async () => {
      await this.#opened(this.isWritable ? 'update' : 'read')
    })
  }

  /** Marks the file as removed or replaced: staged data is never published, and writes have no visible effect. */
  markUnlinked(): Promise<void> {
    return this.#after(async () => {
      this.#unlinked = true
    })
  }

  /** Records the new path after a rename. */
  setPath(to: Path): void {
    this.path = to
  }

  /** Closes the file after its last handle. Discards unpublished data. */
  release(): Promise<void> {
    return this.#after(async () => {
      const file = this.#file
      this.#file = undefined
      try {
        await file?.close()
      } finally {
        if (this.unpublished && !this.#unlinked) await this.dropEmpty?.()
      }
    })
  }

  async #publish(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const file = this.#file
    if (!file?.commit || !this.#changed || this.#unlinked) return
    this.#entry = await file.commit({ mode: this.#mode, modified: this.#modified })
    this.#written = undefined
    this.unpublished = false
    this.#changed = false
    this.#file = undefined
    await file.close()
  }

  #opened(mode: 'update'): Promise<WritableFile>
  #opened(mode: 'read' | 'update'): Promise<OpenFile>
  async #opened(mode: 'read' | 'update'): Promise<OpenFile> {
    if (this.#file && (mode === 'read' || isWritable(this.#file))) return this.#file
    const reopened = this.#reopening.then(() => this.#reopened(mode))
    this.#reopening = reopened.catch(() => undefined)
    return reopened
  }

  /** The handle, reopened with the access that is needed now: a read must not require the permission to write. */
  async #reopened(mode: 'read' | 'update'): Promise<OpenFile> {
    if (!this.#file && this.#unlinked) throw new GatewayError('not_found', { op: 'open', path: this.path })
    const options = { readable: this.isRead, signal: this.signal }
    this.#file ??= await this.fs.open(this.path, mode, options)
    if (mode === 'read' || isWritable(this.#file)) return this.#file
    const writable = await this.fs.open(this.path, mode, options)
    await this.#exchange(writable)
    return writable
  }

  /** Closes the handle and uses `next` instead. If it cannot be closed, closes `next` too, and rejects. */
  async #exchange(next: WritableFile): Promise<void> {
    try {
      await this.#file?.close()
      this.#file = next
    } catch (error) {
      this.#file = undefined
      await next.close().catch(() => undefined)
      throw error
    }
  }

  /** The content has changed: a time that was set before is no longer that of the file, as with write(2). */
  #markChanged(): void {
    this.#changed = true
    this.#written = new Date()
    this.#modified = undefined
  }

  /** Records the first failed change of a staged file. */
  async #guard(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      this.#recordFailure(error)
      throw error
    }
  }

  #recordFailure(error: unknown): void {
    if (this.#file?.commit) this.#failure ??= toGatewayError(error)
  }

  /** Runs `work` when all changes that were requested before have ended. */
  #after<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ kind: 'step', run: () => work().then(resolve, reject) })
      if (!this.#pumping) void this.#pump()
    })
  }

  /** Defers the pump, so that writes that arrive in the same turn of the event loop can be merged. */
  #schedulePump(): void {
    if (this.#pumping) return
    this.#pumping = true
    setImmediate(() => void this.#pump())
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      // An earlier READ must return the content from before this change.
      if (this.#reads.size > 0) await Promise.allSettled([...this.#reads])
      if (next.kind === 'step') await next.run()
      else await this.#writeFrom(next)
    }
    this.#pumping = false
  }

  /**
   * Current end of the file. Others may have appended to a file that is changed in place. If its name was removed,
   * nobody has; after any other error the end is unknown, and the promise rejects.
   */
  async #end(): Promise<number> {
    if (!this.isStaged && !this.#unlinked) {
      const current = await undefinedIfMissing(this.fs.stat(this.path, { signal: this.signal }))
      if (current?.kind === 'file') this.#size = current.size
    }
    return this.#size
  }

  async #writeFrom(first: Write): Promise<void> {
    const batch: Write[] = [first]
    try {
      const position = first.position ?? (await this.#end())
      let end = position + first.length
      for (let next = this.#queue[0]; next?.kind === 'write'; next = this.#queue[0]) {
        const isAdjacent = next.position === undefined ? first.position === undefined : next.position === end
        if (!isAdjacent || end + next.length - position > mergeLimit) break
        batch.push(next)
        end += next.length
        this.#queue.shift()
      }
      const file = await this.#opened('update')
      if (end > position) {
        await this.#guard(file.write(batch.length === 1 ? first.data : batch.flatMap((write) => write.data), position))
        this.#size = Math.max(this.#size, end)
        if (position <= this.#contiguous) this.#contiguous = Math.max(this.#contiguous, end)
        this.#markChanged()
      }
      for (const write of batch) write.resolve()
    } catch (error) {
      for (const write of batch) write.reject(error)
    }
  }
}

/** Whether the handle was opened to write. */
function isWritable(file: OpenFile): file is WritableFile {
  return file.write !== undefined
}
