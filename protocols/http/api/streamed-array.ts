/** Streaming JSON serialization of long lists. */
import { Readable } from 'node:stream'
import { ownTurn } from '../../../src/base/pauses.js'
import type { Envelope } from './envelope.js'
import type { SerializedParts } from '../../../src/tree/virtual-fs.js'

interface StreamedArrayOptions {
  /** The number of items that are serialized without yielding to the event loop: fewer if they are large. */
  readonly chunkLength?: number
  /** Returns the cache of the JSON of the items. */
  readonly cacheOf?: () => SerializedParts | undefined
}

/** A list whose items are created while it is serialized. `JSON.stringify` writes it as an array. */
export class StreamedArray<Item extends object> {
  readonly #chunkLength: number
  readonly #cacheOf: () => SerializedParts | undefined

  /** `createItems` creates the items from one index (inclusive) to another (exclusive). */
  constructor(
    readonly length: number,
    private readonly createItems: (from: number, to: number) => readonly Item[],
    { chunkLength = 1000, cacheOf = () => undefined }: StreamedArrayOptions = {},
  ) {
    this.#chunkLength = chunkLength
    this.#cacheOf = cacheOf
  }

  /** Whether it is serialized in more than one chunk. */
  get isLong(): boolean {
    return this.length > this.#chunkLength
  }

  toJSON(): readonly Item[] {
    return this.createItems(0, this.length)
  }

  /** Yields the JSON of the list in chunks, without the brackets. Yields to the event loop between chunks. */
  async *chunks(): AsyncGenerator<Buffer> {
    const cache = this.#cacheOf()
    for (let from = 0; from < this.length; from += this.#chunkLength) {
      const to = Math.min(from + this.#chunkLength, this.length)
      yield cache?.get(from) ?? this.#serialize(from, to, cache)
      await ownTurn()
    }
  }

  #serialize(from: number, to: number, cache: SerializedParts | undefined): Buffer {
    const text = JSON.stringify(this.createItems(from, to)).slice(1, -1)
    const chunk = Buffer.from(from === 0 ? text : `,${text}`)
    cache?.set(from, chunk)
    return chunk
  }
}

/**
 * The JSON of an envelope as a stream with backpressure, if its `data`, or the `content` of that, is a long
 * `StreamedArray`. Undefined for other envelopes.
 */
export function streamEnvelope(envelope: Envelope): Readable | undefined {
  const { data } = envelope
  const isWhole = data instanceof StreamedArray
  const content = isWhole ? data : ((data ?? {}) as { readonly content?: unknown }).content
  if (!(content instanceof StreamedArray) || !content.isLong) return undefined
  const frame = JSON.stringify({ ...envelope, data: isWhole ? [] : { ...(data as object), content: [] } })
  // The match is unique: quotes within a string would be escaped.
  const key = isWhole ? '"data":[' : '"content":['
  const splitIndex = frame.indexOf(key) + key.length
  const chunks = async function* () {
    yield frame.slice(0, splitIndex)
    yield* content.chunks()
    yield frame.slice(splitIndex)
  }
  return Readable.from(chunks(), { objectMode: false })
}
