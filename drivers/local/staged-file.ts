/** A file that is written aside until it is whole, and how it takes its name then. */
import { constants, type BigIntStats } from 'node:fs'
import { GatewayError } from '../../src/errors.js'
import { patientCalls, writeAll, type Calls } from './calls.js'
import { systemCode, translated } from './errors.js'
import { syncFile } from './places.js'
import type { Place } from './root-folder.js'
import type { Stay } from './stays.js'

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants

/** A file without a name yet. Whoever made it either publishes or discards it. */
export interface Staged {
  /** By which a later run finds it, if it is left. */
  readonly token: string
  readonly fd: number
  readonly calls: Calls
  /** What to call it by. */
  readonly at: string
  /** Aborted by whoever asked for the file, or when the storage closes: it is to be released soon then. */
  readonly stay: Pick<Stay, 'aborted' | 'signal' | 'onAbort'>
  /** Takes the name of `place`, over a file there; with `createOnly` only if the name is free. Resolves to its status then. */
  publish(place: Place, createOnly: boolean): Promise<BigIntStats>
  /** Closes it, and removes it unless it was published. */
  release(): Promise<void>
  /** Resolves when all of it is on the medium. Rejects ever after where it could not be brought there: the system says so once. */
  sync(): Promise<void>
  /** Closes it, and leaves it to whoever has its token. False: the disk failed to take what was written, and nothing is left. */
  leave(): Promise<boolean>
}

/** Where else a file is put that turns out to be on the wrong file system. */
export interface CopiesBeside {
  /** A copy beside `place`. */
  copyBeside(staged: Staged, place: Place): Promise<Staged>
}

/** A staged file that is open. */
export interface StagedParts {
  readonly fd: number
  readonly calls: Calls
  readonly at: string
  readonly token: string
  /** Lets go of the folder that it is staged in. `isLeft`: the file stays. */
  letGo(isLeft: boolean): void | Promise<void>
}

export class StagedFile implements Staged {
  readonly token: string
  readonly fd: number
  readonly calls: Calls
  readonly at: string
  #published = false
  #ended = false
  /** Of the disk, which tells of it once. */
  #failure: GatewayError | undefined

  constructor(
    private readonly staging: CopiesBeside,
    private readonly parts: StagedParts,
    readonly stay: Stay,
  ) {
    ;({ token: this.token, fd: this.fd, calls: this.calls, at: this.at } = parts)
  }

  async publish(place: Place, createOnly: boolean): Promise<BigIntStats> {
    try {
      await this.#take(place, createOnly)
      return await this.calls.fstat(this.fd)
    } catch (error) {
      if (systemCode(error) === 'ENOENT' && (await this.calls.fstat(this.fd)).nlink === 0n) {
        throw new GatewayError('busy', { reason: 'somebody removed what was staged', cause: error })
      }
      if (systemCode(error) !== 'EXDEV') throw error
    }
    // One device may be mounted twice, and a folder may have been moved to another one since.
    const copy = await this.staging.copyBeside(this, place)
    try {
      return await copy.publish(place, createOnly)
    } finally {
      await copy.release()
    }
  }

  async #take(place: Place, createOnly: boolean): Promise<void> {
    if (createOnly) {
      await takeFreeName(this.at, place)
      await unlinkIfThere(this.calls, this.at)
    } else {
      await place.calls.rename(this.at, place.at)
    }
    this.#published = true
  }

  release(): Promise<void> {
    return this.#end(false)
  }

  async leave(): Promise<boolean> {
    if (this.#ended) return true
    // Of what was stopped the disk is not asked, which may take a while: who goes on with it asks.
    if (!this.stay.aborted) await this.sync().catch(() => undefined)
    const isSound = this.#failure === undefined
    return this.#end(isSound).then(
      () => isSound,
      () => false,
    )
  }

  async sync(): Promise<void> {
    if (this.#failure) throw this.#failure
    try {
      await syncFile(this.fd)
    } catch (error) {
      this.#failure = translated(error)
      throw this.#failure
    }
  }

  async #end(isLeft: boolean): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    try {
      if (!isLeft && !this.#published) await unlinkIfThere(this.calls, this.at)
    } finally {
      try {
        await this.calls.close(this.fd)
        await this.parts.letGo(isLeft)
      } finally {
        this.stay.leave()
      }
    }
  }
}

/** A rename would take the name from whoever got it first; a second name for the same file cannot. */
async function takeFreeName(at: string, place: Place): Promise<void> {
  try {
    await place.calls.link(at, place.at)
  } catch (error) {
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'].includes(systemCode(error) ?? '')) throw error
    // File systems without hard links: an empty file takes the name, and at once the whole one takes its place.
    const fd = await place.calls.open(place.at, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    await place.calls.close(fd)
    await place.calls.rename(at, place.at)
  }
}

export async function unlinkIfThere(calls: Calls, at: string): Promise<void> {
  try {
    await calls.unlink(at)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
  }
}

const copyChunk = 1024 * 1024

/** All bytes of one open file into another one, which is empty. */
export async function copyBytes(from: number, to: number, signal?: AbortSignal): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(copyChunk)
  for (let position = 0; ;) {
    if (signal?.aborted) throw new GatewayError('aborted')
    const bytes = await patientCalls.read(from, buffer, 0, copyChunk, position)
    if (bytes === 0) return
    await writeAll(patientCalls, to, [buffer.subarray(0, bytes)], position)
    position += bytes
  }
}
