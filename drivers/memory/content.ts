/** File content in memory, in blocks, so that growing it does not copy the whole file. */
const blockSize = 256 * 1024

export class Content {
  /** By block number. Blocks that were never written are absent and read as zeros. */
  readonly #blocks = new Map<number, Buffer>()
  #size = 0

  get size(): number {
    return this.#size
  }

  read(into: Buffer, position: number): number {
    const length = Math.max(0, Math.min(into.length, this.#size - position))
    for (let done = 0; done < length;) {
      const at = position + done
      const block = this.#blocks.get(Math.floor(at / blockSize))
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
      const block = this.#blocks.get(index) ?? Buffer.alloc(blockSize)
      this.#blocks.set(index, block)
      done += from.copy(block, offset, done, done + blockSize - offset)
    }
    this.#size = Math.max(this.#size, position + from.length)
  }

  truncate(size: number): void {
    if (size < this.#size) {
      for (const index of this.#blocks.keys()) if (index * blockSize >= size) this.#blocks.delete(index)
      this.#blocks.get(Math.floor(size / blockSize))?.fill(0, size % blockSize)
    }
    this.#size = size
  }

  clone(): Content {
    const copy = new Content()
    for (const [index, block] of this.#blocks) copy.#blocks.set(index, Buffer.from(block))
    copy.#size = this.#size
    return copy
  }
}
