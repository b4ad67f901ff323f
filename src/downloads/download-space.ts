/**
 * What programs take of the local disk with all their downloads. It may be as much as uploads that wait there leave of
 * `spool_size_limit`; what is kept for ever counts like what is under way. Uploads are not refused for it.
 */
import { GatewayError } from '../errors.js'
import { bytesIn } from './temporary-folders.js'

export interface SpaceParts {
  /** Folders of downloads that lie there now, of whatever age. */
  readonly folders: () => Promise<readonly string[]>
  /** Bytes that all of them may have now. */
  readonly limit: () => number
}

export class DownloadSpace {
  /** By folder: as the programs tell for those under way, and as they were found for the others. */
  readonly #bytes = new Map<string, number>()
  readonly #underWay = new Set<string>()

  constructor(private readonly parts: SpaceParts) {}

  /** Rejects with `no_space` where nothing more may be fetched. */
  async assertRoom(): Promise<void> {
    if (this.parts.limit() === Infinity) return
    const folders = new Set(await this.parts.folders())
    for (const folder of this.#bytes.keys()) {
      if (!folders.has(folder) && !this.#underWay.has(folder)) this.#bytes.delete(folder)
    }
    for (const folder of folders) {
      if (this.#underWay.has(folder)) continue
      const bytes = await bytesIn(folder)
      if (!this.#underWay.has(folder)) this.#bytes.set(folder, bytes)
    }
    this.#assertWithin(1)
  }

  /** For a download that goes into the folder, as long as the work takes; `claim` rejects with `no_space` for more than there is. */
  async during<T>(folder: string, work: (claim: (bytes: number) => void) => Promise<T>): Promise<T> {
    this.#underWay.add(folder)
    // What an earlier run left of this one is its own.
    this.#bytes.delete(folder)
    try {
      await this.assertRoom()
      return await work((bytes) => {
        if (this.parts.limit() === Infinity) return
        this.#bytes.set(folder, bytes)
        this.#assertWithin(0)
      })
    } finally {
      this.#underWay.delete(folder)
    }
  }

  #assertWithin(more: number): void {
    let total = more
    for (const bytes of this.#bytes.values()) total += bytes
    if (total <= this.parts.limit()) return
    const reason =
      'downloads take all of the local disk that they may (spool_size_limit): some that are kept must go first'
    throw new GatewayError('no_space', { reason })
  }
}
