/** A search through a text of any size, block by block. */
import type { Block, RangeText } from './range-text.ts'

/** Bytes that are read at once where nothing is shown. */
const pieceSize = 2 ** 20

export interface Match {
  readonly words: string
  readonly block: Block
  /** In the text of the block. */
  readonly index: number
  readonly length: number
}

/** Where a search begins: the blocks that are loaded, and a place in the file, in bytes. */
interface Start {
  readonly blocks: readonly Block[]
  readonly from: number
}

export class TextSearch {
  readonly #text: RangeText
  readonly #words: string
  readonly #pattern: RegExp

  /** Upper and lower case are the same. */
  constructor(text: RangeText, words: string) {
    this.#text = text
    this.#words = words
    this.#pattern = new RegExp(words.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'), 'giu')
  }

  /**
   * The first match after the last one, or from a place, down to the end of the file. `onProgress` gets how much of the
   * file is above the search. Rejects if the file cannot be read.
   */
  async next(
    start: Match | Start,
    onProgress: (share: number) => void,
    signal: AbortSignal,
  ): Promise<Match | undefined> {
    const isMatch = 'block' in start
    const block = isMatch ? start.block : start.blocks.find(({ end }) => end > start.from)
    if (!block) return undefined
    const index = isMatch ? start.index + start.length : this.#indexOf(block, start.from)
    const near = this.#matchIn(block, index)
    if (near) return near
    let end = block.end
    while (end < this.#text.size && !signal.aborted) {
      onProgress(end / this.#text.size)
      const piece = await this.#text.after(end, signal, pieceSize)
      if (!piece) return undefined
      const found = this.#matchIn(piece, 0)
      if (found) return this.#shown(found, signal)
      end = piece.end
    }
    return undefined
  }

  /** The match in the block that will be shown: it begins with a line above the match. */
  async #shown({ block, index }: Match, signal: AbortSignal): Promise<Match | undefined> {
    const before = block.text.slice(0, index)
    const line = before.lastIndexOf('\n', before.lastIndexOf('\n') - 1) + 1
    const start = block.start + this.#text.lengthOf(before.slice(0, line))
    const shown = await this.#text.after(start, signal)
    return shown && this.#matchIn(shown, 0)
  }

  #matchIn(block: Block, from: number): Match | undefined {
    this.#pattern.lastIndex = from
    const found = this.#pattern.exec(block.text)
    return found ? { words: this.#words, block, index: found.index, length: found[0].length } : undefined
  }

  /** The index in the text of the block that is about at a place in the file. */
  #indexOf({ start, end, text }: Block, place: number): number {
    return Math.floor((Math.max(0, place - start) / Math.max(1, end - start)) * text.length)
  }
}
