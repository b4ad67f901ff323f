/** How a file of the disk gets new content: written aside, and given its name when all of it is there. */
import { constants, copyFile, type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import type { Attributes, Entry, OpenFile, OpenOptions, Source, WriteOptions } from '../../src/driver.js'
import { nameOf, type Path } from '../../src/path.js'
import { assertGoing } from '../lib/aborting.js'
import { patientCalls } from './calls.js'
import { entryOf, secondsOf } from './entry.js'
import { systemCode } from './errors.js'
import { StagedHandle } from './handles.js'
import { assertReplaceable, syncFile, type Places } from './places.js'
import { receive } from './receive.js'
import { copyBytes, type Staged, type Staging } from './staging.js'

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
      await receive(source, staged.fd, staged.calls, patientCalls, staged.signal)
      return await this.#publish(path, staged, old, options)
    } finally {
      await staged.release()
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
    await copyBytes(fd, staged.fd, staged.signal)
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

  /** A new file for what is to stand at `path`, and what stands there now. */
  #stage(path: Path, options: WriteOptions): Promise<{ staged: Staged; old: BigIntStats | undefined }> {
    return this.places.at(path, { follow: true, create: true }, async (place) => {
      assertReplaceable(place, options.createOnly === true)
      return { staged: await this.staging.create(place, options.signal), old: place.stats }
    })
  }

  /** All bytes are there: attributes, the medium if asked for, the caller's last word, then the name. */
  async #publish(path: Path, staged: Staged, old: BigIntStats | undefined, options: WriteOptions): Promise<Entry> {
    const { fd } = staged
    if (old) await keepOwner(staged, old)
    await applyTo(staged, options.modified, options.mode ?? (old && Number(old.mode) & 0o7777))
    if (this.places.sync) await syncFile(fd)
    await options.beforePublish?.()
    assertGoing(staged.signal)
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
  if (modified !== undefined) await calls.futimes(fd, Date.now() / 1000, secondsOf(modified))
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
