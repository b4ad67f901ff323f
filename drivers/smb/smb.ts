/** The SMB driver: a folder of a share on an SMB server. Names are case-insensitive. */
import type { Readable } from 'node:stream'
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type {
  Attributes,
  OpenFile,
  OpenMode,
  OpenOptions,
  Upload,
  UploadPlan,
  Usage,
} from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { inPages, type Entry } from '../../src/contract/entry.js'
import { GatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { childOf, cleanPath, nameOf, parentOf, segmentsOf, type Path } from '../../src/base/path.js'
import { BackgroundDeleter } from '../lib/staged-files/background-deleter.js'
import { createReadStream, writeAll } from '../lib/streams/pipelined-io.js'
import { requireRootFolder } from '../lib/require-root-folder.js'
import { isOrphan, parseResumeToken, resumablePaths, stagingRun, stagedName } from '../lib/staged-files/staged-names.js'
import {
  discardLateUpload,
  checkpointPolicy,
  StagedUpload,
  type CheckpointPolicy,
} from '../lib/staged-files/staged-upload.js'
import type { FileFacts, FileId } from './client/messages.js'
import { Share } from './client/share.js'
import { entryOf, isFolder } from './entry.js'
import { isStatus, translateError } from './errors.js'
import type { SmbOptions } from './index.js'
import { SmbLocations } from './locations.js'
import { folderOf, isAmbiguous, isSameName, joinWirePath, nameFromWire, wireName } from './names.js'
import { SharePool, shareOptionsOf } from './shares.js'
import { SmbStaging } from './staging.js'
import { renamePath, fileOperations, pipelinedFile, withErrorTranslation } from './open-files.js'
import { status } from './client/errors.js'

/** Milliseconds that closing waits for aborted writes. */
const closeTimeout = 2000

/** Maximum number of orphaned staged files that the removal of a folder deletes first. */
const maxOrphans = 1000

export async function openSmb(
  options: SmbOptions,
  env: DriverEnv,
  checkpoints: CheckpointPolicy = checkpointPolicy,
): Promise<Driver> {
  const shareOptions = shareOptionsOf(options)
  const root = segmentsOf(cleanPath(options.root_folder_path)).map(wireName).join('\\')
  return requireRootFolder(
    new SmbDriver((signal) => Share.open(shareOptions, signal), root, env, checkpoints),
    env.signal,
  )
}

class SmbDriver implements Driver {
  readonly #locations: SmbLocations
  /**
   * Servers refuse to replace a file, or to rename a folder that contains a file, that is open on the same connection.
   * Files that are open for reading or for in-place changes therefore use separate connections.
   */
  readonly #readers: SharePool
  readonly #writers: SharePool
  readonly #deleter: BackgroundDeleter
  readonly #staging: SmbStaging

  constructor(
    connect: (signal: AbortSignal) => Promise<Share>,
    root: string,
    private readonly env: DriverEnv,
    private readonly checkpoints: CheckpointPolicy,
  ) {
    this.#locations = new SmbLocations(root)
    this.#readers = new SharePool(connect)
    this.#writers = new SharePool(connect)
    this.#deleter = new BackgroundDeleter(async (wire) => {
      // A resumable upload may still need the file.
      const resumable = [...resumablePaths(await env.resumableUploads())].map((path) => this.#locations.wirePath(path))
      if (resumable.some((each) => isSameName(each, wire))) return
      await this.#within(env.signal, () => this.#writers.use((share) => share.removeAt(wire)))
    })
    this.#staging = new SmbStaging({
      instance: env.instance.name,
      locations: this.#locations,
      shares: this.#writers,
      deleteLater: (wire) => this.#deleter.enqueue(wire),
    })
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    return this.#within(signal, () => this.#readers.useIdempotent((share) => this.#locations.entryAt(share, path)))
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // All pages are read through one handle, so only the first page can be retried on another connection.
    const { lease, id, first, close } = await this.#within(
      signal,
      () => this.#openToList(path),
      ({ close }) => close(),
    )
    const { share } = lease
    let next: Promise<readonly FileFacts[]> = Promise.resolve(first)
    try {
      for (;;) {
        const names = await this.#within(signal, () => next)
        if (names.length === 0) return
        next = share.readDirectory(id, false)
        next.catch(() => undefined) // reported when the page is awaited
        yield* inPages(this.#entries(names, path))
      }
    } finally {
      // The handle must be closed before the caller removes the folder on another connection.
      const closed = close()
      await this.#within(signal, () => closed).catch(() => undefined)
    }
  }

  async #openToList(path: Path) {
    return this.#readers.useIdempotent(async (share) => {
      const { id } = await this.#locations.withServerPath(share, path, (wire) => share.open(wire, 'folder'))
      const { lease, close } = this.#retain(share, id)
      try {
        return { lease, id, close, first: await share.readDirectory(id, true) }
      } catch (error) {
        await close()
        throw error
      }
    })
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { lease, id, facts, close } = await this.#within(
      signal,
      () => this.#openToRead(path),
      ({ close }) => close(),
    )
    return createReadStream(pipelinedFile(lease.share, id), range, { size: facts.size, signal, onEnd: close })
  }

  async #openToRead(path: Path, purpose: 'read' | 'update' = 'read') {
    return this.#readers.useIdempotent(async (share) => {
      const { id, facts } = await this.#locations.withServerPath(share, path, (wire) =>
        share.openWithFacts(wire, purpose),
      )
      return { id, facts, ...this.#retain(share, id) }
    })
  }

  /**
   * Retains the connection of an open file. `close` closes the file and releases the connection; later calls do
   * nothing.
   */
  #retain(share: Share, id: FileId) {
    const lease = this.#readers.retain(share)
    let isOpen = true
    const close = async () => {
      if (!isOpen) return
      isOpen = false
      await share.closeFile(id).catch(() => undefined)
      lease.release()
    }
    return { lease, close }
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    return this.#within(signal, async () => {
      const { lease, location, staged } = await this.#staging.stage(path, options)
      try {
        await writeAll(source, pipelinedFile(lease.share, staged.id), signal)
        throwIfAborted(signal)
        return await this.#staging.publish(staged, location, path, options)
      } catch (error) {
        await this.#staging.discard(staged)
        throw error
      } finally {
        lease.release()
      }
    })
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { signal } = options
    const { size, replaceToken: replace = async () => undefined } = plan
    const begin = async () => {
      const { lease, location, staged, committed } = await this.#staging.stage(path, options, plan)
      const name = staged.wirePath.slice(staged.wirePath.lastIndexOf('\\') + 1)
      return new StagedUpload(
        {
          size,
          signal,
          replaceToken: replace,
          file: pipelinedFile(lease.share, staged.id),
          resumable: { path: childOf(parentOf(path), name), committed },
          sync: () => withErrorTranslation(lease.share.flush(staged.id)),
          run: (work) => this.#within(signal, work),
          publish: () => this.#staging.publish(staged, location, path, options),
          close: async () => {
            await staged.close()
            lease.release()
          },
        },
        this.checkpoints,
      )
    }
    return this.#within(signal, begin, (late) => discardLateUpload(this, late))
  }

  async dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    const resumable = parseResumeToken(token)
    if (!resumable) return
    const remove = (share: Share) =>
      this.#locations.withServerPath(share, resumable.path, (wire) => share.removeAt(wire))
    const removed = this.#within(signal, () => this.#writers.useIdempotent(remove))
    await undefinedIfMissing(removed, 'not_folder')
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#writers.use(async (share) => {
        const { wire, facts } = isAmbiguous(path)
          ? await this.#locations.find(share, path)
          : { wire: this.#locations.wirePath(path), facts: undefined }
        if (facts !== undefined) throw new GatewayError('exists')
        await share.makeFolder(wire).catch((error: unknown) => this.#locations.refineCreateError(share, error, path))
      }),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#writers.use((share) =>
        this.#locations.withServerPath(share, path, async (wire) => {
          const temporary = joinWirePath(folderOf(wire), stagedName(this.env.instance.name))
          try {
            await share.removeAt(wire, temporary)
          } catch (error) {
            if (!isStatus(error, status.directoryNotEmpty) || !(await this.#removeOrphans(share, wire))) throw error
            await share.removeAt(wire, temporary)
          }
        }),
      ),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#writers.use(async (share) => {
        const [source, target] = await Promise.all([this.#locations.find(share, from), this.#locations.find(share, to)])
        if (source.facts === undefined) throw new GatewayError('not_found')
        const isSame = isSameName(from, to)
        const old = isSame ? undefined : target.facts
        if (old && isFolder(old)) throw new GatewayError('is_folder')
        if (old && isFolder(source.facts)) throw new GatewayError('exists')
        const wire = isSame ? joinWirePath(folderOf(source.wire), wireName(nameOf(to))) : target.wire
        try {
          await renamePath(share, source.wire, wire, old !== undefined)
        } catch (error) {
          if (this.#staging.isWritingIn(source.wire) && isStatus(error, status.accessDenied)) {
            throw new GatewayError('busy', { reason: 'an upload into this folder is in progress', cause: error })
          }
          await this.#locations.refineRenameError(share, error, to)
        }
      }),
    )
  }

  /** Server-side copy (MS-SMB2 §3.3.5.15.6). Rejects with `unsupported` if the server does not implement it. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    await this.#within(options.signal, async () => {
      const { lease, location, staged } = await this.#staging.stage(to, options)
      const { share } = lease
      try {
        const { id, facts } = await this.#locations.withServerPath(share, from, (wire) =>
          share.openWithFacts(wire, 'read'),
        )
        try {
          await share.copy(id, staged.id, facts.size)
        } finally {
          await share.closeFile(id).catch(() => undefined)
        }
        await this.#staging.publish(staged, location, to, { ...options, modified: options.modified ?? facts.modified })
      } catch (error) {
        await this.#staging.discard(staged)
        throw error
      } finally {
        lease.release()
      }
    })
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    return this.#within(
      options.signal,
      () => (mode === 'replace' ? this.#openToReplace(path, options) : this.#openInPlace(path, mode)),
      (file) => file.close(),
    )
  }

  async #openInPlace(path: Path, mode: 'read' | 'update'): Promise<OpenFile> {
    const { lease, id, facts, close } = await this.#openToRead(path, mode)
    const reported = nameFromWire(facts.name)
    // Some servers report the requested spelling, others report another name of the same file.
    const name = isSameName(reported, nameOf(path)) ? reported : nameOf(path)
    const { read, ...changes } = fileOperations(lease.share, id)
    return { entry: entryOf(name, facts), read, ...(mode === 'update' && changes), close }
  }

  async #openToReplace(path: Path, options: OpenOptions): Promise<OpenFile> {
    const { lease, location, staged } = await this.#staging.stage(path, options)
    let published: Entry | undefined
    return {
      entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
      ...fileOperations(lease.share, staged.id),
      commit: ({ modified = options.modified }: Attributes = {}) =>
        this.#within(options.signal, async () => {
          published ??= await this.#staging.publish(staged, location, path, { ...options, modified })
          return published
        }),
      close: async () => {
        await this.#staging.discard(staged)
        lease.release()
      },
    }
  }

  /** Sets the time only: SMB has no modes. */
  async setAttributes(path: Path, { modified }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#writers.useIdempotent((share) =>
        this.#locations.withServerPath(share, path, async (wire) => {
          if (modified === undefined) await share.facts(wire)
          else await share.setModifiedAt(wire, modified)
        }),
      ),
    )
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    const { total, available, free } = await this.#within(signal, () =>
      this.#readers.useIdempotent((share) => share.volumeSize(this.#locations.root)),
    )
    return { total, used: total - free, free: available }
  }

  async close(): Promise<void> {
    // A write that was aborted still removes what it has staged.
    await this.#writers.whenIdle(closeTimeout)
    this.#readers.close()
    this.#writers.close()
  }

  #entries(names: readonly FileFacts[], folder: Path): Entry[] {
    const entries: Entry[] = []
    for (const facts of names) {
      if (facts.name === '.' || facts.name === '..') continue
      if (stagingRun(facts.name) !== undefined) {
        const wire = joinWirePath(this.#locations.wirePath(folder), facts.name)
        if (isOrphan(facts.name, this.env.instance)) this.#deleter.enqueue(wire)
        continue
      }
      entries.push(entryOf(nameFromWire(facts.name), facts))
    }
    return entries
  }

  /**
   * Removes the orphaned staged files of `folder`, including those of resumable uploads. Resolves to true if it removed
   * at least one and found no other entry, so that the folder can be removed.
   */
  async #removeOrphans(share: Share, folder: string): Promise<boolean> {
    const { id } = await share.open(folder, 'folder')
    const orphans: string[] = []
    try {
      let names = await share.readDirectory(id, true)
      for (; names.length > 0 && orphans.length < maxOrphans; names = await share.readDirectory(id, false)) {
        for (const { name } of names) {
          if (isOrphan(name, this.env.instance) || this.#staging.isOrphan(joinWirePath(folder, name)))
            orphans.push(name)
          else if (name !== '.' && name !== '..') return false
        }
      }
    } finally {
      await share.closeFile(id).catch(() => undefined)
    }
    for (const name of orphans) await share.removeAt(joinWirePath(folder, name))
    return orphans.length > 0
  }

  // Calls

  /**
   * Runs `work` and translates its errors. Rejects with `aborted` as soon as the signal is aborted; `work` then
   * completes in the background, and `undo` releases what it opened.
   */
  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    throwIfAborted(signal)
    try {
      return await untilAborted(work(), signal, { undo })
    } catch (error) {
      throw translateError(error)
    }
  }
}
