/** How a file of the disk gets new content: written aside, and given its name when all of it is there. */
import { constants, copyFile, type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import { assertGoing } from '../../src/aborting.js'
import type {
  Attributes,
  Entry,
  OpenFile,
  OpenOptions,
  Source,
  Upload,
  UploadPlan,
  WriteOptions,
} from '../../src/driver.js'
import { nameOf, type Path } from '../../src/path.js'
import { patientCalls } from './calls.js'
import { entryOf, systemTime } from './entry.js'
import { systemCode, translated } from './errors.js'
import { StagedHandle } from './handles.js'
import { assertReplaceable, type Places } from './places.js'
import { receive } from './receive.js'
import { copyBytes, type Staged } from './staged-file.js'
import type { Staging } from './staging.js'

const { O_RDONLY, COPYFILE_FICLONE_FORCE } = constants
const clone = promisify(copyFile)

export class Writing {
  /** Devices whose files share no blocks. */
  readonly #cannotClone = new Set<bigint>()

  constructor(
    private readonly places: Places,
    private readonly staging: Staging,
  ) {}

  /** Resolves when the file has its name, as durably as the storage's options ask. */
  async put(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { staged, old } = await this.#stage(path, options)
    try {
      await receive(source, staged.fd, staged.calls, patientCalls, staged.stay.signal)
      return await this.#publish(path, staged, old, options)
    } finally {
      await staged.release()
    }
  }

  /** A file that stays staged, for a later run to go on with, until it is committed or dropped. */
  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { size, replace } = plan
    const { staged, old } = await this.#stage(path, options, plan)
    try {
      const confirmed = Number((await staged.calls.fstat(staged.fd)).size)
      let isCommitted = false
      return {
        token: staged.token,
        confirmed,
        write: async (from) => {
          const { fd, calls, stay } = staged
          const rest: Source = { size: size - confirmed, rereadable: false, read: () => Promise.resolve(from) }
          await receive(rest, fd, calls, patientCalls, stay.signal, confirmed)
        },
        commit: async () => {
          try {
            const entry = await this.#publish(path, staged, old, options)
            isCommitted = true
            return entry
          } catch (error) {
            throw translated(error)
          }
        },
        close: async () => {
          try {
            if (isCommitted) await staged.release()
            else if (!(await staged.leave())) await replace?.('')
          } catch {
            // What could not be removed is swept with the rest of this run.
          }
        },
      }
    } catch (error) {
      await staged.leave()
      throw error
    }
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { fd, calls, stats } = await this.places.openFile(from, O_RDONLY)
    try {
      const { staged, old } = await this.#stage(to, options)
      try {
        await this.#copyBytes(fd, stats, staged)
        const kept = { modified: entryOf('', stats).modified, mode: Number(stats.mode) & 0o777 }
        await this.#publish(to, staged, old, {
          ...options,
          modified: options.modified ?? kept.modified,
          mode: options.mode ?? kept.mode,
        })
      } finally {
        await staged.release()
      }
    } finally {
      await calls.close(fd)
    }
  }

  /** Shares the blocks where the file system can, which takes no time; byte by byte elsewhere. */
  async #copyBytes(fd: number, stats: BigIntStats, staged: Staged): Promise<void> {
    const { dev } = await staged.calls.fstat(staged.fd)
    if (process.platform === 'linux' && dev === stats.dev && !this.#cannotClone.has(dev)) {
      try {
        await clone(`/proc/self/fd/${fd}`, `/proc/self/fd/${staged.fd}`, COPYFILE_FICLONE_FORCE)
        return
      } catch {
        // Not tried again; of any true trouble the bytes will tell.
        this.#cannotClone.add(dev)
      }
    }
    await copyBytes(fd, staged.fd, staged.stay.signal)
  }

  /** A handle on a file that has no name until it is committed. */
  async open(path: Path, options: OpenOptions): Promise<OpenFile> {
    const { staged, old } = await this.#stage(path, options)
    let published = false
    const publish = async (attributes: Attributes = {}) => {
      const { modified = options.modified, mode = options.mode } = attributes
      if (!published) {
        const entry = await this.#publish(path, staged, old, { ...options, modified, mode })
        published = true
        return entry
      }
      // It has its name: what was written since is in place already.
      await applyTo(staged, modified, mode)
      return entryOf(nameOf(path), await staged.calls.fstat(staged.fd))
    }
    const entry = entryOf(nameOf(path), await staged.calls.fstat(staged.fd))
    return new StagedHandle(entry, staged, publish)
  }

  /** A file for what is to stand at `path`, and what stands there now. The file is a new one, unless an earlier one is left. */
  #stage(
    path: Path,
    { createOnly, signal }: WriteOptions,
    plan?: UploadPlan,
  ): Promise<{ staged: Staged; old: BigIntStats | undefined }> {
    return this.places.at(path, { follow: true, create: true }, async (place) => {
      assertReplaceable(place, createOnly === true)
      const left = plan && (await this.#left(plan, signal))
      return { staged: left ?? (await this.staging.create(place, signal)), old: place.stats }
    })
  }

  /** Of a token that cannot be relied on, nobody hears again: another look at what it stands for may find nothing wrong. */
  async #left(
    { size, resume = '', replace }: UploadPlan,
    signal: AbortSignal | undefined,
  ): Promise<Staged | undefined> {
    if (resume === '') return undefined
    const left = await this.staging.reopen(resume, size, signal)
    if (!left) await replace?.('')
    return left
  }

  /** All bytes are there: attributes, the medium if asked for, the caller's last word, then the name. */
  async #publish(path: Path, staged: Staged, old: BigIntStats | undefined, options: WriteOptions): Promise<Entry> {
    if (old) await keepOwner(staged, old)
    await applyTo(staged, options.modified, options.mode ?? (old && Number(old.mode) & 0o7777))
    if (this.places.sync) await staged.sync()
    await options.beforePublish?.()
    assertGoing(staged.stay)
    return this.places.at(path, { follow: true, create: true }, async (place) => {
      const createOnly = options.createOnly === true
      assertReplaceable(place, createOnly)
      const published = await staged.publish(place, createOnly)
      await this.places.syncFolder(place.folder)
      return entryOf(nameOf(path), published, place.linked)
    })
  }
}

async function applyTo({ fd, calls }: Staged, modified: Date | undefined, mode: number | undefined): Promise<void> {
  if (mode !== undefined) await calls.fchmod(fd, mode & 0o7777)
  if (modified !== undefined) await calls.futimes(fd, Date.now() / 1000, systemTime(modified))
}

/** A daemon that runs as root must not take over the files that it replaces. */
async function keepOwner({ fd, calls }: Staged, old: BigIntStats): Promise<void> {
  const { uid, gid } = await calls.fstat(fd)
  if (uid === old.uid && gid === old.gid) return
  try {
    await calls.fchown(fd, Number(old.uid), Number(old.gid))
  } catch (error) {
    if (systemCode(error) !== 'EPERM') throw error
  }
}
