/** The Rclone driver: a folder of a remote of rclone, by a process of rclone that this gateway starts. */
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { settlesWithin, throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type { Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { inPages, type Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { childOf, foldCase, nameOf, parentOf, root, type Path } from '../../src/base/path.js'
import type { Traits } from '../../src/contract/traits.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { Replacements, type ReplacingFiles } from '../lib/staged-files/replacing.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { StagedFiles } from '../lib/staged-files/staged-files.js'
import { entryOf, isShown, usableHashes, type Item } from './entry.js'
import { RcloneFiles } from './files.js'
import type { RcloneOptions } from './index.js'
import { commandOf, parseRemote } from './options.js'
import { isRclone, leaseProcess, type ProcessLease } from './process.js'
import { isMissing, isObjectStore, Remote, translated, type RemoteFacts } from './remote.js'
import { failureOf } from './remote-control.js'
import { assertOutsideGatewayFolders, remotesOf } from './shown-folders.js'

/** Milliseconds that an aborted write waits for its cleanup. After that, the cleanup continues in the background. */
const cleanupWait = 500
/** Milliseconds that closing a storage waits for changes that cannot be canceled. */
const closeWait = 5000
/** Maximum bytes of a name that every remote can have. */
const maxCertainName = 100
/** Maximum bytes of the name of an old file that is set aside. Remotes that encrypt names have room for 143. */
const maxBackupName = 120
/** How often a listing is asked for a new name, and the milliseconds in between. */
const [listingTries, listingPause] = [3, 300]

export async function openRclone(options: RcloneOptions, env: DriverEnv): Promise<Driver> {
  const { fs, section } = parseRemote(options.remote)
  const command = await commandOf(options, env.own.data)
  const lease = leaseProcess(command, env)
  try {
    const unhashed = new Remote(lease.process, fs)
    const sections = await unhashed.configuration(env.signal).catch(async (error: unknown) => {
      const reason = (await isRclone(command.program))
        ? 'rclone cannot be started with this configuration: config_password may be wrong'
        : 'program_path is not rclone: it does not report a version of rclone'
      throw new GatewayError('invalid', { reason, cause: error })
    })
    if (!Object.hasOwn(sections, section)) {
      throw new GatewayError('invalid', { reason: `the configuration of rclone has no remote "${section}"` })
    }
    const facts = await unhashed.facts(env.signal)
    const remotes = await remotesOf(unhashed, facts, sections, env.signal)
    await assertOutsideGatewayFolders(remotes, env.own)
    const isHashSlow = remotes.some(({ features }) => features.has('SlowHash'))
    const usesServerTimes = !command.flags.includes('--use-server-modtime=false')
    const remote = new Remote(lease.process, fs, isHashSlow ? [] : usableHashes(facts.hashes))
    const driver = new RcloneDriver({
      lease,
      remote,
      facts,
      isObjectStore: isObjectStore(facts, remotes, sections),
      isListOfBuckets: facts.features.has('BucketBased') && remotes.every((each) => each.root === ''),
      reportsUsage:
        facts.features.has('About') && (await remote.usage(env.signal).catch(() => undefined)) !== undefined,
      hasClientTimes: !(usesServerTimes && remotes.some(({ features }) => features.has('SlowModTime'))),
      env,
    })
    await driver.check(env.signal)
    return driver
  } catch (error) {
    await lease.release()
    throw error
  }
}

interface RcloneDependencies {
  readonly lease: ProcessLease
  readonly remote: Remote
  readonly facts: RemoteFacts
  /** Whether an upload is published when all of it has arrived. */
  readonly isObjectStore: boolean
  /** Whether the folders at the root are buckets, beside which there can be no files. */
  readonly isListOfBuckets: boolean
  /** Whether entries have the times that clients have set. */
  readonly hasClientTimes: boolean
  /** Whether the remote reports how much space it has, and how much of it is used. */
  readonly reportsUsage: boolean
  readonly env: DriverEnv
}

type Signal = AbortSignal | undefined

class RcloneDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly write?: NonNullable<Driver['write']>
  readonly mkdir?: NonNullable<Driver['mkdir']>
  readonly remove?: NonNullable<Driver['remove']>
  readonly move?: NonNullable<Driver['move']>
  readonly copy?: NonNullable<Driver['copy']>
  readonly usage?: NonNullable<Driver['usage']>
  readonly #remote: Remote
  readonly #files: RcloneFiles
  readonly #lease: ProcessLease
  readonly #features: ReadonlySet<string>
  readonly #isCaseSensitive: boolean
  readonly #hasEmptyFolders: boolean
  readonly #isObjectStore: boolean
  readonly #isListOfBuckets: boolean
  readonly #bodies = new ResponseBodies('remote', (error) => translated(error, undefined))
  readonly #mutex = new KeyedMutex()
  /**
   * Serializes uploads to one name of an object store: of two at once, the one that began last wins, and rclone may
   * remove what it finds in place of the other.
   */
  readonly #uploads = new KeyedMutex()
  readonly #replacements: Replacements
  readonly #stagedFiles: StagedFiles
  readonly #changes = new Set<Promise<unknown>>()

  constructor(dependencies: RcloneDependencies) {
    const { lease, remote, facts, isObjectStore, hasClientTimes, reportsUsage, env } = dependencies
    const { features, precision } = facts
    this.#remote = remote
    this.#lease = lease
    this.#features = features
    this.#isCaseSensitive = !features.has('CaseInsensitive')
    this.#hasEmptyFolders = features.has('CanHaveEmptyDirectories')
    this.#isObjectStore = isObjectStore
    this.#isListOfBuckets = dependencies.isListOfBuckets
    this.traits = {
      // Times are sent as HTTP dates, which have seconds. Remotes without times report a hundred years.
      timeStep: hasClientTimes && precision < 1e15 ? Math.max(1000, Math.ceil(precision / 1e6)) : Infinity,
      caseSensitive: this.#isCaseSensitive,
      emptyFolders: this.#hasEmptyFolders,
      ...(!features.has('PutStream') && { writeNeeds: 'size' }),
    }
    this.#files = new RcloneFiles(remote, { caseSensitive: this.#isCaseSensitive, emptyFolders: this.#hasEmptyFolders })
    const files = replacingFiles(remote, this.#files)
    const exclusively = <T>(path: Path, work: () => Promise<T>, signal?: Signal) =>
      this.#exclusively(path, work, signal)
    this.#replacements = new Replacements({ files, maxName: maxBackupName, env, exclusively })
    this.#stagedFiles = new StagedFiles({
      env,
      exclusively,
      remove: (path) => files.remove(path),
      isNeeded: (staged) => this.#replacements.isNeeded(staged),
    })
    // Without both, a staged file would be sent again to get its name, and a part of it could have that name.
    if (this.#isObjectStore || features.has('Move') || features.has('Copy')) {
      this.write = (path, source, options) => this.#write(path, source, options)
      this.mkdir = (path, options) => this.#mkdir(path, options)
      this.remove = (path, options) => this.#remove(path, options)
    }
    if (features.has('Move')) this.move = (from, to, options) => this.#move(from, to, options)
    if (features.has('Copy')) this.copy = (from, to, options) => this.#copy(from, to, options)
    if (reportsUsage) this.usage = (options) => this.#usage(options)
  }

  /** Checks that the root can be listed, and settles what an earlier run has left. */
  async check(signal: AbortSignal): Promise<void> {
    // First, because a listing removes staged files of earlier runs.
    await this.#replacements.load()
    for await (const page of this.pages(root, { signal })) if (page.length > 0) break
  }

  // Reading

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    await this.#replacements.settle()
    const { item } = await this.#files.stat(path, signal)
    if (!item) throw new GatewayError('not_found')
    return path === '/' ? { ...this.#entry(item), name: '' } : this.#entry(item)
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    await this.#replacements.settle()
    for await (const items of this.#files.members(path, signal)) {
      const shown = items.filter((item) => isShown(item) && !this.#isTemporary(path, item.name))
      yield* inPages(shown.map((item) => this.#entry(item)))
    }
  }

  async read(
    path: Path,
    { offset, length }: ByteRange = { offset: 0 },
    { signal }: CallOptions = {},
  ): Promise<Readable> {
    await this.#replacements.settle()
    const { at, item } = await this.#files.file(path, signal)
    const expected = Math.min(length ?? Infinity, Math.max(0, this.#entry(item).size - offset))
    // Beyond the end, rclone answers with an invalid range.
    if (expected === 0) return Readable.from([], { objectMode: false })
    const isWhole = offset === 0 && expected === item.size
    const range = isWhole ? undefined : `bytes=${offset}-${offset + expected - 1}`
    const { status, headers, body } = await this.#remote.get(at, range, signal).catch((error: unknown) => {
      throw isMissing(error) ? new GatewayError('not_found', { cause: error }) : error
    })
    if (status !== (isWhole ? 200 : 206) || headers['content-length'] !== String(expected)) {
      body.destroy()
      throw new GatewayError('unavailable', {
        reason: 'the file changed while it was opened, or the remote has no ranges',
      })
    }
    return this.#bodies.track(body, expected, signal)
  }

  #entry(item: Item): Entry {
    if (!isShown(item))
      throw new GatewayError('unsupported', { reason: 'the remote does not know the size of the file' })
    return entryOf(item, this.#hasEmptyFolders)
  }

  // Writing

  async #write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    if (source.size === undefined && !this.#features.has('PutStream'))
      throw new GatewayError('unsupported', { reason: 'the size must be known' })
    return this.#changing(path, options.signal, async () => {
      const target = await this.#replaceable(path, options)
      if (this.#isObjectStore)
        return this.#uploads.run(target, () => this.#writeInPlace(target, source, options), options.signal)
      const { signal, modified } = options
      const fill = async (staged: Path) => {
        const size = await this.#remote.upload(staged, { source, signal, modified })
        await this.#assertSize(staged, size, signal)
      }
      return this.#entry(await this.#writeStaged(target, options, fill))
    })
  }

  /** Writes a staged file with `fill` and gives it its name. The old file is intact until the new one is stored. */
  #writeStaged(path: Path, options: WriteOptions, fill: (staged: Path) => Promise<void>): Promise<Item> {
    const { signal, createOnly } = options
    return this.#stagedFiles.write(path, options, fill, async (_move, staged) => {
      await this.#replacements.settleAt(path)
      if (createOnly === true) await this.#assertFree(path, signal)
      throwIfAborted(signal)
      return this.#published(path, await this.#rename(staged, path, true))
    })
  }

  /**
   * Gives a file a name, which may be that of another file. Resolves to whether it was. Rejects with `is_folder`. Must
   * run exclusively for `to`.
   */
  async #rename(from: Path, to: Path, isStaged: boolean): Promise<'replaced' | 'new'> {
    const { item } = await this.#files.find(to, undefined)
    if (item?.isFolder === true) throw new GatewayError('is_folder')
    if (item) {
      await this.#replacements.replace(from, to, isStaged)
      return 'replaced'
    }
    await this.#remote.moveFile(from, to).catch(async (error: unknown) => {
      const isMoved = !(await this.#files.find(from, undefined)).item && (await this.#files.find(to, undefined)).item
      if (!isMoved) throw error
    })
    return 'new'
  }

  /** The file that was published. Rejects with `invalid` if the remote has given a new file another name. */
  async #published(path: Path, outcome: 'replaced' | 'new'): Promise<Item> {
    for (let tries = 0; tries < listingTries; tries++) {
      // A listing may be a moment late.
      if (tries > 0) await pause(listingPause)
      const { item } = await this.#files.find(path, undefined)
      if (item) return item
    }
    const item = await this.#remote.findFile(path, undefined)
    if (!item) throw new GatewayError('unavailable', { reason: 'the remote does not show the stored file' })
    if (outcome === 'replaced') return item
    await this.#stagedFiles.discard(path)
    throw unkeptName()
  }

  /** Rejects with `exists`. Most remotes do not create atomically, so callers must run exclusively. */
  async #assertFree(path: Path, signal: Signal): Promise<void> {
    if ((await this.#files.find(path, signal)).item) throw new GatewayError('exists')
  }

  /** Whether it is a staged file or a file that is being replaced. Schedules the removal of orphans. */
  #isTemporary(folder: Path, name: string): boolean {
    return this.#replacements.isBackup(childOf(folder, name)) || this.#stagedFiles.isStaged(folder, name)
  }

  /** Uploads to the name itself: object stores publish an object when all of it has arrived. */
  async #writeInPlace(path: Path, source: Source, options: WriteOptions): Promise<Entry> {
    const { signal, modified, createOnly, beforePublish } = options
    let finish: () => void = () => undefined
    const finished = new Promise<void>((resolve) => (finish = resolve))
    // From the check before the last byte until the object is stored, nothing else changes this name.
    const beforeEnd = () =>
      new Promise<void>((resolve, reject) => {
        const publish = async () => {
          if (createOnly === true) await this.#assertFree(path, signal)
          await beforePublish?.()
          throwIfAborted(signal)
          resolve()
          await finished
        }
        this.#exclusively(path, publish, signal).catch(reject)
      })
    try {
      const size = await this.#remote.upload(path, { source, signal, modified, beforeEnd })
      return this.#entry(await this.#assertSize(path, size, undefined))
    } finally {
      finish()
    }
  }

  /** The stored file. Rejects with `unavailable` if it does not have this size. */
  async #assertSize(path: Path, size: number, signal: Signal): Promise<Item> {
    const item = await this.#remote.findFile(path, signal)
    if (item?.size === size) return item
    throw new GatewayError('unavailable', { reason: `the remote has stored ${item?.size ?? 0} of ${size} bytes` })
  }

  /**
   * Returns the target of a write to this path. Rejects with `is_folder`, with `parent_missing`, with `exists` if
   * `createOnly` is set, and with `denied` next to buckets.
   */
  async #replaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<Path> {
    this.#assertInBucket(path)
    const { at, item } = await this.#files.target(path, signal)
    if (item && createOnly === true) throw new GatewayError('exists')
    if (item?.isFolder === true) throw new GatewayError('is_folder')
    return at
  }

  #assertInBucket(path: Path): void {
    if (!this.#isListOfBuckets || parentOf(path) !== root) return
    throw new GatewayError('denied', {
      reason: 'a file cannot be at the root of this remote, where each folder is a bucket: make a folder first',
    })
  }

  // Folders, removal, moves and copies

  async #mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#changing(path, signal, () =>
      this.#exclusively(
        path,
        async () => {
          const make = async () => {
            const location = await this.#files.target(path, signal)
            if (!location.item && this.#hasEmptyFolders) await this.#remote.makeFolder(location.at, signal)
            return location
          }
          const { at, item } = await make().catch((error: unknown) => {
            if (!failureOf(error)) throw error
            // Another request may have been creating or removing the parent.
            return make()
          })
          if (item) throw new GatewayError('exists')
          if (!this.#hasEmptyFolders) return
          if (this.#isCaseSensitive || (await this.#files.find(at, undefined)).item) return
          await this.#remote.removeEmptyFolder(at, undefined)
          throw unkeptName()
        },
        signal,
      ),
    )
  }

  async #remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#changing(path, signal, async () => {
      const { at, item } = await this.#files.find(path, signal)
      if (!item) throw new GatewayError('not_found')
      if (!item.isFolder) return this.#remote.removeFile(at, signal)
      if (!this.#hasEmptyFolders) throw new GatewayError('not_empty')
      return this.#remote.removeEmptyFolder(at, signal).catch(async (error: unknown) => {
        if (!failureOf(error)) throw error
        await this.#removeOrphans(at, error, signal)
        await this.#remote.removeEmptyFolder(at, signal)
      })
    })
  }

  /**
   * Removes the orphans of a folder that could not be removed because of `error`. Rejects with `not_empty` if it has
   * other members, and with `error` if it has none.
   */
  async #removeOrphans(folder: Path, error: unknown, signal: Signal): Promise<void> {
    const orphans: Path[] = []
    for await (const items of this.#files.members(folder, signal)) {
      const paths = items.map(({ name }) => childOf(folder, name))
      if (!paths.every((path) => this.#stagedFiles.isOrphan(path)))
        throw new GatewayError('not_empty', { cause: error })
      orphans.push(...paths)
    }
    if (orphans.length === 0) throw error
    for (const orphan of orphans) await this.#stagedFiles.removeOrphan(orphan)
  }

  async #move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#changing(to, signal, async () => {
      const source = await this.#files.find(from, signal)
      if (!source.item) throw new GatewayError('not_found')
      const { isFolder } = source.item
      if (!isFolder) this.#assertInBucket(to)
      const target = await this.#files.target(to, signal)
      const isSame = target.item !== undefined && target.at === source.at
      if (target.item?.isFolder === true && !isSame) throw new GatewayError('is_folder')
      if (target.item && isFolder && !isSame) throw new GatewayError('exists')
      if (isFolder && !(this.#features.has('DirMove') && this.#hasEmptyFolders)) throw new GatewayError('unsupported')
      throwIfAborted(signal)
      await this.#exclusively(to, async () => {
        if (isSame) {
          await this.#replacements.respell(source.at, childOf(parentOf(source.at), nameOf(to)), isFolder)
        } else if (isFolder) await this.#remote.moveFolder(source.at, target.at)
        else await this.#rename(source.at, target.at, false)
      })
    })
  }

  async #copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { signal, modified } = options
    await this.#changing(to, signal, async () => {
      const { at, item } = await this.#files.file(from, signal)
      const target = await this.#replaceable(to, options)
      const keepsTime = modified === undefined || modified.getTime() === item.modified.getTime()
      if (!keepsTime && this.traits.timeStep !== Infinity) throw new GatewayError('unsupported')
      const isCopied = this.#isObjectStore && (await this.#copyInPlace(at, target, options))
      if (isCopied) return
      await this.#writeStaged(target, options, (staged) => this.#remote.copyFile(at, staged, undefined))
    })
  }

  /** Copies to the name itself, unless it is taken: rclone would remove the file there first. */
  #copyInPlace(from: Path, to: Path, { signal, beforePublish }: WriteOptions): Promise<boolean> {
    const copy = async () => {
      if ((await this.#files.find(to, signal)).item) return false
      await beforePublish?.()
      throwIfAborted(signal)
      await this.#remote.copyFile(from, to, undefined)
      return true
    }
    return this.#exclusively(to, copy, signal)
  }

  async #usage({ signal }: CallOptions = {}): Promise<Usage> {
    const usage = await this.#remote.usage(signal)
    if (!usage) throw new GatewayError('unsupported')
    return usage
  }

  async close(): Promise<void> {
    this.#bodies.close()
    if (this.#changes.size > 0) await settlesWithin(Promise.allSettled(this.#changes), closeWait)
    // Changes that are not complete by now are settled by the next run.
    this.#remote.close()
    await this.#lease.release()
  }

  /**
   * Runs a change of `path`, which continues in the background if the signal aborts and it does not end soon. If rclone
   * refuses it and the name is long, that is most likely the reason.
   */
  async #changing<T>(path: Path, signal: Signal, change: () => Promise<T>): Promise<T> {
    throwIfAborted(signal)
    await this.#replacements.settle()
    const work = change().catch((error: unknown) => {
      if (!failureOf(error) || Buffer.byteLength(nameOf(path)) <= maxCertainName) throw error
      throw new GatewayError('invalid', { reason: 'the remote refuses the name, which may be too long', cause: error })
    })
    this.#changes.add(work)
    const forget = () => this.#changes.delete(work)
    work.then(forget, forget)
    return untilAborted(work, signal, { timeout: cleanupWait })
  }

  /** Runs changes of one name by this storage one after another. */
  #exclusively<T>(path: Path, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#mutex.run(this.#isCaseSensitive ? path : foldCase(path), work, signal)
  }
}

/** For names that a remote stores as others, as servers of Windows shares do with those of devices. */
function unkeptName(): GatewayError {
  return new GatewayError('invalid', { reason: 'the remote does not keep this name' })
}

/** The files of the remote as replacements use them. */
function replacingFiles(remote: Remote, files: RcloneFiles): ReplacingFiles {
  return {
    find: async (path) => (await files.find(path, undefined)).item,
    move: (from, to, isFolder) => (isFolder ? remote.moveFolder(from, to) : remote.moveFile(from, to)),
    remove: async (path) =>
      remote.removeFile(path, undefined).catch((error: unknown) => {
        if (!isMissing(error)) throw error
      }),
  }
}
