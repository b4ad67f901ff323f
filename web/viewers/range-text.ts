/** A text of any size, read in blocks of whole lines. */
import { encodingOf, type Encoding } from '../preview/encoding.ts'
import { readPart } from './read-part.ts'

/** Bytes of a block at most. */
export const blockSize = 2 ** 16

export interface Block {
  /** The bytes of the file that it has. */
  readonly start: number
  readonly end: number
  readonly text: string
}

export class RangeText {
  readonly #url: string
  readonly #encoding: Encoding
  readonly first: Block
  #size: number

  private constructor(url: string, encoding: Encoding, first: Block, size: number) {
    this.#url = url
    this.#encoding = encoding
    this.first = first
    this.#size = size
  }

  /** Rejects if the file cannot be read. */
  static async open(url: string, signal: AbortSignal): Promise<RangeText> {
    const { bytes, size } = await readPart(url, 0, blockSize, signal)
    const encoding = encodingOf(bytes, bytes.length === size)
    return new RangeText(url, encoding, blockOf(bytes, 0, size, encoding), size)
  }

  /** The size of the file in bytes, when something of it was read last: a log grows. */
  get size(): number {
    return this.#size
  }

  /** The block that begins where another one ends; undefined at the end of the file. */
  async after(end: number, signal: AbortSignal, length = blockSize): Promise<Block | undefined> {
    const { bytes, size } = await readPart(this.#url, end, length, signal)
    this.#size = size
    return bytes.length === 0 ? undefined : blockOf(bytes, end, size, this.#encoding)
  }

  /** The block that ends where another one begins; undefined at the start of the file. */
  async before(start: number, signal: AbortSignal): Promise<Block | undefined> {
    if (start === 0) return undefined
    const first = evenOf(Math.max(0, start - blockSize))
    const { bytes } = await readPart(this.#url, first, start - first, signal)
    const skipped = first === 0 ? 0 : startOfLine(bytes, this.#encoding)
    return decoded(bytes.subarray(skipped), first + skipped, this.#encoding)
  }

  /** The block that begins with the first line after this place, or the last one of the file. */
  async at(place: number, signal: AbortSignal): Promise<Block | undefined> {
    if (place <= 0) return this.first
    if (place >= this.#size) return this.before(this.#size, signal)
    const start = evenOf(place)
    const { bytes, size } = await readPart(this.#url, start, blockSize, signal)
    this.#size = size
    const skipped = startOfLine(bytes, this.#encoding)
    return blockOf(bytes.subarray(skipped), start + skipped, size, this.#encoding)
  }

  /** Bytes of a text in the encoding of the file. */
  lengthOf(text: string): number {
    if (this.#encoding === 'utf-8') return new TextEncoder().encode(text).length
    return this.#encoding === 'latin1' ? text.length : 2 * text.length
  }
}

/** Characters of UTF-16 begin at even places. */
function evenOf(place: number): number {
  return place - (place % 2)
}

function blockOf(bytes: Uint8Array, start: number, size: number, encoding: Encoding): Block {
  const isLast = start + bytes.length >= size
  return decoded(isLast ? bytes : bytes.subarray(0, endOfLine(bytes, encoding)), start, encoding)
}

function decoded(bytes: Uint8Array, start: number, encoding: Encoding): Block {
  return { start, end: start + bytes.length, text: new TextDecoder(encoding).decode(bytes) }
}

/** Whether a line ends with the character at `index`: one byte, or two. */
function isLineEnd(bytes: Uint8Array, index: number, encoding: Encoding): boolean {
  if (encoding === 'utf-16le') return bytes[index] === 0x0a && bytes[index + 1] === 0
  if (encoding === 'utf-16be') return bytes[index] === 0 && bytes[index + 1] === 0x0a
  return bytes[index] === 0x0a
}

function widthOf(encoding: Encoding): number {
  return encoding.startsWith('utf-16') ? 2 : 1
}

/** How many of the bytes are whole lines or, if they have no end of a line, whole characters. */
export function endOfLine(bytes: Uint8Array, encoding: Encoding): number {
  const width = widthOf(encoding)
  for (let index = bytes.length - (bytes.length % width) - width; index >= 0; index -= width) {
    if (isLineEnd(bytes, index, encoding)) return index + width
  }
  if (encoding !== 'utf-8') return Math.max(width, evenOf(bytes.length))
  let last = bytes.length - 1
  while (last > 0 && bytes.length - last < 4 && isContinuation(bytes[last])) last--
  return last === 0 || last + lengthFrom(bytes[last] ?? 0) <= bytes.length ? bytes.length : last
}

/** How many bytes are before the second line or, if they have one line, before its first whole character. */
export function startOfLine(bytes: Uint8Array, encoding: Encoding): number {
  const width = widthOf(encoding)
  for (let index = 0; index + width < bytes.length; index += width) {
    if (isLineEnd(bytes, index, encoding)) return index + width
  }
  let first = 0
  while (encoding === 'utf-8' && first < 3 && isContinuation(bytes[first])) first++
  return first
}

/** The bytes of a character of UTF-8 that begins with this one. */
function lengthFrom(byte: number): number {
  if (byte < 0xc0) return 1
  if (byte < 0xe0) return 2
  return byte < 0xf0 ? 3 : 4
}

/** Whether it is a byte of a character of UTF-8 after its first one. */
function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}
