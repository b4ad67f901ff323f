/**
 * Files that are written aside until they are whole: in `<root>/.tidegate-staging/<instance>/`, from where a rename gives
 * them their name. Where the target folder is on another file system a rename cannot, so there they are written
 * beside their target, under a reserved name that a record in the staging folder tells of.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverLog, Instance } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { writeAll } from './calls.js'
import { systemTime } from './entry.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { sweepLeavings } from './leavings.js'
import { reservedName, type Place, type RootFolder } from './root-folder.js'
import { keptNames, recordSuffix, RunFiles } from './run-files.js'
import { copyBytes, StagedFile, unlinkIfThere, type Staged } from './staged-file.js'
import { Stays, type Stay } from './stays.js'

const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants
const creating = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
/** Milliseconds that closing waits for what is being staged to end. */
const closingPatience = 3000

interface Opened {
  readonly folder: Folder
  readonly device: bigint
}

/** Where files may be staged, until the signal says that they are to go. */
export interface Room {
  readonly folder: Folder
  readonly newName: () => string
  readonly signal: AbortSignal
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
  readonly #files: RunFiles
  /** What an earlier run left was written on, or removed. */
  #hasReopened = false

  constructor(
    private readonly root: RootFolder,
    private readonly instance: Instance,
    private readonly log: DriverLog,
  ) {
    this.#folderHost = join(root.real, reservedName, instance.name)
    this.#files = new RunFiles(root, instance)
  }

  /** What dead runs have left goes, but for what these tokens stand for. Rejects with nothing. */
  sweep(tokens: readonly string[]): Promise<void> {
    const { root, instance, log } = this
    return sweepLeavings({ root, instance, log, files: this.#files }, keptNames(tokens))
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

  /**
   * Runs `work` with room for several files that somebody else makes, and removes. Undefined, and nothing was done, where they could not
   * take names in `target` by a link. Rejects with `aborted` once this is closed.
   */
  async together<T>(
    target: Folder,
    caller: AbortSignal | undefined,
    work: (room: Room) => Promise<T>,
  ): Promise<T | undefined> {
    const stay = this.#stays.enter(caller)
    try {
      const { folder, device } = await this.#shared()
      try {
        if (device !== (await standingOn(target))) return undefined
        return await work({ folder, newName: () => this.#newName(), signal: stay.signal })
      } finally {
        folder.close()
      }
    } finally {
      stay.leave()
    }
  }

  /** What was left of an upload of so many bytes, to be written on; undefined where nothing of it can be relied on. */
  reopen(token: string, size: number, signal?: AbortSignal): Promise<Staged | undefined> {
    this.#hasReopened = true
    return this.#entered(signal, async (stay) => {
      const parts = await this.#files.reopen(token, size)
      return parts && new StagedFile(this, parts, stay)
    })
  }

  /** Removes what was left, if anything was. */
  drop(token: string): Promise<void> {
    this.#hasReopened = true
    return this.#files.drop(token)
  }

  /** The file that is made leaves when it is released. */
  async #entered<T extends Staged | undefined>(
    signal: AbortSignal | undefined,
    make: (stay: Stay) => Promise<T>,
  ): Promise<T> {
    const stay = this.#stays.enter(signal)
    try {
      const made = await make(stay)
      if (!made) stay.leave()
      return made
    } catch (error) {
      stay.leave()
      throw error
    }
  }

  /** Takes over the caller's `folder`. */
  async #inFolder(folder: Folder, stay: Stay): Promise<Staged> {
    const name = this.#newName()
    const at = folder.at(name)
    try {
      // Of now: the folder may have been opened when the disk made nobody wait.
      const calls = this.root.calls(this.#folderHost)
      const fd = await calls.open(at, creating, 0o666)
      const letGo = () => folder.close()
      return new StagedFile(this, { fd, calls, at, token: this.#files.tokenOf(name), letGo }, stay)
    } catch (error) {
      folder.close()
      throw error
    }
  }

  /** In the very folder where it is to stand. The record is there before the file is. Takes over the caller's `staging`. */
  async #besides({ folder, calls }: Place, staging: Folder, stay: Stay): Promise<Staged> {
    const name = `${reservedName}-${randomBytes(8).toString('hex')}`
    const recordName = this.#newName() + recordSuffix
    const record = staging.at(recordName)
    let held: Folder | undefined
    const letGo = async (isLeft: boolean) => {
      held?.close()
      try {
        if (!isLeft) await unlinkIfThere(staging.calls, record)
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
      const token = this.#files.tokenOf(recordName)
      return new StagedFile(this, { fd: await calls.open(at, creating, 0o666), calls, at, token, letGo }, stay)
    } catch (error) {
      await letGo(false)
      throw error
    }
  }

  /** For what was written to the wrong file system: a copy beside `place`. */
  async copyBeside({ fd, calls, stay: { signal } }: Staged, place: Place): Promise<Staged> {
    const copy = await this.#entered(signal, async (stay) => this.#besides(place, (await this.#shared()).folder, stay))
    try {
      await copyBytes(fd, copy.fd, copy.stay.signal)
      const { mode, mtimeNs, atimeNs } = await calls.fstat(fd)
      await copy.calls.fchmod(copy.fd, Number(mode) & 0o7777)
      await copy.calls.futimes(copy.fd, systemTime(atimeNs), systemTime(mtimeNs))
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
    if (!opened && !this.#hasReopened) return
    opened?.folder.close()
    for (const host of [this.#folderHost, join(this.root.real, reservedName)]) {
      // Another mount of this root may still stage there.
      await rmdir(host).catch(() => undefined)
    }
  }
}

async function standingOn(folder: Folder): Promise<bigint> {
  const device = await folder.device()
  if (device === undefined) throw new GatewayError('parent_missing')
  return device
}
