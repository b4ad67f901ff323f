/** The downloads of archives that are running: how many there are, and how much memory they hold. */
import { GatewayError } from '../../src/contract/errors.js'

/** Running downloads of one user, and of all. */
const maxPerUser = 4
const maxRunning = 16
/**
 * Bytes of the directories of all running archives, which are at their ends: about 500,000 files. One archive may use
 * half of it.
 */
const maxDirectories = 128 * 1024 * 1024

/** A running download. */
export interface ZipDownload {
  /** Counts bytes that are held until the end. Throws `too_large` if a limit is exceeded. */
  reserve(bytes: number): void
  /** Must be called at the end. */
  end(): void
}

export class ZipDownloads {
  /** By the id of the user. */
  readonly #running = new Map<number, number>()
  #count = 0
  #held = 0

  /** Throws `throttled` if too many are running. */
  begin(userId: number): ZipDownload {
    const own = this.#running.get(userId) ?? 0
    if (own >= maxPerUser || this.#count >= maxRunning) {
      throw new GatewayError('throttled', { reason: 'too many archives are being downloaded', retryAfter: 10 })
    }
    this.#running.set(userId, own + 1)
    this.#count++
    let held = 0
    return {
      reserve: (bytes) => {
        if (held + bytes > maxDirectories / 2 || this.#held + bytes > maxDirectories) {
          throw new GatewayError('too_large', { reason: 'too many files for an archive' })
        }
        held += bytes
        this.#held += bytes
      },
      end: () => {
        const left = (this.#running.get(userId) ?? 0) - 1
        if (left > 0) this.#running.set(userId, left)
        else this.#running.delete(userId)
        this.#count--
        this.#held -= held
      },
    }
  }
}
