/**
 * Staged files: incomplete files in `<root>/.tidegate-staging/<instance>/`, which a rename moves to their final names.
 * If the target folder is on another file system, the file is staged beside its target instead, under a reserved name,
 * and a record in the staging folder contains its path.
 */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { rmdir, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { settlesWithin } from '../../src/base/cancellation.js'
import type { Awaitable } from '../../src/contract/call-options.js'
import type { Instance } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import type { DriverLog } from '../../src/base/log.js'
import { contentMode } from '../../src/contract/modes.js'
import { systemTime } from './entry.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { reservedName, type Location, type RootFolder } from './root-folder.js'
import { RunningCalls, type RunningCall } from './running-calls.js'
import { copyBytes, StagedFile, unlinkIfExists } from './staged-file.js'
import { resumableNames, recordSuffix, StagingRegistry } from './staging-registry.js'
import { writeAll } from './syscalls.js'

const { O_CREAT, O_EXCL, O_RDWR, O_NOFOLLOW } = constants
const createFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
/** Milliseconds that `close` waits for staged files to be released. */
const closingTimeout = 3000
/** Milliseconds without a change after which the files of a run on another machine count as orphaned. */
const orphanedAfter = 24 * 3_600_000

/**
 * The staging folder, for files that the caller creates and removes. The caller stops when `signal` aborts.
 */
export interface StagingArea {
  readonly folder: Folder
  readonly newName: () => string
  readonly signal: AbortSignal
}

export class LocalStaging {
  readonly #folderHost: string
  readonly #prefix = randomBytes(4).toString('hex')
  #count = 0
  /** The staging folder; a promise while it is being opened; undefined before that. */
  #opened: Awaitable<Folder> | undefined
  readonly #runningCalls = new RunningCalls()
  readonly #registry: StagingRegistry
  /** Whether a staged file of an earlier run was reopened or removed, so that its folders may be empty now. */
  #usedEarlierRun = false

  constructor(
    private readonly root: RootFolder,
    private readonly instance: Instance,
    private readonly log: DriverLog,
    /** `DriverEnv.assertCurrent`. */
    readonly assertCurrent: () => void,
  ) {
    this.#folderHost = join(root.real, reservedName, instance.name)
    this.#registry = new StagingRegistry(root, instance)
  }

  /** Removes the staged files of runs that have ended, except those that `tokens` refer to. Never rejects. */
  async sweep(tokens: readonly string[]): Promise<void> {
    const retained = resumableNames(tokens)
    const staging = join(this.root.real, reservedName)
    for (const run of await readdir(staging).catch(() => [])) {
      try {
        await this.#sweepIfEnded(run, retained)
      } catch (error) {
        this.log.warn({ err: error }, 'cannot remove staged files of an earlier run')
      }
    }
    await rmdir(staging).catch(() => undefined)
  }

  /** `retained`: names of files to leave, as `<run>/<name>`. */
  async #sweepIfEnded(run: string, retained: ReadonlySet<string>): Promise<void> {
    const { root, instance } = this
    const host = join(root.real, reservedName, run)
    const folder = await root.openRealPath(host)
    if (!folder) return
    let names: readonly string[]
    try {
      names = await readdir(folder.selfPath)
      const times = await Promise.all(['.', ...names].map(async (name) => (await lstat(folder.pathOf(name))).mtimeMs))
      // The state of a run on another machine is unknown. Its files are removed when none of them has changed for a
      // day.
      if (!(instance.isOver(run) ?? Date.now() - Math.max(...times) > orphanedAfter)) return
    } finally {
      folder.close()
    }
    const orphans = names.filter((name) => !retained.has(`${run}/${name}`))
    for (const name of orphans) await this.#registry.remove({ run, name })
    if (names.length === 0) await rmdir(host)
  }

  /**
   * Creates an empty file that can be renamed or linked into the folder of `target`. Rejects with `aborted` after
   * `close`.
   */
  create(target: Location, signal?: AbortSignal): Promise<StagedFile> {
    return this.#tracked(signal, async (call) => {
      const device = await target.folder.device()
      if (device === undefined) throw new GatewayError('parent_missing')
      const folder = await this.#share()
      if (((await folder.device()) ?? device) !== device) return this.#createSibling(target, folder, call)
      try {
        return await this.#createInFolder(folder, call)
      } catch (error) {
        if (systemCode(error) !== 'ENOENT') throw error
        // The staging folder was removed by another program. It is created again, once.
        this.#invalidate(folder)
        return this.#createInFolder(await this.#share(), call)
      }
    })
  }

  /**
   * Runs `work` with a staging area for files that `work` creates and removes. Resolves to undefined without calling
   * `work` if files cannot be linked from the staging folder into `target`. Rejects with `aborted` after `close`.
   */
  async withArea<T>(
    target: Folder,
    caller: AbortSignal | undefined,
    work: (room: StagingArea) => Promise<T>,
  ): Promise<T | undefined> {
    const call = this.#runningCalls.begin(caller)
    try {
      const folder = await this.#share()
      try {
        if ((await folder.device()) !== (await target.device())) return undefined
        return await work({ folder, newName: () => this.#newName(), signal: call.signal })
      } finally {
        folder.close()
      }
    } finally {
      call.end()
    }
  }

  /**
   * Opens the staged file of an earlier upload to continue it. `size`: bytes of the complete file. Undefined if the
   * stored part cannot be relied on.
   */
  reopen(token: string, size: number, signal?: AbortSignal): Promise<StagedFile | undefined> {
    this.#usedEarlierRun = true
    return this.#tracked(signal, async (call) => {
      const reopened = await this.#registry.reopen(token, size)
      return reopened && new StagedFile(this, reopened, call)
    })
  }

  /** Removes the staged file of this token, if it exists. */
  drop(token: string): Promise<void> {
    this.#usedEarlierRun = true
    return this.#registry.drop(token)
  }

  /** Registers the file as in flight until it is released, or until `make` fails. */
  async #tracked<T extends StagedFile | undefined>(
    signal: AbortSignal | undefined,
    make: (call: RunningCall) => Promise<T>,
  ): Promise<T> {
    const call = this.#runningCalls.begin(signal)
    try {
      const file = await make(call)
      if (!file) call.end()
      return file
    } catch (error) {
      call.end()
      throw error
    }
  }

  /** Takes ownership of `folder`. */
  async #createInFolder(folder: Folder, call: RunningCall): Promise<StagedFile> {
    const name = this.#newName()
    const at = folder.pathOf(name)
    try {
      const { calls } = folder
      const fd = await calls.open(at, createFlags, 0o666)
      const closeFolder = () => folder.close()
      return new StagedFile(this, { fd, calls, at, token: () => this.#registry.tokenOf(name), closeFolder }, call)
    } catch (error) {
      folder.close()
      throw error
    }
  }

  /**
   * Creates a file in the folder of its target. The record is written before the file. Takes ownership of `staging`.
   */
  async #createSibling({ folder, calls }: Location, staging: Folder, call: RunningCall): Promise<StagedFile> {
    const name = `${reservedName}-${randomBytes(8).toString('hex')}`
    const recordName = this.#newName() + recordSuffix
    const record = staging.pathOf(recordName)
    let targetFolder: Folder | undefined
    const closeFolder = async (isRetained: boolean) => {
      targetFolder?.close()
      try {
        if (!isRetained) await unlinkIfExists(staging.calls, record)
      } finally {
        staging.close()
      }
    }
    try {
      // The folder stays open until the file has its final name, because the folder may be moved meanwhile.
      targetFolder = await this.root.openRealPath(folder.host)
      if (!targetFolder) throw new GatewayError('busy', { reason: 'the folder keeps changing' })
      const path = this.root.pathOf(`${folder.host}/${name}`) ?? ''
      const fd = await staging.calls.open(record, createFlags, 0o600)
      await writeAll(staging.calls, fd, [Buffer.from(path)], 0)
      await staging.calls.close(fd)
      const at = targetFolder.pathOf(name)
      const token = () => this.#registry.tokenOf(recordName)
      return new StagedFile(this, { fd: await calls.open(at, createFlags, 0o666), calls, at, token, closeFolder }, call)
    } catch (error) {
      await closeFolder(false)
      throw error
    }
  }

  /** Copies a staged file that is on the wrong file system to the folder of `location`. */
  async copyToSibling({ fd, calls, running: { signal } }: StagedFile, location: Location): Promise<StagedFile> {
    const copy = await this.#tracked(signal, async (call) => this.#createSibling(location, await this.#share(), call))
    try {
      await copyBytes(fd, copy.fd, copy.running.signal)
      const { mode, mtimeNs, atimeNs } = await calls.fstat(fd)
      await copy.calls.fchmod(copy.fd, contentMode(Number(mode)))
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

  /** Opens the staging folder, or shares the open one. The caller closes its reference. */
  async #share(): Promise<Folder> {
    for (;;) {
      const opened = (this.#opened ??= this.#open())
      const folder = opened instanceof Promise ? await opened : opened
      // Meanwhile, it may have been invalidated.
      if (folder === this.#opened) return folder.share()
    }
  }

  /** Makes the next caller open the staging folder again. */
  #invalidate(folder: Folder): void {
    if (folder !== this.#opened) return
    this.#opened = undefined
    folder.close()
  }

  async #open(): Promise<Folder> {
    try {
      for (const host of [join(this.root.real, reservedName), this.#folderHost]) await this.#make(host)
      const folder = await this.root.openRealPath(this.#folderHost)
      if (!folder) throw new GatewayError('denied', { reason: `${reservedName} is not a folder of this storage` })
      return (this.#opened = folder)
    } catch (error) {
      this.#opened = undefined
      throw error
    }
  }

  async #make(host: string): Promise<void> {
    try {
      await this.root.syscallsFor(host).mkdir(host, 0o700)
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
    }
  }

  /**
   * Aborts the files in flight with `aborted`. Resolves when all of them are released and the folder is removed, or
   * after a timeout. Files that take longer remove the folder when they are released.
   */
  async close(): Promise<void> {
    const removed = this.#runningCalls.abortAll().then(() => this.#remove())
    await settlesWithin(removed, closingTimeout)
  }

  async #remove(): Promise<void> {
    const opened = await Promise.resolve(this.#opened).catch(() => undefined)
    this.#opened = undefined
    if (!opened && !this.#usedEarlierRun) return
    opened?.close()
    for (const host of [this.#folderHost, join(this.root.real, reservedName)]) {
      // Fails if another mount of this root still has files there.
      await rmdir(host).catch(() => undefined)
    }
  }
}
