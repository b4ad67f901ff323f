/**
 * Reads and writes the content of files for one principal, by streams and by handles. Each is a transfer, which is
 * measured, throttled, and ended when the session is revoked. In this file, `at` is a path of the whole tree.
 */
import type { Readable } from 'node:stream'
import { joinSignals } from '../base/cancellation.js'
import type { OpenFile, OpenMode, WritableFile } from '../contract/capabilities.js'
import type { ByteRange, Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import type { Release } from '../base/fair-share.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { newFileMode } from '../contract/modes.js'
import { checkName, nameOf, type Path } from '../base/path.js'
import { byteSource } from '../contract/sources.js'
import { passedFile, PassedStream, type FileEdge } from '../storage/edge.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import type { ResumableUpload } from '../storage/fallbacks/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import type { DownloadRoute, DownloadRouteOptions } from '../download-urls/download-routing.js'
import type { Access, Place } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { removeEntry } from './follow-up.js'
import { makeMissingParents } from './missing-folders.js'
import { assertUnlocked, Change, gatewayAuthority, type ChangeScope, type OnePath, type Target } from './change.js'
import type { AccessOptions, ChangeOptions, TreeReadOptions, Reservation, WriteResult } from './operation-options.js'
import { etagOf } from './preconditions.js'

/** Descriptors that one of these holds: the file, and the folder in which it is staged or named. */
const descriptorsOf = { read: 1, update: 2, replace: 2 } as const

const emptySource = byteSource(Buffer.alloc(0))

/** Options of a write. */
export interface FileWriteOptions extends ChangeOptions {
  /** Creates missing folders. */
  readonly parents?: boolean | undefined
  /** For a task that can resume the upload. */
  readonly resumable?: ResumableUpload | undefined
}

/** Options of an open for writing. */
export interface FileOpenOptions extends ChangeOptions {
  /** What was written can be read before it is published. */
  readonly readable?: boolean | undefined
  /** Returns the permission bits, given the file that is replaced. */
  readonly modeOver?: ((old: Entry | undefined) => number | undefined) | undefined
  /** Called while the path lock is held. A rejection leaves the old file unchanged. */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** A handle for writing, and the file that it replaces. */
export interface WritableTreeFile extends WritableFile {
  /** The file that had this name when the handle was opened. */
  readonly old: Entry | undefined
  /**
   * Whether the file was copied to another path and removed here, by a move that the backend could not make as a
   * rename. A handle that changes the file in place then rejects changes with `busy`.
   */
  readonly isMovedAway: () => boolean
}

/** With a `route`, the client may be redirected. */
export interface SendingOptions extends AccessOptions {
  readonly route?: DownloadRouteOptions['route'] | undefined
  readonly withoutProxy?: boolean | undefined
  readonly client?: DownloadRouteOptions['client']
}

/**
 * A file to be sent to a client, or the URL to which the client is to be redirected. `file`: absent if the backend has
 * no handles of its own; each part is then requested by `read`.
 */
export type FileToSend =
  | { readonly kind: 'stream'; readonly entry: Entry; readonly file: OpenFile | undefined }
  | Exclude<DownloadRoute, { readonly kind: 'stream' }>

export class FileContent {
  constructor(
    private readonly dependencies: Pick<
      TreeDependencies,
      'mounts' | 'intents' | 'locks' | 'pathLocks' | 'bandwidth' | 'downloadRouting' | 'descriptors' | 'inPlaceHandles'
    >,
    private readonly access: Access,
    private readonly tree: MountedTree,
    private readonly scope: ChangeScope,
    private readonly meter: TransferMeter,
  ) {}

  // Reading: `place` is authorized, and its symlinks are resolved.

  /** `path`: the principal's own, for the errors of the stream. */
  async read(path: Path, place: Place, range: ByteRange | undefined, options: TreeReadOptions): Promise<Readable> {
    const { storage, inner } = this.tree.locate(place.at)
    const { principal } = this.access
    const release = this.#takeDescriptors('read')
    const joined = joinSignals(options.signal, principal.signal)
    const { signal } = joined
    const transfer = this.meter.start(storage, 'read')
    const ended = () => {
      joined.release()
      release()
    }
    try {
      const { entry } = options
      const stored = await storage.read(inner, range, { signal, user: principal.holder, entry })
      const failed = (error: unknown) => this.access.redaction.error(error, 'read', path)
      const passed = new PassedStream(stored, { limit: this.dependencies.bandwidth.toClients, failed, signal })
      const bytes = transfer.deliver(passed).once('close', ended)
      try {
        if (signal.aborted) throw new GatewayError('aborted')
        await this.access.symlinks.assertNone('read', place, options)
        return bytes
      } catch (error) {
        bytes.destroy()
        throw error
      }
    } catch (error) {
      transfer.end(error)
      ended()
      throw error
    }
  }

  /** Opens a handle for reads. `path`: the principal's own, for its errors. */
  async openToRead(path: Path, place: Place, options: AccessOptions): Promise<OpenFile> {
    const { storage, inner } = this.tree.locate(place.at)
    const call = { signal: options.signal, user: this.access.principal.holder }
    return this.#readHandle(path, place, storage, () => storage.open(inner, 'read', call), options)
  }

  /** As `VirtualFs.openToSend`. */
  async openToSend(path: Path, place: Place, options: SendingOptions): Promise<FileToSend> {
    const { storage, inner } = this.tree.locate(place.at)
    const { signal, route, withoutProxy, client } = options
    if (route !== undefined) {
      const { downloadRouting } = this.dependencies
      const decision = await downloadRouting.route(storage, inner, { route, withoutProxy, client, signal })
      if (decision.kind !== 'stream') return decision
    }
    const call = { signal, user: this.access.principal.holder }
    const file = await this.#readHandle(path, place, storage, () => storage.openOwn(inner, 'read', call), options)
    // Not from the cached listing: the size and the entity tag must be those of the bytes that are sent.
    const entry = file ? file.entry : await storage.stat(inner, { signal, refresh: true })
    return { kind: 'stream', entry, file }
  }

  /** Guards the handle that `open` returns. */
  async #readHandle<File extends OpenFile | undefined>(
    path: Path,
    place: Place,
    storage: Storage,
    open: () => Promise<File>,
    options: AccessOptions,
  ): Promise<OpenFile | File> {
    const release = this.#takeDescriptors('read')
    const hooks = this.meter.handle(storage, 'read', options.signal)
    const closed = () => {
      hooks.closed()
      release()
    }
    let file: File | undefined
    try {
      file = await open()
      if (!file) {
        closed()
        return file
      }
      await this.access.symlinks.assertNone('read', place, options)
      return this.#passed(path, file, options.signal, { ...hooks, closed })
    } catch (error) {
      hooks.failed(error)
      closed()
      await file?.close()
      throw error
    }
  }

  /**
   * Takes what a stream or a handle holds until it is closed. Throws `busy` if that is more than the share of the user.
   */
  #takeDescriptors(openMode: OpenMode): Release {
    return this.dependencies.descriptors.take(this.access.principal.holder, descriptorsOf[openMode])
  }

  // Writing: `path` is the principal's own.

  /** Replaces or creates a file. Resolves when it is stored. */
  async write(path: Path, source: Source, options: FileWriteOptions): Promise<WriteResult> {
    const { entry, created } = await this.#write(path, source, options)
    return { entry, created }
  }

  /** Creates an empty file. Rejects with `exists` if the name is taken. */
  async reserve(path: Path, options: ChangeOptions): Promise<Reservation> {
    const { entry, at, storage } = await this.#write(path, emptySource, { ...options, createOnly: true })
    const release = () =>
      new Change<OnePath>(
        { ...this.scope, authority: gatewayAuthority },
        {
          options: { ifMatch: [etagOf(entry)] },
          preferred: () => storage,
          resolve: async () => [{ at, look: undefined }],
          load: 'symlink',
          touches: () => [{ path: at, membership: true }],
        },
      )
        .underLocks((target) => removeEntry(this.dependencies, target, false, {}))
        .catch((error: unknown) => {
          // Another request has removed, replaced or changed the file.
          if (!isGatewayError(error, 'not_found', 'precondition_failed')) throw error
        })
    return { entry, release }
  }

  #write(path: Path, source: Source, options: FileWriteOptions): Promise<WriteResult & Pick<Target, 'at' | 'storage'>> {
    const work = async (signal: AbortSignal | undefined) => {
      const writing = this.#writing(path, { ...options, signal })
      return writing.publish(async ({ at, storage, inner, entry: old }) => {
        if (options.parents === true && !old)
          await makeMissingParents(this.access, this.scope, at, { ...options, preferred: storage })
        let created = !old
        const beforePublish = async () => {
          if (source.bytes) transfer.count(source.bytes.length)
          const [{ entry }] = await writing.begin()
          this.access.assertNotRevoked()
          created = !entry
        }
        const { principal } = this.access
        // Bytes in memory are stored at once.
        const release = source.bytes ? undefined : this.#takeDescriptors('replace')
        // A body may take longer to arrive than the timeout of the lock that its sender presents.
        const stopExtending = this.dependencies.locks.extendDuring(at, options.lockTokens ?? [], principal)
        const transfer = this.meter.start(storage, 'write')
        try {
          const { createOnly, modified, resumable } = options
          const mode = askedMode(options)
          const write = { user: principal.holder, createOnly, modified, mode, resumable, beforePublish }
          const send = (until: AbortSignal | undefined) =>
            storage.write(inner, transfer.counted(source), { ...write, signal: until })
          const entry = await transfer.run(() =>
            source.bytes && storage.traits.remote ? this.access.untilRevoked(writing, send) : send(writing.signal),
          )
          return { entry, created, at, storage }
        } finally {
          stopExtending()
          release?.()
        }
      })
    }
    // Nothing of bytes in memory for a local storage has to be interrupted: `beforePublish` refuses a revoked session.
    return source.bytes ? work(options.signal) : this.access.untilRevoked(options, work)
  }

  /** Rejects as `write` does before it reads the body. */
  async assertWritable(path: Path, options: ChangeOptions): Promise<void> {
    await this.#writing(path, options).check()
  }

  /** Opens a handle for writes: 'update' in place, 'replace' to a file that `commit` publishes. */
  async openToWrite(path: Path, openMode: 'update' | 'replace', options: FileOpenOptions): Promise<WritableTreeFile> {
    const writing = this.#writing(path, options, openMode)
    const [target] = await writing.check()
    const { storage, inner, entry: old } = target
    const mustExist = openMode === 'update'
    const { createOnly, modified, readable } = options
    const beforePublish = async () => {
      const [{ entry }] = await writing.begin()
      try {
        // Other requests may have made or removed the file since it was opened.
        if (entry && createOnly === true) throw new GatewayError('exists')
        if (!entry && mustExist) throw new GatewayError('not_found')
        await options.beforePublish?.()
      } catch (error) {
        writing.release()
        throw error
      }
    }
    const mode = askedMode(options) ?? options.modeOver?.(old)
    const { signal } = writing
    const { holder: user } = this.access.principal
    const hooks = this.meter.handle(storage, openMode, signal)
    let release: Release | undefined
    try {
      release = this.#takeDescriptors(openMode)
      const { file, isMovedAway } = mustExist
        ? await this.dependencies.inPlaceHandles.open(target, () =>
            storage.open(inner, openMode, { signal, user, readable: true, beforePublish }),
          )
        : {
            file: await storage.open(inner, openMode, {
              signal,
              user,
              createOnly,
              modified,
              mode,
              readable,
              beforePublish,
            }),
            isMovedAway: () => false,
          }
      const closed = () => {
        hooks.closed()
        writing.end()
        release?.()
      }
      // A file that is replaced is checked when it is published.
      const changing = mustExist ? () => assertUnlocked(this.scope, { path: target.at }, options) : undefined
      // A commit that failed may be repeated until the handle is closed.
      const edge = { ...hooks, changing, closed, ended: () => writing.release() }
      return Object.assign(this.#passed(path, file, signal, edge), { old, isMovedAway })
    } catch (error) {
      hooks.failed(error)
      hooks.closed()
      writing.end()
      release?.()
      throw error
    }
  }

  /**
   * The handle behind the tree's edge: every call rejects with `unauthenticated` once the principal is revoked, and
   * errors are redacted. `path`: the principal's own. `edge`: the rest of it; the result of `failed` is ignored.
   */
  #passed(path: Path, file: WritableFile, signal: AbortSignal | undefined, edge: FileEdge): WritableFile
  #passed(path: Path, file: OpenFile, signal: AbortSignal | undefined, edge: FileEdge): OpenFile
  #passed(path: Path, file: OpenFile, signal: AbortSignal | undefined, edge: FileEdge): OpenFile {
    const { access } = this
    const { toClients: reading, fromClients: writing } = this.dependencies.bandwidth
    // By name: to spread an object that was made by a spread takes a microsecond and more.
    const { didRead, didWrite, changing, committing, closed, ended } = edge
    return passedFile(file, {
      check: () => access.assertNotRevoked(),
      limits: { reading, writing, signals: [signal, access.principal.signal] },
      didRead,
      didWrite,
      changing,
      committing,
      failed: (error, op) => {
        edge.failed?.(error, op)
        return access.redaction.error(error, op, path)
      },
      closed,
      ended,
    })
  }

  /** Replaces or creates a file. `openMode`: that of the handle, if it is written through one. */
  #writing(path: Path, options: ChangeOptions, openMode?: 'update' | 'replace'): Change<OnePath> {
    return new Change(this.scope, {
      options,
      resolve: this.access.resolver('write', path, options),
      require: (target) => {
        const { at, entry } = target
        if (this.dependencies.mounts.isMountFolder(at)) throw new GatewayError('is_folder')
        target.storage.assertWritable()
        if (entry?.kind === 'folder') throw new GatewayError('is_folder')
        if (!entry) checkName(nameOf(at))
        if (entry && openMode === undefined && options.createOnly === true) throw new GatewayError('exists')
        if (openMode !== 'replace' || entry?.kind !== 'symlink') return
        throw new GatewayError('denied', { detail: 'dangling_symlink' })
      },
      touches: ({ at, entry }) => [{ path: at, membership: !entry }],
    })
  }
}

function askedMode({ mode }: ChangeOptions): number | undefined {
  return mode === undefined ? undefined : newFileMode(mode)
}
