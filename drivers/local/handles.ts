/** Files open at any position: to be read, changed in place, or written aside. */
import { fdatasync } from 'node:fs'
import { promisify } from 'node:util'
import { assertGoing } from '../../src/aborting.js'
import type { Attributes, Entry, OpenFile } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { patientCalls, writeAll, type Calls } from './calls.js'
import { translated } from './errors.js'
import { immediateBytes } from './receive.js'
import type { Staged } from './staged-file.js'

const sync = promisify(fdatasync)

export class ReadHandle implements OpenFile {
  readonly #pending = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined

  constructor(
    readonly entry: Entry,
    protected readonly fd: number,
    private readonly calls: Calls,
    private readonly closeFile: () => void | Promise<void>,
  ) {}

  read(into: Buffer, position: number): Promise<number> {
    return this.during(async () => {
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
    this.#closing ??= (async () => {
      // Calls on their way must not find the descriptor of somebody else.
      await Promise.allSettled(this.#pending)
      await this.closeFile()
    })().catch((error: unknown) => {
      throw translated(error)
    })
    return this.#closing
  }

  protected callsFor(bytes: number): Calls {
    return bytes <= immediateBytes ? this.calls : patientCalls
  }

  protected async during<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) throw new GatewayError('invalid', { reason: 'the handle is closed' })
    const call = work()
    this.#pending.add(call)
    try {
      return await call
    } catch (error) {
      throw translated(error)
    } finally {
      this.#pending.delete(call)
    }
  }
}

export class UpdateHandle extends ReadHandle {
  write(from: readonly Buffer[], position: number): Promise<void> {
    const bytes = from.reduce((sum, buffer) => sum + buffer.length, 0)
    return this.during(() => writeAll(this.callsFor(bytes), this.fd, from, position))
  }

  truncate(size: number): Promise<void> {
    return this.during(async () => this.callsFor(0).ftruncate(this.fd, size))
  }

  sync(): Promise<void> {
    return this.during(() => sync(this.fd))
  }
}

/** One that ends, and leaves nothing, when the signal of what is staged does. */
export class StagedHandle extends UpdateHandle {
  constructor(
    entry: Entry,
    private readonly staged: Staged,
    private readonly publish: (attributes?: Attributes) => Promise<Entry>,
  ) {
    super(entry, staged.fd, staged.calls, () => staged.release())
    // Whoever has the handle may not close it for long. What goes wrong is told to them then.
    staged.stay.onAbort(() => void this.close().catch(() => undefined))
  }

  commit(attributes?: Attributes): Promise<Entry> {
    return this.during(() => this.publish(attributes))
  }

  protected override async during<T>(work: () => Promise<T>): Promise<T> {
    assertGoing(this.staged.stay)
    return super.during(work)
  }
}
