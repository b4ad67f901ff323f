/** Streaming JSON serialization of long lists. */
import { Readable } from 'node:stream'
import { ownTurn } from '../../../src/base/pauses.js'
import type { Envelope } from './envelope.js'
import type { SerializedPart, SerializedParts } from '../../../src/tree/virtual-fs.js'

export interface StreamedArrayOptions<Item extends object> {
  /** The number of items that are serialized without yielding to the event loop: fewer if they are large. */
  readonly chunkLength?: number
  /** Returns the cache of the JSON of the items. */
  readonly cacheOf?: () => SerializedParts | undefined
  /** Where the JSON of the items is cached as that of another list, which has others too. */
  readonly excerpt?: Excerpt<Item>
}

interface Excerpt<Item extends object> {
  readonly whole: StreamedArray<Item>
  /**
   * Returns a function that returns the index in `whole` of the item at an index; undefined if it does not have the
   * item. The indexes that it is asked for never decrease, nor those that it returns.
   */
  readonly placesOf: () => (index: number) => number | undefined
}

/** A list whose items are created while it is serialized. `JSON.stringify` writes it as an array. */
export class StreamedArray<Item extends object> {
  readonly #chunkLength: number
  readonly #cacheOf: () => SerializedParts | undefined
  readonly #excerpt: Excerpt<Item> | undefined

  /** `createItems` creates the items from one index (inclusive) to another (exclusive). */
  constructor(
    readonly length: number,
    private readonly createItems: (from: number, to: number) => readonly Item[],
    { chunkLength = 1000, cacheOf = () => undefined, excerpt }: StreamedArrayOptions<Item> = {},
  ) {
    this.#chunkLength = chunkLength
    this.#cacheOf = cacheOf
    this.#excerpt = excerpt
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
    const jsonOf = this.#excerpt && this.#cutter(this.#excerpt)
    for (let from = 0; from < this.length; from += this.#chunkLength) {
      yield jsonOf?.(from) ?? this.#part(from, cache).bytes
      await ownTurn()
    }
  }

  /** The JSON of a chunk, with a comma before it unless it is the first. */
  #part(from: number, cache: SerializedParts | undefined): SerializedPart {
    const cached = cache?.get(from)
    if (cached) return cached
    const text = JSON.stringify(this.createItems(from, this.#endOf(from))).slice(1, -1)
    const part = { bytes: Buffer.from(from === 0 ? text : `,${text}`) }
    cache?.set(from, part)
    return part
  }

  /** Like `#part`, with the offsets of the items. */
  #partOfItems(from: number, cache: SerializedParts): SerializedPart {
    const cached = cache.get(from)
    if (cached?.offsets) return cached
    const texts = this.createItems(from, this.#endOf(from)).map((item) => JSON.stringify(item))
    const lead = from === 0 ? '' : ','
    let offset = lead.length
    const offsets = Uint32Array.of(offset, ...texts.map((text) => (offset += Buffer.byteLength(text) + 1)))
    const part = { bytes: Buffer.from(lead + texts.join(',')), offsets }
    cache.set(from, part)
    return part
  }

  #endOf(from: number): number {
    return Math.min(from + this.#chunkLength, this.length)
  }

  /** Returns a function that cuts a chunk out of the cached JSON of another list; undefined if that is not cached. */
  #cutter({ whole, placesOf }: Excerpt<Item>): ((from: number) => Buffer) | undefined {
    const cache = whole.#cacheOf()
    if (cache === undefined) return undefined
    const placeOf = placesOf()
    let part: (SerializedPart & { readonly from: number }) | undefined
    /** The JSON of items of one chunk that follow each other. */
    const cached = (place: number, count: number): Buffer => {
      const at = place % whole.#chunkLength
      if (part?.from !== place - at) part = { from: place - at, ...whole.#partOfItems(place - at, cache) }
      const { bytes, offsets = [] } = part
      return bytes.subarray(offsets[at], (offsets[at + count] ?? NaN) - 1)
    }
    const own = (index: number) => Buffer.from(JSON.stringify(this.createItems(index, index + 1)).slice(1, -1))
    return (from) => {
      const pieces: Buffer[] = []
      const end = this.#endOf(from)
      for (let index = from, count = 1; index < end; index += count, count = 1) {
        const place = placeOf(index)
        if (index > 0) pieces.push(comma)
        if (place === undefined) {
          pieces.push(own(index))
          continue
        }
        const follows = () => index + count < end && (place + count) % whole.#chunkLength !== 0
        while (follows() && placeOf(index + count) === place + count) count++
        pieces.push(cached(place, count))
      }
      return Buffer.concat(pieces)
    }
  }
}

const comma = Buffer.from(',')

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
