/** Staged files: they get their names when they are complete, and those that do not are removed. */
import { setTimeout as pause } from 'node:timers/promises'
import { throwIfAborted } from '../../src/contract/cancellation.js'
import type { WriteOptions } from '../../src/contract/call-options.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/contract/errors.js'
import { childOf, nameOf, parentOf, type Path } from '../../src/contract/path.js'
import { BackgroundDeleter } from '../lib/background-deleter.js'
import type { Replacements } from '../lib/replacing.js'
import { isOrphan, stagedName, stagingRun } from '../lib/staged-names.js'
import type { Item } from './entry.js'
import type { Files } from './files.js'
import { isMissing, type Remote } from './remote.js'

/** Maximum staged files of this run whose removal has failed. */
const maxUnremoved = 1000
/** How often a listing is asked for a new name, and the milliseconds in between. */
const [listingTries, listingPause] = [3, 300]

interface PublishingDependencies {
  readonly remote: Remote
  readonly files: Files
  readonly replacements: Replacements
  readonly env: Pick<DriverEnv, 'instance' | 'log'>
  /** Serializes the changes of a name. */
  readonly exclusively: <T>(path: Path, work: () => Promise<T>, signal?: AbortSignal) => Promise<T>
}

export class Publishing {
  readonly #unremoved = new Set<Path>()
  readonly #deleter = new BackgroundDeleter<Path>((staged) => this.#remove(staged))

  constructor(private readonly dependencies: PublishingDependencies) {}

  /** Writes a staged file with `fill` and gives it its name. The old file is intact until the new one is stored. */
  async write(path: Path, options: WriteOptions, fill: (staged: Path) => Promise<void>): Promise<Item> {
    const { signal, createOnly, beforePublish } = options
    const { env, exclusively, replacements } = this.dependencies
    const staged = childOf(parentOf(path), stagedName(env.instance.name))
    try {
      await fill(staged)
      throwIfAborted(signal)
      await beforePublish?.()
    } catch (error) {
      await this.#discard(staged)
      throw error
    }
    const publish = async () => {
      await replacements.settleAt(path)
      if (createOnly === true) await this.assertFree(path, signal)
      throwIfAborted(signal)
      return this.#published(path, await this.rename(staged, path, true))
    }
    return exclusively(path, publish, signal).catch(async (error: unknown) => {
      if (!replacements.isNeeded(staged)) await this.#discard(staged)
      throw error
    })
  }

  /** Rejects with `exists`. Most remotes do not create atomically, so callers must run exclusively. */
  async assertFree(path: Path, signal: AbortSignal | undefined): Promise<void> {
    if ((await this.dependencies.files.find(path, signal)).item) throw new GatewayError('exists')
  }

  /**
   * Gives a file a name, which may be that of another file. Resolves to whether it was. Rejects with `is_folder`. Must run
   * exclusively for `to`.
   */
  async rename(from: Path, to: Path, isStaged: boolean): Promise<'replaced' | 'new'> {
    const { remote, files, replacements } = this.dependencies
    const { item } = await files.find(to, undefined)
    if (item?.isFolder === true) throw new GatewayError('is_folder')
    if (item) {
      await replacements.replace(from, to, isStaged)
      return 'replaced'
    }
    await remote.moveFile(from, to).catch(async (error: unknown) => {
      const isMoved = !(await files.find(from, undefined)).item && (await files.find(to, undefined)).item
      if (!isMoved) throw error
    })
    return 'new'
  }

  /** Whether it is a staged file or a file that is being replaced. Schedules the removal of orphans. */
  isTemporary(folder: Path, name: string): boolean {
    const path = childOf(folder, name)
    if (this.dependencies.replacements.isBackup(path)) return true
    if (stagingRun(name) === undefined) return false
    if (this.#isOrphan(path)) this.#deleter.enqueue(path)
    return true
  }

  /**
   * Removes the orphans of a folder that could not be removed because of `error`. Rejects with `not_empty` if it has other
   * members, and with `error` if it has none.
   */
  async removeOrphans(folder: Path, error: unknown, signal: AbortSignal | undefined): Promise<void> {
    const orphans: Path[] = []
    for await (const items of this.dependencies.files.members(folder, signal)) {
      const paths = items.map(({ name }) => childOf(folder, name))
      if (!paths.every((path) => this.#isOrphan(path))) throw new GatewayError('not_empty', { cause: error })
      orphans.push(...paths)
    }
    if (orphans.length === 0) throw error
    for (const orphan of orphans) await this.#remove(orphan)
  }

  #isOrphan(path: Path): boolean {
    return this.#unremoved.has(path) || isOrphan(nameOf(path), this.dependencies.env.instance)
  }

  /** The file that was published. Rejects with `invalid` if the remote has given a new file another name. */
  async #published(path: Path, outcome: 'replaced' | 'new'): Promise<Item> {
    const { files, remote } = this.dependencies
    for (let tries = 0; tries < listingTries; tries++) {
      // A listing may be a moment late.
      if (tries > 0) await pause(listingPause)
      const { item } = await files.find(path, undefined)
      if (item) return item
    }
    const item = await remote.findFile(path, undefined)
    if (!item) throw new GatewayError('unavailable', { reason: 'the remote does not show the stored file' })
    if (outcome === 'replaced') return item
    await this.#discard(path)
    throw unkeptName()
  }

  /** Removes a file that was not published. Never rejects: what cannot be removed now is removed by a later listing. */
  async #discard(staged: Path): Promise<void> {
    await this.#remove(staged).catch((error: unknown) => {
      this.dependencies.env.log.warn({ err: error, staged }, 'cannot remove a staged file, will retry')
      if (this.#unremoved.size < maxUnremoved) this.#unremoved.add(staged)
    })
  }

  async #remove(staged: Path): Promise<void> {
    await this.dependencies.remote.removeFile(staged, undefined).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
    this.#unremoved.delete(staged)
  }
}

/** For names that a remote stores as others, as servers of Windows shares do with those of devices. */
export function unkeptName(): GatewayError {
  return new GatewayError('invalid', { reason: 'the remote does not keep this name' })
}
