/** Answers on their way out: gathered into few writes of the channel, held back while the client does not read. */
import type { Socket } from 'node:net'
import type { Writable } from 'node:stream'

/** Small answers are joined up to this size; larger ones go out as they are. */
const gatherLimit = 32 * 1024
/** From this size on nothing is gained by waiting for more: the client can work on these meanwhile. */
const flushSize = 128 * 1024
/** Bytes waiting in the connection's socket above which nothing more is handed over: ssh2 itself never waits. */
const socketLimit = 4 * 1024 * 1024

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
    while (next < queue.length && !this.isBlocked) {
      const from = next
      let size = 0
      do size += queue[next++]?.bytes.length ?? 0
      while (next < queue.length && size + (queue[next]?.bytes.length ?? 0) <= gatherLimit)
      this.#write(queue.slice(from, next), size)
    }
    this.socket.uncork()
    for (const answer of queue.slice(next)) {
      this.#queue.push(answer)
      this.#queued += answer.bytes.length
    }
  }

  #write(answers: readonly Answer[], size: number): void {
    const [first] = answers
    const bytes =
      answers.length === 1 && first
        ? first.bytes
        : Buffer.concat(
            answers.map((answer) => answer.bytes),
            size,
          )
    const open = this.channel.write(bytes, () => {
      if (!this.#ended) for (const answer of answers) answer.sent()
    })
    if (!open) this.#waitFor(this.channel)
    else if (this.socket.writableLength > socketLimit) this.#waitFor(this.socket)
  }

  #waitFor(stream: Writable): void {
    this.#blocked = true
    stream.once('drain', () => {
      this.#blocked = false
      this.#flush()
    })
  }
}
