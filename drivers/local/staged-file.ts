/** Staged files, and how they get their final names. */
import { constants, type BigIntStats } from 'node:fs'
import { GatewayError } from '../../src/base/errors.js'
import { systemCode, translateError } from './errors.js'
import type { Location } from './root-folder.js'
import type { RunningCall } from './running-calls.js'
import { asyncSyscalls, syncFile, writeAll, type Syscalls } from './syscalls.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/** The place where the file is staged. */
interface Staging {
  /** `DriverEnv.assertCurrent`. */
  readonly assertCurrent: () => void
  /** Copies a file that turns out to be on the wrong file system to the folder of `location`. */
  copyToSibling(staged: StagedFile, location: Location): Promise<StagedFile>
}

export interface StagedFileOptions {
  readonly fd: number
  readonly calls: Syscalls
  /** The path to pass to system calls. */
  readonly at: string
  /** Identifies the file to a later run, if it is retained. */
  token(): string
  /** Closes the folder that contains the file. `isRetained`: the file is retained. */
  closeFolder(isRetained: boolean): void | Promise<void>
}

/** A file without its final name. The owner either publishes or releases it. */
export class StagedFile {
  readonly fd: number
  readonly calls: Syscalls
  readonly #at: string
  #isPublished = false
  #isClosed = false
  /** The first flush error. The system reports it only once. */
  #failure: GatewayError | undefined

  constructor(
    private readonly staging: Staging,
    private readonly options: StagedFileOptions,
    /** Aborted by the caller, or when the storage closes. The owner then releases the file. */
    readonly running: RunningCall,
  ) {
    ;({ fd: this.fd, calls: this.calls, at: this.#at } = options)
  }

  get token(): string {
    return this.options.token()
  }

  /**
   * Gives the file the name of `location` and replaces a file there. With `createOnly`, rejects with the EEXIST of the
   * system if the name is taken. Resolves to the status of the file.
   */
  async publish(location: Location, createOnly: boolean): Promise<BigIntStats> {
    try {
      await this.#takeName(location, createOnly)
      return await this.calls.fstat(this.fd)
    } catch (error) {
      if (systemCode(error) === 'ENOENT' && (await this.calls.fstat(this.fd)).nlink === 0n) {
        throw new GatewayError('busy', { reason: 'the staged file was removed by another program', cause: error })
      }
      if (systemCode(error) !== 'EXDEV') throw error
    }
    // EXDEV is possible although the devices matched: a device can be mounted twice (rename(2)), and a folder can be
    // moved to another file system.
    const copy = await this.staging.copyToSibling(this, location)
    try {
      return await copy.publish(location, createOnly)
    } finally {
      await copy.release()
    }
  }

  async #takeName(location: Location, createOnly: boolean): Promise<void> {
    this.staging.assertCurrent()
    if (createOnly) {
      await hardLinkToFreeName(this.#at, location)
      await unlinkIfExists(this.calls, this.#at)
    } else {
      await location.calls.rename(this.#at, location.at)
    }
    this.#isPublished = true
  }

  /** Closes the file, and removes it unless it was published. */
  release(): Promise<void> {
    return this.#close(false)
  }

  /**
   * Closes the file and retains it for the holder of its token. Resolves to false if the data could not be flushed: the
   * file is then removed.
   */
  async retain(): Promise<boolean> {
    if (this.#isClosed) return true
    // An aborted upload is not flushed, because that may take long. The run that resumes it does that.
    if (!this.running.aborted) await this.sync().catch(() => undefined)
    const isIntact = this.#failure === undefined
    return this.#close(isIntact).then(
      () => isIntact,
      () => false,
    )
  }

  /**
   * Flushes the file to the medium. After one failure every later call rejects too, because the system reports it only
   * once.
   */
  async sync(): Promise<void> {
    if (this.#failure) throw this.#failure
    try {
      await syncFile(this.fd)
    } catch (error) {
      this.#failure = translateError(error)
      throw this.#failure
    }
  }

  async #close(isRetained: boolean): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    try {
      if (!isRetained && !this.#isPublished) await unlinkIfExists(this.calls, this.#at)
    } finally {
      try {
        await this.calls.close(this.fd)
        await this.options.closeFolder(isRetained)
      } finally {
        this.running.end()
      }
    }
  }
}

/** link(2) fails if the name is taken. rename(2) would replace the file. */
async function hardLinkToFreeName(at: string, location: Location): Promise<void> {
  try {
    await location.calls.link(at, location.at)
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(systemCode(error) ?? '')) throw error
    // Without hard links, an empty file reserves the name, and the rename replaces it.
    const fd = await location.calls.open(location.at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    const { ino } = await location.calls.fstat(fd)
    await location.calls.close(fd)
    try {
      await location.calls.rename(at, location.at)
    } catch (renameError) {
      const current = await location.calls.lstat(location.at)
      if (current?.ino === ino && current.size === 0n) await unlinkIfExists(location.calls, location.at)
      throw renameError
    }
  }
}

export async function unlinkIfExists(calls: Syscalls, at: string): Promise<void> {
  try {
    await calls.unlink(at)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
  }
}

const copyChunk = 1024 * 1024

/** Copies all bytes of one open file to another, empty one. */
export async function copyBytes(from: number, to: number, signal?: AbortSignal): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(copyChunk)
  for (let position = 0; ;) {
    if (signal?.aborted) throw new GatewayError('aborted')
    const bytes = await asyncSyscalls.read(from, buffer, 0, copyChunk, position)
    if (bytes === 0) return
    await writeAll(asyncSyscalls, to, [buffer.subarray(0, bytes)], position)
    position += bytes
  }
}
