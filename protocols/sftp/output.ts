/** Answers on their way out: gathered into few writes of the channel, held back while the client does not read. */
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import type { ByteBudget } from './byte-budget.js'

/** Small answers are joined up to this size; larger ones go out as they are. */
const gatherLimit = 32 * 1024
/** From this size on nothing is gained by waiting for more: the client can work on these meanwhile. */
const flushSize = 128 * 1024
interface Answer {
  readonly bytes: Buffer
  /** The bytes were handed over: their buffer is free again. */
  readonly sent: () => void
}

export class Output {
  #queue: Answer[] = []
  #queued = 0
  #scheduled = false
  #blocked = false
  #ended = false

  constructor(
    private readonly channel: Writable,
    private readonly socket: Socket,
    /** Says how many bytes may wait in the connection's socket: ssh2 itself never waits. */
    private readonly budget: Pick<ByteBudget, 'share'>,
  ) {}

  /** `sent` is called once the bytes were handed to the connection; never after `end`. */
  send(bytes: Buffer, sent: () => void): void {
    if (this.#ended) return
    this.#queue.push({ bytes, sent })
    this.#queued += bytes.length
    if (this.#queued >= flushSize) this.#flush()
    else this.#schedule()
  }

  /** The client does not read as fast as answers come. */
  get isBlocked(): boolean {
    return this.#blocked
  }

  /** Nothing is sent any more. */
  end(): void {
    this.#ended = true
    this.#queue = []
  }

  #schedule(): void {
    if (this.#scheduled || this.#blocked) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#flush()
    })
  }

  #flush(): void {
    if (this.#ended || this.#blocked || this.#queue.length === 0) return
    const queue = this.#queue
    this.#queue = []
    this.#queued = 0
    this.socket.cork()
    let next = 0
    while (next < queue.length && !this.isBlocked) next += this.#write(queue, next)
    this.socket.uncork()
    for (const answer of queue.slice(next)) {
      this.#queue.push(answer)
      this.#queued += answer.bytes.length
    }
  }

  /** Writes the answer at `from`, with those after it that can go along; returns how many. */
  #write(queue: readonly Answer[], from: number): number {
    const { bytes, end } = gather(queue, from)
    const open = this.channel.write(bytes, () => {
      if (this.#ended) return
      for (let at = from; at < end; at++) queue[at]?.sent()
    })
    if (!open) this.#waitFor(this.channel)
    else if (this.socket.writableLength > this.budget.share) this.#waitFor(this.socket)
    return end - from
  }

  #waitFor(stream: Writable): void {
    this.#blocked = true
    stream.once('drain', () => {
      this.#blocked = false
      this.#flush()
    })
  }
}

/**
 * The bytes of the answers from `from` up to `end` as one buffer: those that lie side by side in memory as they are, since
 * ssh2 then makes fewer and fuller packets of them, and small ones copied together.
 */
function gather(queue: readonly Answer[], from: number): { readonly bytes: Buffer; readonly end: number } {
  const first = queue[from]?.bytes ?? Buffer.alloc(0)
  let size = first.length
  let end = from + 1
  for (let next = queue[end]?.bytes; next; next = queue[++end]?.bytes) {
    const isNeighbour = next.buffer === first.buffer && next.byteOffset === first.byteOffset + size
    if (!isNeighbour) break
    size += next.length
  }
  if (end > from + 1) return { bytes: Buffer.from(first.buffer, first.byteOffset, size), end }
  for (let next = queue[end]?.bytes; next && size + next.length <= gatherLimit; next = queue[++end]?.bytes) {
    size += next.length
  }
  if (end === from + 1) return { bytes: first, end }
  const pieces = queue.slice(from, end).map((answer) => answer.bytes)
  return { bytes: Buffer.concat(pieces, size), end }
}
