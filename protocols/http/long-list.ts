/** Lists too long to be written in one go. */
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Envelope } from './envelope.js'
import type { KeptParts } from './written-lists.js'

/** Items that are written in one go. */
const itemsAtOnce = 1000

/** A list whose items are made as they are written. In JSON it is the list of them. */
export class LongList<Item extends object> {
  /** `part` makes the items from one index up to another. `kept`: what was written of them before. */
  constructor(
    readonly length: number,
    private readonly part: (from: number, to: number) => readonly Item[],
    private readonly kept?: KeptParts,
  ) {}

  toJSON(): readonly Item[] {
    return this.part(0, this.length)
  }

  /** The JSON texts of the list, without its brackets. Between two of them others get their turn. */
  async *pieces(): AsyncGenerator<Buffer> {
    for (let from = 0; from < this.length; from += itemsAtOnce) {
      const to = Math.min(from + itemsAtOnce, this.length)
      yield this.kept?.get(from, to) ?? this.#written(from, to)
      await turn()
    }
  }

  #written(from: number, to: number): Buffer {
    const text = JSON.stringify(this.part(from, to)).slice(1, -1)
    const piece = Buffer.from(from === 0 ? text : `,${text}`)
    this.kept?.keep(from, to, piece)
    return piece
  }
}

/**
 * The JSON of an envelope whose data holds a long list as `content`, as a stream: written as fast as the client takes it, and
 * never in memory as a whole. Undefined for every other envelope.
 */
export function streamed({ data, ...rest }: Envelope): Readable | undefined {
  const { content } = (data ?? {}) as { readonly content?: unknown }
  if (!(content instanceof LongList) || content.length <= itemsAtOnce) return undefined
  const frame = JSON.stringify({ ...rest, data: { ...(data as object), content: [] } })
  // Within a text its quotes would be escaped.
  const middle = frame.indexOf('"content":[') + '"content":['.length
  const pieces = async function* () {
    yield frame.slice(0, middle)
    yield* content.pieces()
    yield frame.slice(middle)
  }
  return Readable.from(pieces(), { objectMode: false })
}
