/** The downloads of archives that are running: how many there are, and how much memory they hold. */
import { GatewayError } from '../../../src/base/errors.js'
import { FairShare, type Holder, type Release } from '../../../src/base/fair-share.js'
import type { ZipDownload } from '../api/http-api.js'

/** Maximum numbers of running downloads: of one user, and of all. */
const maxPerUser = 4
const maxRunning = 16
/** Maximum bytes of the directories of all running archives, which are at their ends: about 500,000 files. */
const maxDirectories = 128 * 1024 * 1024
/** Bytes of directories that an archive takes at a time. */
const directoryStep = 1024 * 1024

export class ZipDownloads {
  readonly #running = new FairShare(maxRunning, {
    most: maxPerUser,
    code: 'throttled',
    reason: 'too many archives are being downloaded',
    retryAfter: 10,
  })
  readonly #directories = new FairShare(maxDirectories)

  /** Throws `throttled` if too many are running. */
  begin(holder: Holder): ZipDownload {
    const releases: Release[] = [this.#running.take(holder)]
    let free = 0
    return {
      reserve: (bytes) => {
        try {
          for (; free < bytes; free += directoryStep) releases.push(this.#directories.take(holder, directoryStep))
        } catch (error) {
          throw new GatewayError('too_large', { reason: 'too many files for an archive', cause: error })
        }
        free -= bytes
      },
      end: () => {
        for (const release of releases) release()
      },
    }
  }
}
