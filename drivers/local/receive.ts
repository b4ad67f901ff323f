/** Taking in a body: chunks are gathered to about 1 MiB and written at once, the next ones gathered meanwhile. */
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { flow, type Intake } from '../lib/flow.js'
import { writeAll, type Calls } from './calls.js'
import { translated } from './errors.js'
import { giveBack, slabSize, takeSlab } from './slabs.js'

const largestBatch = 1024 * 1024
const smallestBatch = slabSize
/** Bytes that all bodies together gather before they are written. */
const gatheredAtOnce = 8 * 1024 * 1024
/** Bodies on their way in. */
let receiving = 0

/** Large batches are quick; many bodies at once share the room for them. */
function batchSize(): number {
  return Math.max(smallestBatch, Math.min(largestBatch, gatheredAtOnce / receiving))
}

/** Up to so many bytes are written without a hop through the thread pool. */
export const immediateBytes = 64 * 1024

/**
 * Writes all of `source` from byte `start` of the file on. Rejects with `invalid` where it is not as long as announced, and with
 * `aborted`.
 */
export async function receive(
  source: Source,
  fd: number,
  calls: Calls,
  patient: Calls,
  signal?: AbortSignal,
  start = 0,
): Promise<void> {
  const intake = new DiskIntake(fd, calls, patient, start)
  receiving++
  try {
    await flow(source, intake, signal)
    await intake.finish()
  } catch (error) {
    throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
  } finally {
    receiving--
    // The descriptor may be closed after this: nothing may be on its way to it.
    await intake.release()
  }
}

/** Bytes on their way into a file. */
class DiskIntake implements Intake {
  /** The last one is filled in part. */
  readonly #slabs: Buffer[] = []
  #gathered = 0
  /** Bytes written, or on their way to the disk. */
  #sent = 0
  /** Stays true where it failed: its failure is met by whoever waits for it next. */
  #isWriting = false
  #writing = Promise.resolve()
  #isOver = false

  constructor(
    private readonly fd: number,
    private readonly calls: Calls,
    private readonly patient: Calls,
    private readonly start: number,
  ) {}

  take(chunk: Buffer, used: () => void): Promise<void> | undefined {
    this.#gather(chunk)
    used()
    if (this.#gathered < batchSize()) return undefined
    if (this.#isWriting) return this.#writing.then(() => (this.#isOver ? undefined : this.#write()))
    this.#write()
    return undefined
  }

  #gather(chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      const at = this.#gathered % slabSize
      const slab = at === 0 ? takeSlab() : this.#slabs.pop()
      if (slab === undefined) throw new Error('bytes were gathered into no buffer')
      this.#slabs.push(slab)
      const copied = chunk.copy(slab, at, from)
      from += copied
      this.#gathered += copied
    }
  }

  /** What fills whole slabs; the rest stays. */
  #write(): void {
    const full = this.#slabs.splice(0, Math.floor(this.#gathered / slabSize))
    this.#isWriting = true
    this.#writing = writeAll(this.patient, this.fd, full, this.start + this.#sent).then(() => {
      this.#isWriting = false
      giveBack(full, receiving === 0)
    })
    this.#writing.catch(() => undefined)
    this.#sent += full.length * slabSize
    this.#gathered -= full.length * slabSize
  }

  /** All chunks are there; resolves when they are written. */
  async finish(): Promise<void> {
    await this.#writing
    const rest = this.#slabs.map((slab, index) => slab.subarray(0, this.#gathered - index * slabSize))
    await writeAll(this.#gathered <= immediateBytes ? this.calls : this.patient, this.fd, rest, this.start + this.#sent)
  }

  /** Resolves when nothing is on its way to the disk any more. */
  async release(): Promise<void> {
    this.#isOver = true
    await this.#writing.catch(() => undefined)
    giveBack(this.#slabs.splice(0), receiving === 0)
  }
}
