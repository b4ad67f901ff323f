/** Open files: streams, and handles for random access that read, change in place or stage. */
import { fdatasync, read } from 'node:fs'
import { promisify } from 'node:util'
import { Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, OpenFile } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { contentMode, hasSpecialBits, specialBitsRemain } from '../../src/contract/modes.js'
import { systemCode, translateError } from './errors.js'
import { maxSyncBytes } from './receive-body.js'
import type { StagedFile } from './staged-file.js'
import { asyncSyscalls, writeAll, type Syscalls } from './syscalls.js'

const sync = promisify(fdatasync)

export class ReadHandle implements OpenFile {
  /** The number of calls that have not settled. */
  #pending = 0
  /** Called when none is left. */
  #onSettled: (() => void) | undefined
  #closing: Promise<void> | undefined

  constructor(
    readonly entry: Entry,
    protected readonly fd: number,
    private readonly calls: Syscalls,
    private readonly closeFile: () => void | Promise<void>,
  ) {}

  read(into: Buffer, position: number): Promise<number> {
    return this.track(async () => {
      const calls = this.callsFor(into.length)
      let filled = 0
      while (filled < into.length) {
        const bytes = await calls.read(this.fd, into, filled, into.length - filled, position + filled)
        if (bytes === 0) break
        filled += bytes
      }
      return filled
    })
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  async #close(): Promise<void> {
    try {
      // A pending call must not use a descriptor number that was reused.
      if (this.#pending > 0) await new Promise<void>((resolve) => (this.#onSettled = resolve))
      await this.closeFile()
    } catch (error) {
      throw translateError(error)
    }
  }

  protected callsFor(bytes: number): Syscalls {
    return bytes <= maxSyncBytes ? this.calls : asyncSyscalls
  }

  protected async track<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) throw new GatewayError('invalid', { reason: 'the handle is closed' })
    this.#pending++
    try {
      return await work()
    } catch (error) {
      throw translateError(error)
    } finally {
      if (--this.#pending === 0) this.#onSettled?.()
    }
  }
}

export class UpdateHandle extends ReadHandle {
  write(from: readonly Buffer[], position: number): Promise<void> {
    const bytes = from.reduce((sum, buffer) => sum + buffer.length, 0)
    return this.#change(() => writeAll(this.callsFor(bytes), this.fd, from, position))
  }

  truncate(size: number): Promise<void> {
    return this.#change(async () => this.callsFor(0).ftruncate(this.fd, size))
  }

  sync(): Promise<void> {
    return this.track(() => sync(this.fd))
  }

  /**
   * Changes the content of a file, which loses its special bits before: by this process, or by the kernel if the file
   * belongs to another user. Rejects with `denied`, and changes nothing, if it would keep them.
   */
  #change(change: () => Promise<void>): Promise<void> {
    return this.track(async () => {
      const mode = await this.#mode()
      if (!hasSpecialBits(mode)) return change()
      let refusal: unknown
      try {
        await this.callsFor(0).fchmod(this.fd, contentMode(mode))
      } catch (error) {
        if (systemCode(error) !== 'EPERM') throw error
        refusal = error
      }
      // Another process may have removed them.
      if (refusal !== undefined && !isRemovedByKernel(await this.#mode())) throw specialBitsRemain(refusal)
      await change()
      if (refusal !== undefined && hasSpecialBits(await this.#mode())) throw specialBitsRemain(refusal)
    })
  }

  async #mode(): Promise<number> {
    return Number((await this.callsFor(0).fstat(this.fd)).mode)
  }
}

/**
 * Whether a file with this mode has no special bits once its content changes. For processes that are not root the
 * kernel removes setuid, and setgid of a file that its group may execute (chown(2), inode(7)).
 */
function isRemovedByKernel(mode: number): boolean {
  if (process.geteuid?.() === 0) return !hasSpecialBits(mode)
  const setgid = mode & 0o2000
  return !hasSpecialBits(mode & ~0o4000 & ~(mode & 0o010 ? setgid : 0))
}

/** A handle to a staged file. Closes, and removes the file, when its signal aborts. */
export class StagedHandle extends UpdateHandle {
  constructor(
    entry: Entry,
    private readonly staged: StagedFile,
    private readonly publish: (attributes?: Attributes) => Promise<Entry>,
  ) {
    super(entry, staged.fd, staged.calls, () => staged.release())
    // The caller may hold the handle for long, so it is closed here. `close` reports an error to the caller later.
    staged.running.onAbort(() => void this.close().catch(() => undefined))
  }

  commit(attributes?: Attributes): Promise<Entry> {
    return this.track(() => this.publish(attributes))
  }

  protected override async track<T>(work: () => Promise<T>): Promise<T> {
    throwIfAborted(this.staged.running)
    return super.track(work)
  }
}

const chunkSize = 512 * 1024

/**
 * Reads `length` bytes from `position` on. Closes the descriptor when the stream ends or is destroyed. Fails with
 * `unavailable` if the file is shorter than that.
 */
export class FileStream extends Readable {
  #position: number
  readonly #end: number
  #reading = false
  #onReadDone: (() => void) | undefined

  constructor(
    private readonly fd: number,
    private readonly closeFile: () => void | Promise<void>,
    position: number,
    length: number,
  ) {
    super({ highWaterMark: chunkSize })
    this.#position = position
    this.#end = position + length
  }

  override _read(): void {
    const length = Math.min(chunkSize, this.#end - this.#position)
    if (length === 0) {
      this.push(null)
      return
    }
    this.#reading = true
    const buffer = Buffer.allocUnsafeSlow(length)
    read(this.fd, buffer, 0, length, this.#position, (error, bytes) => {
      this.#reading = false
      this.#onReadDone?.()
      if (this.destroyed) return
      if (error) this.destroy(translateError(error))
      else if (bytes === 0)
        this.destroy(new GatewayError('unavailable', { reason: 'the file was truncated while it was read' }))
      else {
        this.#position += bytes
        this.push(bytes === length ? buffer : buffer.subarray(0, bytes))
      }
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const close = () => {
      Promise.resolve(this.closeFile()).then(
        () => done(error),
        () => done(error),
      )
    }
    // A pending read must not use a descriptor number that was reused.
    if (this.#reading) this.#onReadDone = close
    else close()
  }
}

/** A stream of bytes that are in memory. */
export function bufferStream(bytes: Buffer): Readable {
  return new Readable({
    read() {
      if (bytes.length > 0) this.push(bytes)
      this.push(null)
    },
  })
}
