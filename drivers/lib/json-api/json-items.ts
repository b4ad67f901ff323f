/**
 * Reads a JSON document with one long list while it arrives, such as a listing: the items of the list are handed out in
 * batches, so that neither memory nor the time of one step grows with the list.
 */
import { GatewayError } from '../../../src/base/errors.js'
import { parseJson } from './lenient.js'

/** Maximum number of bytes of one item, and of everything outside of the list. */
const maxText = 8 * 1024 * 1024

/** The bytes of JSON's structure; all others are ASCII-incompatible or content. */
const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/**
 * Yields the items of the list that the keys of `path` lead to, as they arrive. Returns the document with an empty list
 * in its place. Throws `unavailable` if the document is not JSON, or ends early, or if one of its parts is too long.
 * Errors of the body are passed on.
 */
export async function* readItems(
  body: AsyncIterable<Buffer>,
  path: readonly string[],
): AsyncGenerator<readonly unknown[], unknown> {
  const scanner = new Scanner(path)
  for await (const chunk of body) {
    const items = scanner.scan(chunk)
    if (items.length > 0) yield items
  }
  return scanner.document()
}

class Scanner {
  /** The text outside of the list. */
  readonly #outside = new Text()
  /** The text of the current item; undefined outside of the list. */
  #item: Text | undefined
  /** Number of open objects and lists. */
  #depth = 0
  /** Number of keys of the path that lead to the innermost open object. */
  #matched = 0
  /** The depth within the list; 0 outside of it. */
  #listDepth = 0
  #isInString = false
  #isEscaped = false
  /** The text of a string at the depth of the next key; it is the key if a colon follows. */
  #string: Text | undefined
  #key: string | undefined

  constructor(private readonly path: readonly string[]) {}

  /** Returns the items that end in this chunk. */
  scan(chunk: Buffer): readonly unknown[] {
    const items: unknown[] = []
    /** Where the bytes begin that belong to the current text. */
    let from = 0
    let stringFrom = 0
    const text = () => this.#item ?? this.#outside
    const finishItem = (end: number) => {
      this.#item?.add(chunk.subarray(from, end))
      const item = this.#item?.take() ?? ''
      if (item.trim() !== '') items.push(parse(item))
      from = end
    }
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (byte === backslash) this.#isEscaped = true
        else if (byte === quote) {
          this.#isInString = false
          this.#string?.add(chunk.subarray(stringFrom, at + 1))
        }
        continue
      }
      switch (byte) {
        case quote:
          this.#isInString = true
          this.#string = this.#depth === this.#matched + 1 && this.#listDepth === 0 ? new Text() : undefined
          stringFrom = at
          break
        case colon:
          if (this.#depth === this.#matched + 1 && this.#string) this.#key = String(parse(this.#string.take()))
          this.#string = undefined
          break
        case comma:
          if (this.#depth === this.#matched + 1) this.#key = undefined
          if (this.#listDepth > 0 && this.#depth === this.#listDepth) {
            finishItem(at)
            from = at + 1
          }
          break
        case openBrace:
        case openBracket: {
          const isOnPath =
            this.#listDepth === 0 && this.#depth === this.#matched + 1 && this.#key === this.path[this.#matched]
          this.#depth++
          if (!isOnPath || this.#key === undefined) break
          const isLast = this.#matched + 1 === this.path.length
          if (byte === openBrace && !isLast) {
            this.#matched++
            this.#key = undefined
          } else if (byte === openBracket && isLast) {
            text().add(chunk.subarray(from, at + 1))
            from = at + 1
            this.#listDepth = this.#depth
            this.#item = new Text()
          }
          break
        }
        case closeBrace:
        case closeBracket:
          if (this.#listDepth > 0 && this.#depth === this.#listDepth) {
            finishItem(at)
            this.#item = undefined
            this.#listDepth = 0
          }
          this.#depth--
          this.#matched = Math.max(0, Math.min(this.#matched, this.#depth - 1))
          this.#key = undefined
          break
      }
    }
    if (this.#isInString) this.#string?.add(chunk.subarray(stringFrom))
    text().add(chunk.subarray(from))
    return items
  }

  document(): unknown {
    if (this.#listDepth > 0 || this.#depth > 0 || this.#isInString) throw malformed('ends early')
    return parse(this.#outside.take())
  }
}

/** Text that arrives in pieces of bytes. */
class Text {
  #pieces: Buffer[] = []
  #size = 0

  add(piece: Buffer): void {
    if (piece.length === 0) return
    this.#size += piece.length
    if (this.#size > maxText) throw malformed('is too long')
    this.#pieces.push(piece)
  }

  take(): string {
    const text = Buffer.concat(this.#pieces).toString()
    this.#pieces = []
    this.#size = 0
    return text
  }
}

function parse(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    throw malformed('is not JSON')
  }
}

function malformed(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the answer of the server ${what}` })
}
