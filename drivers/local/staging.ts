/**
 * Files that are written aside until they are whole: in `<root>/.tidegate-staging/<instance>/`, from where a rename gives
 * them their name. Where the target folder is on another file system a rename cannot, so there they are written
 * beside their target, under a reserved name that a record in the staging folder tells of.
 */
import { randomBytes } from 'node:crypto'
import { constants, type BigIntStats } from 'node:fs'
import { lstat, readdir, readFile, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverLog, Instance } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { nameOf, parentOf, type Path } from '../../src/path.js'
import { patientCalls, writeAll, type Calls } from './calls.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { isReserved, reservedName, type Place, type RootFolder } from './root-folder.js'
import { Stays, type Stay } from './stays.js'

const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW, O_WRONLY } = constants
const creating = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
const recordSuffix = '.sibling'
/** Milliseconds. */
const abandonedAfter = 24 * 3_600_000
/** Milliseconds that closing waits for what is being staged to end. */
const closingPatience = 3000

/** A file without a name yet. Whoever made it either publishes or discards it. */
export interface Staged {
  readonly fd: number
  readonly calls: Calls
  /** What to call it by. */
  readonly at: string
  /** Aborted by whoever asked for the file, or when the storage closes: it is to be released soon then. */
  readonly signal: AbortSignal
  /** Takes the name of `place`, over a file there; with `createOnly` only if the name is free. Resolves to its status then. */
  publish(place: Place, createOnly: boolean): Promise<BigIntStats>
  /** Closes it, and removes it unless it was published. */
  release(): Promise<void>
}

interface Opened {
  readonly folder: Folder
  readonly device: bigint
}

interface Shared extends Opened {
  readonly opening: Promise<Opened>
}

export class Staging {
  readonly #folderHost: string
  readonly #prefix = randomBytes(4).toString('hex')
  #count = 0
  #opening: Promise<Opened> | undefined
  readonly #stays = new Stays()

  constructor(
    private readonly root: RootFolder,
    private readonly instance: Instance,
    private readonly log: DriverLog,
  ) {
    this.#folderHost = join(root.real, reservedName, instance.name)
  }

  /** A new, empty file that can take a name in `target`. Rejects with `aborted` once this is closed. */
  create(target: Place, signal?: AbortSignal): Promise<Staged> {
    return this.#entered(signal, async (stay) => {
      const device = await standingOn(target.folder)
      const opened = await this.#shared()
      if (device !== opened.device) return this.#besides(target, opened.folder, stay)
      try {
        return await this.#inFolder(opened.folder, stay)
      } catch (error) {
        if (systemCode(error) !== 'ENOENT') throw error
        // Somebody removed the folder: it is made again, once.
        await this.#forget(opened)
        return this.#inFolder((await this.#shared()).folder, stay)
      }
    })
  }

  /** The file that is made leaves when it is released. */
  async #entered(signal: AbortSignal | undefined, make: (stay: Stay) => Promise<Staged>): Promise<Staged> {
    const stay = this.#stays.enter(signal)
    try {
      return await make(stay)
    } catch (error) {
      stay.leave()
      throw error
    }
  }

  /** Takes over the caller's `folder`. */
  async #inFolder(folder: Folder, stay: Stay): Promise<Staged> {
    const at = folder.at(this.#newName())
    try {
      // Of now: the folder may have been opened when the disk made nobody wait.
      const calls = this.root.calls(this.#folderHost)
      const fd = await calls.open(at, creating, 0o666)
      return new StagedFile(this, at, fd, calls, stay, () => folder.close())
    } catch (error) {
      folder.close()
      throw error
    }
  }

  /** In the very folder where it is to stand. The record is there before the file is. Takes over the caller's `staging`. */
  async #besides({ folder, calls }: Place, staging: Folder, stay: Stay): Promise<Staged> {
    const name = `${reservedName}-${randomBytes(8).toString('hex')}`
    const record = staging.at(this.#newName() + recordSuffix)
    let held: Folder | undefined
    const letGo = async () => {
      held?.close()
      try {
        await unlinkIfThere(staging.calls, record)
      } finally {
        staging.close()
      }
    }
    try {
      // The folder stays open for as long as the file has no name: it may be moved meanwhile.
      held = await this.root.openExactly(folder.host)
      if (!held) throw new GatewayError('busy', { reason: 'the folder keeps changing' })
      const path = this.root.pathOf(`${folder.host}/${name}`) ?? ''
      const fd = await staging.calls.open(record, creating, 0o600)
      await writeAll(staging.calls, fd, [Buffer.from(path)], 0)
      await staging.calls.close(fd)
      const at = held.at(name)
      return new StagedFile(this, at, await calls.open(at, creating, 0o666), calls, stay, letGo)
    } catch (error) {
      await letGo()
      throw error
    }
  }

  /** For what was written to the wrong file system: a copy beside `place`. */
  async copyBeside({ fd, calls, signal }: Staged, place: Place): Promise<Staged> {
    const copy = await this.#entered(signal, async (stay) => this.#besides(place, (await this.#shared()).folder, stay))
    try {
      await copyBytes(fd, copy.fd, copy.signal)
      const { mode, mtimeNs, atimeNs } = await calls.fstat(fd)
      await copy.calls.fchmod(copy.fd, Number(mode) & 0o7777)
      await copy.calls.futimes(copy.fd, Number(atimeNs) / 1e9, Number(mtimeNs) / 1e9)
      return copy
    } catch (error) {
      await copy.release()
      throw error
    }
  }

  #newName(): string {
    return `${this.#prefix}-${(this.#count++).toString(36)}`
  }

  /** The staging folder, for a user of its own: it stays open until that one closes it. */
  async #shared(): Promise<Shared> {
    for (;;) {
      this.#opening ??= this.#open().catch((error: unknown) => {
        this.#opening = undefined
        throw error
      })
      const opening = this.#opening
      const opened = await opening
      if (opening === this.#opening) return { ...opened, opening, folder: opened.folder.share() }
    }
  }

  /** The next one to stage opens the folder anew. */
  async #forget({ opening }: Shared): Promise<void> {
    if (opening !== this.#opening) return
    this.#opening = undefined
    const { folder } = await opening
    folder.close()
  }

  async #open(): Promise<Opened> {
    for (const host of [join(this.root.real, reservedName), this.#folderHost]) {
      try {
        await this.root.calls(host).mkdir(host, 0o700)
      } catch (error) {
        if (systemCode(error) !== 'EEXIST') throw error
      }
    }
    const folder = await this.root.openExactly(this.#folderHost)
    if (!folder) throw new GatewayError('denied', { reason: `${reservedName} is not a folder of this storage` })
    return { folder, device: await standingOn(folder) }
  }

  /** Removes what dead instances left. Rejects with nothing: what cannot be swept is told to the log. */
  async sweep(): Promise<void> {
    const staging = join(this.root.real, reservedName)
    for (const name of await readdir(staging).catch(() => [])) {
      try {
        await this.#sweepIfDead(join(staging, name), name)
      } catch (error) {
        this.log.warn({ err: error }, 'what an earlier run staged could not be removed')
      }
    }
    await rmdir(staging).catch(() => undefined)
  }

  async #sweepIfDead(host: string, name: string): Promise<void> {
    const folder = await this.root.openExactly(host)
    if (!folder) return
    try {
      const files = await readdir(folder.self)
      const times = await Promise.all(['.', ...files].map(async (file) => (await lstat(folder.at(file))).mtimeMs))
      // What another machine stages on a shared disk is left alone until nothing of it has changed for a day.
      if (!(this.instance.isOver(name) ?? Date.now() - Math.max(...times) > abandonedAfter)) return
      for (const file of files) {
        if (file.endsWith(recordSuffix)) await this.#sweepSibling(await readFile(folder.at(file), 'utf8'))
        await patientCalls.unlink(folder.at(file))
      }
    } finally {
      folder.close()
    }
    await patientCalls.rmdir(host)
  }

  async #sweepSibling(path: string): Promise<void> {
    const name = nameOf(path as Path)
    if (!isReserved(name)) return
    const folder = await this.root.openExactly(this.root.hostOf(parentOf(path as Path)))
    if (!folder) return
    try {
      await unlinkIfThere(patientCalls, folder.at(name))
    } finally {
      folder.close()
    }
  }

  /**
   * What is being staged ends with `aborted`. Resolves when all of it is released and the folder removed, or after a while;
   * what takes longer removes the folder when it ends.
   */
  async close(): Promise<void> {
    const removed = this.#stays.end().then(() => this.#remove())
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<void>((resolve) => (timer = setTimeout(resolve, closingPatience)))
    await Promise.race([removed, patience])
    clearTimeout(timer)
  }

  async #remove(): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined)
    this.#opening = undefined
    if (!opened) return
    opened.folder.close()
    for (const host of [this.#folderHost, join(this.root.real, reservedName)]) {
      // Another mount of this root may still stage there.
      await rmdir(host).catch(() => undefined)
    }
  }
}

class StagedFile implements Staged {
  readonly signal: AbortSignal
  #published = false
  #released = false

  /** `letGo`: of the folder that the file is staged in. */
  constructor(
    private readonly staging: Staging,
    readonly at: string,
    readonly fd: number,
    readonly calls: Calls,
    private readonly stay: Stay,
    private readonly letGo: () => void | Promise<void>,
  ) {
    this.signal = stay.signal
  }

  async publish(place: Place, createOnly: boolean): Promise<BigIntStats> {
    try {
      await this.#take(place, createOnly)
      return await this.calls.fstat(this.fd)
    } catch (error) {
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

  async release(): Promise<void> {
    if (this.#released) return
    this.#released = true
    try {
      if (!this.#published) await unlinkIfThere(this.calls, this.at)
    } finally {
      try {
        await this.calls.close(this.fd)
        await this.letGo()
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

async function unlinkIfThere(calls: Calls, at: string): Promise<void> {
  try {
    await calls.unlink(at)
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
  }
}

async function standingOn(folder: Folder): Promise<bigint> {
  const device = await folder.device()
  if (device === undefined) throw new GatewayError('parent_missing')
  return device
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
