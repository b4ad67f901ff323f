/**
 * A file that this session has open. All its handles on one path share it, so that they see the same bytes. What
 * changes it is done in the order in which it was asked for; neighbouring writes are joined into one.
 *
 * A new or truncated file is kept aside and takes its name when it is published: at the CLOSE of a handle that
 * writes, or before it is renamed. Handles that are still open then go on with the published file.
 */
import type { Attributes, Entry, OpenFile } from '../../src/driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import type { Tree } from './tree.js'

/** Writes are joined up to this size. */
const gatherLimit = 1024 * 1024

interface Write {
  readonly kind: 'write'
  readonly data: readonly Buffer[]
  readonly length: number
  /** Undefined: at the end. */
  readonly position: number | undefined
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}
interface Step {
  readonly kind: 'step'
  readonly run: () => Promise<void>
}

export class WorkingFile {
  /** undefined: reopened when it is needed again. */
  #file: OpenFile | undefined
  #entry: Entry
  #size: number
  #mode: number | undefined
  #modified: Date | undefined
  /** Bytes or attributes that are aside until `commit`. */
  #changed = false
  /** A write was lost: what is aside must not be published. */
  #failure: GatewayError | undefined
  /** End of what was written without a gap from the start on. */
  #whole = 0
  #isPartial = false
  /** It was opened to take a name that is free, which is looked at again where only a part of it is published. */
  #isResumable = true
  /** It lost its name: what is written goes nowhere. */
  #unlinked = false
  readonly #queue: (Write | Step)[] = []
  #pumping = false
  readonly #reads = new Set<Promise<unknown>>()

  constructor(
    private readonly tree: Tree,
    public path: Path,
    file: OpenFile,
    /** Nobody else sees it before it is published. */
    private staged: boolean,
    /** Opened to change it. */
    readonly writes: boolean,
    /** Permission bits that it is made with. */
    mode?: number,
    /** The name was taken by an empty file at OPEN, to be removed if nothing follows. */
    private readonly dropEmpty?: () => Promise<void>,
  ) {
    this.#file = file
    this.#entry = file.entry
    this.#size = staged ? 0 : file.entry.size
    this.#changed = staged
    this.#mode = mode
  }

  /** It is published only to be resumed: the client went before it had said that this was all. */
  get isPartial(): boolean {
    return this.#isPartial
  }

  /** What was written so far is kept aside: others see the old file under its name, or none. */
  get isAside(): boolean {
    return this.#file?.commit !== undefined && !this.#unlinked
  }

  /** Its name is not its own any more. */
  get isUnlinked(): boolean {
    return this.#unlinked
  }

  /** Bytes, writes included that are still on their way. */
  get size(): number {
    return this.#size
  }

  /** As the session sees it: with what was written so far. */
  get entry(): Entry {
    return {
      ...this.#entry,
      kind: 'file',
      size: this.#size,
      modified: this.#modified ?? this.#entry.modified,
      ...(this.#mode !== undefined && { mode: this.#mode }),
    }
  }

  /** Fills `into` from `position`, after all changes that were asked for before. */
  async read(into: Buffer, position: number): Promise<number> {
    if (this.#pumping || this.#queue.length > 0) await this.settled()
    const reading = this.#opened('read').then((file) => file.read(into, position))
    this.#reads.add(reading)
    try {
      return await reading
    } finally {
      this.#reads.delete(reading)
    }
  }

  /** The buffers are the file's until the promise settles. Without a position: at the end. */
  write(data: readonly Buffer[], length: number, position: number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ kind: 'write', data, length, position, resolve, reject })
      this.#gather()
    })
  }

  truncate(size: number): Promise<void> {
    return this.#after(async () => {
      const file = await this.#opened('update')
      if (!file.truncate) throw new GatewayError('unsupported', { path: this.path, reason: 'cannot be cut here' })
      await this.#guard(file.truncate(size))
      this.#size = size
      this.#whole = Math.min(this.#whole, size)
      this.#touched()
    })
  }

  /** Emptied to be written anew: others see the bytes that stand there until it is published. */
  restart(): Promise<void> {
    return this.#after(async () => {
      if (!this.isAside || !(await this.#isEmptied())) {
        const file = await this.tree.open(this.path, 'replace', { readable: true, mode: this.entry.mode })
        await this.#file?.close()
        this.#file = file
        this.#isResumable = false
        this.#failure = undefined
      }
      this.#size = 0
      this.#whole = 0
      this.#touched()
    })
  }

  /** Empties what is aside; false where bytes went out that cannot be taken back. */
  async #isEmptied(): Promise<boolean> {
    try {
      await this.#file?.truncate?.(0)
      return true
    } catch (error) {
      if (!isGatewayError(error, 'unsupported')) throw error
      return false
    }
  }

  /** Kept for the moment it is published, or set at once where the file is changed in place. */
  setAttributes(to: Attributes): Promise<void> {
    return this.#after(async () => {
      this.#mode = to.mode ?? this.#mode
      this.#modified = to.modified ?? this.#modified
      if (this.#unlinked) return
      if (this.#file?.commit) this.#changed = true
      else await this.tree.setAttributes(this.path, to)
    })
  }

  /** On the medium, as far as it can be before the file is published. */
  sync(): Promise<void> {
    return this.#after(async () => {
      const file = await this.#opened('update')
      await this.#guard(file.sync?.() ?? Promise.resolve())
    })
  }

  /** Resolves when everything asked for before has ended. */
  settled(): Promise<void> {
    return this.#after(async () => undefined)
  }

  /** Everybody sees what was written so far. Rejects, and leaves the old file, where a write was lost. */
  publish(): Promise<void> {
    return this.#after(() => this.#publish())
  }

  /** A file that nobody has seen yet is published as far as it came without a gap. Rejects where that cannot be. */
  keep(): Promise<void> {
    return this.#after(async () => {
      if (!this.staged || !this.#isResumable || this.#unlinked || this.#failure !== undefined || this.#whole === 0)
        return
      this.#isPartial = true
      if (this.#whole < this.#size) await this.#file?.truncate?.(this.#whole)
      await this.#publish()
    })
  }

  /** Published, and ready for another name: what would be published under this one only is let go. */
  leave(): Promise<void> {
    return this.#after(async () => {
      await this.#publish()
      if (!this.#file?.commit || this.#unlinked) return
      await this.#file.close()
      this.#file = undefined
    })
  }

  /** Its bytes are held as they are, since whatever bears its name next is another file. */
  hold(): Promise<void> {
    return this.#after(async () => {
      await this.#opened(this.writes ? 'update' : 'read')
    })
  }

  /** Its name goes to something else, or to nothing: what is aside is dropped, handles go on without effect. */
  unlink(): Promise<void> {
    return this.#after(async () => {
      this.#unlinked = true
    })
  }

  /** It has got another name. */
  moved(to: Path): void {
    this.path = to
  }

  /** The last handle went without CLOSE, or after it: what is still aside is dropped. */
  release(): Promise<void> {
    return this.#after(async () => {
      const file = this.#file
      this.#file = undefined
      await file?.close()
      if (this.staged && !this.#unlinked) await this.dropEmpty?.()
    })
  }

  async #publish(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const file = this.#file
    if (!file?.commit || !this.#changed || this.#unlinked) return
    this.#entry = await file.commit({ mode: this.#mode, modified: this.#modified })
    this.staged = false
    this.#changed = false
    this.#file = undefined
    await file.close()
  }

  async #opened(mode: 'read' | 'update'): Promise<OpenFile> {
    // After it was published, a handle that reads alone must not ask for the right to write.
    if (!this.#file && this.#unlinked) throw new GatewayError('not_found', { path: this.path })
    this.#file ??= await this.tree.open(this.path, mode)
    if (mode === 'update' && !this.#file.write) {
      await this.#file.close()
      this.#file = await this.tree.open(this.path, mode)
    }
    return this.#file
  }

  #touched(): void {
    this.#changed = true
    this.#entry = { ...this.#entry, modified: new Date() }
  }

  async #guard(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (error) {
      if (this.#file?.commit) this.#failure ??= toGatewayError(error)
      throw error
    }
  }

  /** Runs `work` when everything asked for before has ended. */
  #after<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ kind: 'step', run: () => work().then(resolve, reject) })
      if (!this.#pumping) void this.#pump()
    })
  }

  /** Writes that arrive in the same turn of the event loop are joined. */
  #gather(): void {
    if (this.#pumping) return
    this.#pumping = true
    setImmediate(() => void this.#pump())
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    for (let next = this.#queue.shift(); next; next = this.#queue.shift()) {
      // A READ that was asked for earlier reads what stood there then.
      if (this.#reads.size > 0) await Promise.allSettled([...this.#reads])
      if (next.kind === 'step') await next.run()
      else await this.#writeFrom(next)
    }
    this.#pumping = false
  }

  /** Where the file ends now: others may have written to one that is changed in place. */
  async #end(): Promise<number> {
    if (!this.isAside && !this.#unlinked) {
      const standing = await this.tree.stat(this.path).catch(() => undefined)
      if (standing?.kind === 'file') this.#size = standing.size
    }
    return this.#size
  }

  async #writeFrom(first: Write): Promise<void> {
    const run: Write[] = [first]
    const position = first.position ?? (await this.#end())
    let end = position + first.length
    for (let next = this.#queue[0]; next?.kind === 'write'; next = this.#queue[0]) {
      const follows = next.position === undefined ? first.position === undefined : next.position === end
      if (!follows || end + next.length - position > gatherLimit) break
      run.push(next)
      end += next.length
      this.#queue.shift()
    }
    try {
      const file = await this.#opened('update')
      if (!file.write) throw new GatewayError('unsupported', { path: this.path })
      if (end > position)
        await this.#guard(
          file.write(
            run.flatMap((write) => write.data),
            position,
          ),
        )
      this.#size = Math.max(this.#size, end)
      if (position <= this.#whole) this.#whole = Math.max(this.#whole, end)
      this.#touched()
      for (const write of run) write.resolve()
    } catch (error) {
      for (const write of run) write.reject(error)
    }
  }
}
