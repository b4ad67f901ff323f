/**
 * Reads the objects of a list from a JSON document `{"name": [{…}, …]}` while it arrives. A listing of 50,000 entries has
 * nine megabytes: parsed at once, it would hold up everything else.
 */
import { GatewayError } from '../../src/contract/errors.js'

/** Bytes of one object. */
const maxObject = 1024 * 1024

const [quote, backslash, openBrace, closeBrace, openBracket, closeBracket] = Buffer.from('"\\{}[]')

/** Depth of the objects: within the document and the list. */
const depthOfList = 2

/** Yields the objects that end in each chunk. Rejects with `unavailable` if the document is malformed or truncated. */
export async function* readJsonList(body: AsyncIterable<Buffer>): AsyncGenerator<readonly unknown[]> {
  const reader = new JsonListReader()
  for await (const chunk of body) {
    const objects = reader.read(chunk)
    if (objects.length > 0) yield objects
  }
  reader.end()
}

class JsonListReader {
  #depth = 0
  #isInString = false
  #isEscaped = false
  #hasBegun = false
  /** The beginning of an object that continues in the next chunk. */
  #parts: Buffer[] = []
  #size = 0

  read(chunk: Buffer): unknown[] {
    const objects: unknown[] = []
    let start = this.#parts.length > 0 ? 0 : -1
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false
        else if (byte === backslash) this.#isEscaped = true
        else if (byte === quote) this.#isInString = false
      } else if (byte === quote) {
        this.#isInString = true
      } else if (byte === openBrace || byte === openBracket) {
        if (this.#depth === depthOfList && byte === openBrace) start = at
        this.#depth++
        this.#hasBegun = true
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#depth--
        if (this.#depth === depthOfList && start >= 0) {
          objects.push(this.#parsed(chunk.subarray(start, at + 1)))
          start = -1
        }
      }
    }
    if (start >= 0) this.#hold(chunk.subarray(start))
    return objects
  }

  end(): void {
    if (!this.#hasBegun || this.#depth !== 0 || this.#parts.length > 0) throw malformed()
  }

  #hold(part: Buffer): void {
    this.#parts.push(part)
    this.#size += part.length
    if (this.#size > maxObject) throw malformed()
  }

  #parsed(last: Buffer): unknown {
    const text = Buffer.concat([...this.#parts, last]).toString()
    this.#parts = []
    this.#size = 0
    try {
      return JSON.parse(text)
    } catch (error) {
      throw malformed(error)
    }
  }
}

function malformed(cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { reason: 'rclone sent an invalid or truncated listing', cause })
}
