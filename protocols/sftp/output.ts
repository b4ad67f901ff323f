/** Queue of responses: merges them into few channel writes, and stops writing while the client does not read. */
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import type { ByteBudget } from './byte-budget.js'

/** Small responses are copied together up to this size, in bytes. Larger ones are written as they are. */
const mergeLimit = 32 * 1024
/** Queued bytes that trigger an immediate flush, so that the client can start processing. */
const flushSize = 128 * 1024

interface Response {
  readonly bytes: Buffer
  /** Called when the bytes are passed to the connection and their buffer can be reused. */
  readonly sent: () => void
}

export class Output {
  #queue: Response[] = []
  #queued = 0
  #scheduled = false
  #blocked = false
  #ended = false

  constructor(
    private readonly channel: Writable,
    private readonly socket: Socket,
    /** Limits the bytes buffered in the socket: ssh2 has no limit. */
    private readonly budget: Pick<ByteBudget, 'share'>,
  ) {}

  /** Queues a response. `sent` is called once the bytes are passed to the connection, but never after `end`. */
  send(bytes: Buffer, sent: () => void): void {
    if (this.#ended) return
    this.#queue.push({ bytes, sent })
    this.#queued += bytes.length
    if (this.#queued >= flushSize) this.#flush()
    else this.#schedule()
  }

  /** Whether output is paused because the client does not read fast enough. */
  get isBlocked(): boolean {
    return this.#blocked
  }

  /** Discards the queue. Nothing is sent after this call. */
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
    for (const response of queue.slice(next)) {
      this.#queue.push(response)
      this.#queued += response.bytes.length
    }
  }

  /** Writes the response at index `from` and the following ones that can be merged with it. Returns their number. */
  #write(queue: readonly Response[], from: number): number {
    const { bytes, end } = merge(queue, from)
    const hasCapacity = this.channel.write(bytes, () => {
      if (this.#ended) return
      for (let at = from; at < end; at++) queue[at]?.sent()
    })
    if (!hasCapacity) this.#waitForDrain(this.channel)
    else if (this.socket.writableNeedDrain && this.socket.writableLength > this.budget.share) {
      // Without `writableNeedDrain` there is no `drain` event to come.
      this.#waitForDrain(this.socket)
    }
    return end - from
  }

  #waitForDrain(stream: Writable): void {
    this.#blocked = true
    stream.once('drain', () => {
      this.#blocked = false
      this.#flush()
    })
  }
}

/**
 * The bytes of the responses from index `from` up to `end` as one buffer, of which ssh2 makes fewer packets. Responses
 * that are adjacent in memory are not copied. Small ones are copied together.
 */
function merge(queue: readonly Response[], from: number): { readonly bytes: Buffer; readonly end: number } {
  const first = queue[from]?.bytes ?? Buffer.alloc(0)
  let size = first.length
  let end = from + 1
  for (let next = queue[end]?.bytes; next; next = queue[++end]?.bytes) {
    const isNeighbour = next.buffer === first.buffer && next.byteOffset === first.byteOffset + size
    if (!isNeighbour) break
    size += next.length
  }
  if (end > from + 1) return { bytes: Buffer.from(first.buffer, first.byteOffset, size), end }
  for (let next = queue[end]?.bytes; next && size + next.length <= mergeLimit; next = queue[++end]?.bytes) {
    size += next.length
  }
  if (end === from + 1) return { bytes: first, end }
  const pieces = queue.slice(from, end).map((response) => response.bytes)
  return { bytes: Buffer.concat(pieces, size), end }
}
