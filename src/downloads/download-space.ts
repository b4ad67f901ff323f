/**
 * The disk space of all downloads by programs. Together with pending uploads they may use `spool_size_limit`. Finished
 * downloads that stay on the disk count like running ones. Uploads are not limited by the space of downloads.
 */
import { GatewayError } from '../contract/errors.js'
import { sizeOfFolder } from './temporary-folders.js'

interface DownloadSpaceOptions {
  /** The existing folders of all downloads. */
  readonly folders: () => Promise<readonly string[]>
  /** The current limit of their total size in bytes. */
  readonly limit: () => number
}

export class DownloadSpace {
  /** Bytes by folder: as claimed for running downloads, as measured for the others. */
  readonly #bytes = new Map<string, number>()
  readonly #running = new Set<string>()

  constructor(private readonly options: DownloadSpaceOptions) {}

  /** Rejects with `no_space` if the limit is reached. */
  async assertSpace(): Promise<void> {
    if (this.options.limit() === Infinity) return
    const folders = new Set(await this.options.folders())
    for (const folder of this.#bytes.keys()) {
      if (!folders.has(folder) && !this.#running.has(folder)) this.#bytes.delete(folder)
    }
    for (const folder of folders) {
      if (this.#running.has(folder)) continue
      const bytes = await sizeOfFolder(folder)
      if (!this.#running.has(folder)) this.#bytes.set(folder, bytes)
    }
    this.#assertWithin(1)
  }

  /**
   * Counts the folder as a running download during `work`. `claim` sets its size, and throws `no_space` above the
   * limit.
   */
  async withClaim<T>(folder: string, work: (claim: (bytes: number) => void) => Promise<T>): Promise<T> {
    this.#running.add(folder)
    // Files of an earlier run belong to this download, which claims them again.
    this.#bytes.delete(folder)
    try {
      await this.assertSpace()
      return await work((bytes) => {
        if (this.options.limit() === Infinity) return
        this.#bytes.set(folder, bytes)
        this.#assertWithin(0)
      })
    } finally {
      this.#running.delete(folder)
    }
  }

  #assertWithin(additional: number): void {
    let total = additional
    for (const bytes of this.#bytes.values()) total += bytes
    if (total <= this.options.limit()) return
    const reason = 'downloads use all the disk space that spool_size_limit allows: delete some of them first'
    throw new GatewayError('no_space', { reason })
  }
}
