/** Bytes that grow and change at any position, kept in blocks so that a file is never moved as a whole. */
const blockSize = 256 * 1024

export class Content {
  #blocks: Buffer[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

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
    }
    return length
  }

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
  }
}
