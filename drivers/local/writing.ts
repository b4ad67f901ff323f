/** Writes files: the content goes to a staged file, which gets its final name when it is complete. */
import { constants, copyFile, type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, OpenFile, OpenOptions, Upload, UploadPlan } from '../../src/contract/capabilities.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { contentMode } from '../../src/contract/modes.js'
import { nameOf, type Path } from '../../src/base/path.js'
import { entryOf, systemTime } from './entry.js'
import { systemCode, translateError } from './errors.js'
import { StagedHandle } from './handles.js'
import { receive } from './receive-body.js'
import { assertReplaceable, type RootFolder } from './root-folder.js'
import { copyBytes, type StagedFile } from './staged-file.js'
import type { LocalStaging } from './staging.js'
import { asyncSyscalls, writeAll } from './syscalls.js'

const { O_RDONLY, COPYFILE_FICLONE_FORCE } = constants
const clone = promisify(copyFile)

export class Writing {
  /** Devices whose file systems cannot clone files. */
  readonly #cannotClone = new Set<bigint>()

  constructor(
    private readonly root: RootFolder,
    private readonly staging: LocalStaging,
  ) {}

  /** Writes a file. Resolves when it has its final name; with `sync`, when it is also on the medium. */
  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { staged, old } = await this.#stage(path, options)
    try {
      if (source.bytes) await writeAll(staged.calls, staged.fd, [source.bytes], 0)
      else await receive(source, staged.fd, staged.calls, asyncSyscalls, staged.running.signal)
      return await this.#publish(path, staged, old, options)
    } finally {
      await staged.release()
    }
  }

  /** A resumable upload: the file stays staged until it is committed or dropped, also across restarts. */
  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { size, replaceToken: replace } = plan
    const { staged, old } = await this.#stage(path, options, plan)
    try {
      const committed = Number((await staged.calls.fstat(staged.fd)).size)
      let isCommitted = false
      return {
        token: staged.token,
        committedOffset: committed,
        write: async (from) => {
          const { fd, calls, running } = staged
          const rest: Source = { size: size - committed, rereadable: false, read: () => Promise.resolve(from) }
          await receive(rest, fd, calls, asyncSyscalls, running.signal, committed)
        },
        commit: async () => {
          try {
            const entry = await this.#publish(path, staged, old, options)
            isCommitted = true
            return entry
          } catch (error) {
            throw translateError(error)
          }
        },
        close: async () => {
          try {
            if (isCommitted) await staged.release()
            else if (!(await staged.retain())) await replace?.('')
          } catch {
            // A later sweep removes it.
          }
        },
      }
    } catch (error) {
      await staged.retain()
      throw error
    }
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { fd, calls, stats } = await this.root.openFile(from, O_RDONLY)
    try {
      const { staged, old } = await this.#stage(to, options)
      try {
        await this.#copyBytes(fd, stats, staged)
        const attributes = { modified: entryOf('', stats).modified, mode: Number(stats.mode) }
        await this.#publish(to, staged, old, {
          ...options,
          modified: options.modified ?? attributes.modified,
          mode: options.mode ?? attributes.mode,
        })
      } finally {
        await staged.release()
      }
    } finally {
      await calls.close(fd)
    }
  }

  /** Clones the file where the file system supports that, and copies the bytes elsewhere. */
  async #copyBytes(fd: number, stats: BigIntStats, staged: StagedFile): Promise<void> {
    const { dev } = await staged.calls.fstat(staged.fd)
    if (process.platform === 'linux' && dev === stats.dev && !this.#cannotClone.has(dev)) {
      try {
        await clone(`/proc/self/fd/${fd}`, `/proc/self/fd/${staged.fd}`, COPYFILE_FICLONE_FORCE)
        return
      } catch (error) {
        // Not tried again on a device that cannot. What else fails also fails when the bytes are copied, or passes.
        if (systemCode(error) === 'ENOTSUP') this.#cannotClone.add(dev)
      }
    }
    await copyBytes(fd, staged.fd, staged.running.signal)
  }

  /** Opens a new file for random access. It gets its final name when it is committed. */
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
      // Already published: later writes changed the published file.
      await applyAttributes(staged, { modified, mode })
      return entryOf(nameOf(path), await staged.calls.fstat(staged.fd))
    }
    const entry = entryOf(nameOf(path), await staged.calls.fstat(staged.fd))
    return new StagedHandle(entry, staged, publish)
  }

  /**
   * A staged file for `path`, and the status of the file that it will replace. Continues the upload of `plan` if it
   * can.
   */
  #stage(
    path: Path,
    { createOnly, signal }: WriteOptions,
    plan?: UploadPlan,
  ): Promise<{ staged: StagedFile; old: BigIntStats | undefined }> {
    return this.root.at(path, { follow: true, create: true }, async (location) => {
      assertReplaceable(location, createOnly === true)
      const reopened = plan && (await this.#reopen(plan, signal))
      return { staged: reopened ?? (await this.staging.create(location, signal)), old: location.stats }
    })
  }

  /**
   * The stored part of an earlier upload. If it cannot be relied on, its token is replaced: another check of the same
   * file might find nothing wrong.
   */
  async #reopen(
    { size, resumeToken: resume = '', replaceToken: replace }: UploadPlan,
    signal: AbortSignal | undefined,
  ): Promise<StagedFile | undefined> {
    if (resume === '') return undefined
    const reopened = await this.staging.reopen(resume, size, signal)
    if (!reopened) await replace?.('')
    return reopened
  }

  /**
   * Publishes a complete file: sets attributes, flushes it if required, calls `beforePublish`, and renames the file.
   */
  async #publish(path: Path, staged: StagedFile, old: BigIntStats | undefined, options: WriteOptions): Promise<Entry> {
    await applyAttributes(staged, options, old)
    if (this.root.sync) await staged.sync()
    await options.beforePublish?.()
    throwIfAborted(staged.running)
    return this.root.at(path, { follow: true, create: true }, async (location) => {
      const createOnly = options.createOnly === true
      assertReplaceable(location, createOnly)
      const published = await staged.publish(location, createOnly)
      await this.root.syncFolder(location.folder)
      return entryOf(nameOf(path), published, location.viaSymlink)
    })
  }
}

/**
 * Sets the attributes of a file with new content, which has no special bits: it may belong to another user than the
 * daemon's. `old` is the file that it will replace: its mode is preserved, and its owner if the daemon runs as root.
 */
async function applyAttributes(staged: StagedFile, { modified, mode }: Attributes, old?: BigIntStats): Promise<void> {
  const { fd, calls } = staged
  const created = old && (await calls.fstat(fd))
  if (old && created && (created.uid !== old.uid || created.gid !== old.gid)) await preserveOwner(staged, old)
  const wanted = mode ?? (old && Number(old.mode))
  if (wanted !== undefined && !(created && contentMode(wanted) === (Number(created.mode) & 0o7777)))
    await calls.fchmod(fd, contentMode(wanted))
  if (modified !== undefined) await calls.futimes(fd, Date.now() / 1000, systemTime(modified))
}

async function preserveOwner({ fd, calls }: StagedFile, { uid, gid }: BigIntStats): Promise<void> {
  try {
    await calls.fchown(fd, Number(uid), Number(gid))
  } catch (error) {
    if (systemCode(error) !== 'EPERM') throw error
  }
}
