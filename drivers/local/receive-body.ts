/**
 * Writes a body to a file: collects chunks up to about 1 MiB, and writes them in one call while the next ones are
 * collected.
 */
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/base/errors.js'
import { releaseWhenIdle } from '../../src/base/idle-memory.js'
import { pump, type Sink } from '../lib/streams/pump.js'
import { translateError } from './errors.js'
import { writeAll, type Syscalls } from './syscalls.js'

/**
 * Bytes of each buffer of the pool. Allocating and collecting new buffers costs more than copying the data into
 * existing ones.
 */
const bufferSize = 128 * 1024
/** Maximum number of unused buffers: while bodies are being received, and while none is. */
const maxFree = 128
const maxIdle = 16

/** Unused buffers. */
const freeBuffers: Buffer[] = []
releaseWhenIdle(() => (freeBuffers.length = 0))

const maxBatch = 1024 * 1024
const minBatch = bufferSize
/** Maximum bytes that all bodies together buffer before they write. */
const maxBuffered = 8 * 1024 * 1024
/** Number of bodies that are being received. */
let activeBodies = 0

/** Bytes to collect before a write. Large batches are faster; concurrent bodies share the memory for them. */
function batchSize(): number {
  return Math.max(minBatch, Math.min(maxBatch, maxBuffered / activeBodies))
}

/** Maximum bytes that are read or written without the thread pool. */
export const maxSyncBytes = 64 * 1024

/**
 * Writes all of `source` from byte `start` of the file on. `calls` writes a small remainder, `bulkCalls` everything
 * else. Rejects with `invalid` if the length differs from the announced size, and with `aborted`.
 */
export async function receive(
  source: Source,
  fd: number,
  calls: Syscalls,
  bulkCalls: Syscalls,
  signal?: AbortSignal,
  start = 0,
): Promise<void> {
  const sink = new FileSink(fd, calls, bulkCalls, start)
  activeBodies++
  try {
    await pump(source, sink, signal)
    await sink.finish()
  } catch (error) {
    throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translateError(error)
  } finally {
    activeBodies--
    // The caller may close the descriptor after this, so no write may be pending.
    await sink.release()
  }
}

/** Collects chunks in pooled buffers and writes them, one write at a time. */
class FileSink implements Sink {
  /** The buffers that are filled. Only the last one may be partially filled. */
  readonly #buffers: Buffer[] = []
  #bufferedBytes = 0
  /** Bytes written, including the pending write. */
  #submittedBytes = 0
  /** Remains true after a failure, which the next caller that awaits `#writing` receives. */
  #isWriting = false
  #writing = Promise.resolve()
  #isReleased = false

  constructor(
    private readonly fd: number,
    private readonly calls: Syscalls,
    private readonly bulkCalls: Syscalls,
    private readonly start: number,
  ) {}

  write(chunk: Buffer, used: () => void): Promise<void> | undefined {
    this.#append(chunk)
    used()
    if (this.#bufferedBytes < batchSize()) return undefined
    if (this.#isWriting) return this.#writing.then(() => (this.#isReleased ? undefined : this.#write()))
    this.#write()
    return undefined
  }

  #append(chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      const at = this.#bufferedBytes % bufferSize
      const buffer = at === 0 ? takeBuffer() : this.#buffers.pop()
      if (buffer === undefined) throw new Error('no buffer for collected bytes')
      this.#buffers.push(buffer)
      const copied = chunk.copy(buffer, at, from)
      from += copied
      this.#bufferedBytes += copied
    }
  }

  /** Writes the full buffers. The partial one remains. */
  #write(): void {
    const full = this.#buffers.splice(0, Math.floor(this.#bufferedBytes / bufferSize))
    this.#isWriting = true
    this.#writing = writeAll(this.bulkCalls, this.fd, full, this.start + this.#submittedBytes).then(() => {
      this.#isWriting = false
      returnBuffer(full, activeBodies === 0)
    })
    this.#writing.catch(() => undefined)
    this.#submittedBytes += full.length * bufferSize
    this.#bufferedBytes -= full.length * bufferSize
  }

  /** Writes the remaining bytes. Resolves when all bytes are written. */
  async finish(): Promise<void> {
    await this.#writing
    const rest = this.#buffers.map((buffer, index) => buffer.subarray(0, this.#bufferedBytes - index * bufferSize))
    await writeAll(
      this.#bufferedBytes <= maxSyncBytes ? this.calls : this.bulkCalls,
      this.fd,
      rest,
      this.start + this.#submittedBytes,
    )
  }

  /** Resolves when no write is pending, and returns the buffers to the pool. */
  async release(): Promise<void> {
    this.#isReleased = true
    await this.#writing.catch(() => undefined)
    returnBuffer(this.#buffers.splice(0), activeBodies === 0)
  }
}

/**
 * Returns a buffer of `bufferSize` bytes with arbitrary content. The caller returns it with `returnBuffer` when it is
 * no longer read.
 */
function takeBuffer(): Buffer {
  return freeBuffers.pop() ?? Buffer.allocUnsafeSlow(bufferSize)
}

/** Returns buffers to the pool. `idle`: no body is being received. */
function returnBuffer(buffers: readonly Buffer[], idle: boolean): void {
  freeBuffers.push(...buffers)
  freeBuffers.length = Math.min(freeBuffers.length, idle ? maxIdle : maxFree)
}
