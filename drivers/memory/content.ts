<<<<<<< HEAD
import type { ByteRange } from '../../src/driver.js'

const blockSize = 64 * 1024

/** The bytes of a file in blocks of one size; a missing block is all zeros. */
export class Content {
  #blocks: (Buffer | undefined)[] = []
  /** Blocks that no copy holds: these may be written in place. */
  readonly #owned = new Set<number>()
=======
/** Bytes that grow and change at any position, kept in blocks so that a file is never moved as a whole. */
const blockSize = 256 * 1024

export class Content {
  #blocks: Buffer[] = []
>>>>>>> drivers
  #size = 0

  get size(): number {
    return this.#size
  }

<<<<<<< HEAD
  /** The same bytes, sharing blocks until either changes one. */
  copy(): Content {
    const copy = new Content()
    copy.#blocks = [...this.#blocks]
    copy.#size = this.#size
    this.#owned.clear()
    return copy
  }

  write(bytes: Buffer, position: number): void {
    for (let done = 0; done < bytes.length;) {
      const at = position + done
      const offset = at % blockSize
      const length = Math.min(bytes.length - done, blockSize - offset)
      bytes.copy(this.#own(Math.floor(at / blockSize)), offset, done, done + length)
      done += length
    }
    this.#size = Math.max(this.#size, position + bytes.length)
  }

  /** The block, to be written in place. */
  #own(index: number): Buffer {
    const old = this.#blocks[index]
    if (old && this.#owned.has(index)) return old
    const block = old ? Buffer.from(old) : Buffer.alloc(blockSize)
    this.#blocks[index] = block
    this.#owned.add(index)
    return block
  }

  truncate(size: number): void {
    if (size < this.#size) {
      const whole = Math.ceil(size / blockSize)
      this.#blocks.length = Math.min(this.#blocks.length, whole)
      for (const index of this.#owned) if (index >= whole) this.#owned.delete(index)
      const rest = size % blockSize
      if (rest > 0 && this.#blocks[whole - 1]) this.#own(whole - 1).fill(0, rest)
    }
    this.#size = size
  }

  /** Fills `into` from `position`; the bytes there were. */
  fill(into: Buffer, position: number): number {
    const length = Math.max(0, Math.min(into.length, this.#size - position))
    for (let done = 0; done < length;) {
      const at = position + done
      const offset = at % blockSize
      const part = Math.min(length - done, blockSize - offset)
      const block = this.#blocks[Math.floor(at / blockSize)]
      if (block) block.copy(into, done, offset, offset + part)
      else into.fill(0, done, done + part)
      done += part
=======
  read(into: Buffer, position: number): number {
    const length = Math.max(0, Math.min(into.length, this.#size - position))
    for (let done = 0; done < length;) {
      const at = position + done
      const block = this.#blocks[Math.floor(at / blockSize)]
      const offset = at % blockSize
      const bytes = Math.min(blockSize - offset, length - done)
      if (block) block.copy(into, done, offset, offset + bytes)
      else into.fill(0, done, done + bytes)
      done += bytes
>>>>>>> drivers
    }
    return length
  }

<<<<<<< HEAD
  /** The range as it is now, whatever becomes of the file. */
  read(range: ByteRange = { offset: 0 }): Generator<Buffer> {
    return this.copy().#pieces(range)
  }

  *#pieces({ offset, length = this.#size }: ByteRange): Generator<Buffer> {
    const end = Math.min(this.#size, offset + length)
    for (let at = offset; at < end; at += blockSize) {
      const bytes = Buffer.allocUnsafe(Math.min(blockSize, end - at))
      this.fill(bytes, at)
      yield bytes
    }
=======
  write(from: Buffer, position: number): void {
    for (let done = 0; done < from.length;) {
      const at = position + done
      const index = Math.floor(at / blockSize)
      const offset = at % blockSize
      const block = (this.#blocks[index] ??= Buffer.alloc(blockSize))
      done += from.copy(block, offset, done, done + blockSize - offset)
    }
    this.#size = Math.max(this.#size, position + from.length)
  }

  truncate(size: number): void {
    if (size < this.#size) {
      this.#blocks = this.#blocks.slice(0, Math.ceil(size / blockSize))
      this.#blocks[Math.floor(size / blockSize)]?.fill(0, size % blockSize)
    }
    this.#size = size
  }

  clone(): Content {
    const copy = new Content()
    copy.#blocks = this.#blocks.map((block) => Buffer.from(block))
    copy.#size = this.#size
    return copy
>>>>>>> drivers
  }
}
