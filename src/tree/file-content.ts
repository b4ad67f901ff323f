/**
 * Reads and writes the content of files, by streams and by handles. Each is a transfer, which is measured, throttled,
 * and ended when the session of the principal is revoked. In this file, `at` is a path of the whole tree.
 */
import type { Readable } from 'node:stream'
import { joinSignals } from '../base/cancellation.js'
import type { OpenFile, WritableFile } from '../contract/capabilities.js'
import type { ByteRange, CallOptions, Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import type { Release } from '../base/fair-share.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { newFileMode } from '../contract/modes.js'
import { checkName, nameOf, type Path } from '../base/path.js'
import { byteSource } from '../contract/sources.js'
import { passedFile, PassedStream, type FileEdge } from '../storage/edge.js'
import type { ResumableUpload } from '../storage/fallbacks/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import { MeteredTransfer, TransferMeter, type TransferEvent } from '../storage/transfer-meter.js'
import type { DownloadRoute, DownloadRouteOptions } from '../download-urls/download-routing.js'
import type { Access, Place } from './access.js'
import { removeEntry } from './follow-up.js'
import { makeMissingParents } from './missing-folders.js'
import { assertUnlocked, Change, gatewayAuthority, type OnePath, type Target } from './change.js'
import type { AccessOptions, ChangeOptions, TreeReadOptions, Reservation, WriteResult } from './operation-options.js'
import { etagOf } from './preconditions.js'
import { recordDone, recordFailure, recordRead, type EventDraft } from './recording.js'
import { redactedError } from './redaction.js'
import { assertNoSymlink } from './symlinks.js'

/** Descriptors that one of these holds: the file, and the folder in which it is staged or named. */
const descriptorsOf = { read: 1, update: 2, replace: 2 } as const

const emptySource = byteSource(Buffer.alloc(0))

/** Options of a write. */
export interface FileWriteOptions extends ChangeOptions {
  /** Creates missing folders. */
  readonly parents?: boolean | undefined
  /** The upload of a task that can resume it. */
  readonly resumable?: ResumableUpload | undefined
}

/** Options of an open for writing. */
export interface FileOpenOptions extends ChangeOptions {
  /**
   * The handle is also for reading: of 'replace', what was written, before it is published; of 'update', the file. By
   * default that of 'update' is.
   */
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

/** The options of sending a file. With a `route`, the client may be redirected. */
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

// Reading. `path` is the principal's own, here and below.

/** See `VirtualFs.read`. */
export async function read(
  access: Access,
  path: Path,
  range: ByteRange | undefined,
  options: TreeReadOptions,
): Promise<Readable> {
  const place = await access.resolveAndAuthorize('read', path, options)
  const { storage, inner } = access.dependencies.mounts.find(place.at)
  const { principal } = access
  const { bandwidth, descriptors, events } = access.dependencies
  const release = descriptors.take(principal.holder, descriptorsOf.read)
  const joined = joinSignals(options.signal, principal.signal)
  const { signal } = joined
  const onRead = (event: TransferEvent) => recordRead(access, place.at, event)
  const transfer = new MeteredTransfer(events, principal.protocol.name, storage.row, 'read', 1, onRead)
  const ended = () => {
    joined.release()
    release()
  }
  try {
    const { entry } = options
    const stored = await storage.read(inner, range, { signal, holder: principal.holder, entry })
    const failed = (error: unknown) => redactedError(access, error, 'read', path)
    const passed = new PassedStream(stored, { limit: bandwidth.toClients, failed, signal })
    const bytes = transfer.deliver(passed).once('close', ended)
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      await assertNoSymlink(access, 'read', place, options)
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

/** See `VirtualFs.open`. */
export async function openToRead(access: Access, path: Path, options: AccessOptions): Promise<OpenFile> {
  const place = await access.resolveAndAuthorize('read', path, options)
  const { storage, inner } = access.dependencies.mounts.find(place.at)
  return readHandle(access, path, place, storage, options, (call) => storage.open(inner, 'read', call))
}

/** See `VirtualFs.openToSend`. */
export async function openToSend(access: Access, path: Path, options: SendingOptions): Promise<FileToSend> {
  const place = await access.resolveAndAuthorize('read', path, options)
  const { storage, inner } = access.dependencies.mounts.find(place.at)
  const { signal, route, withoutProxy, client } = options
  if (route !== undefined) {
    const { downloadRouting } = access.dependencies
    const decision = await downloadRouting.route(storage, inner, { route, withoutProxy, client, signal })
    if (decision.kind !== 'stream') return decision
  }
  const file = await readHandle(access, path, place, storage, options, (call) => storage.openOwn(inner, 'read', call))
  // Not from the cached listing: the size and the entity tag must be those of the bytes that are sent.
  const entry = file ? file.entry : await storage.stat(inner, { signal, refresh: true })
  return { kind: 'stream', entry, file }
}

/** Guards the handle that `open` returns. */
async function readHandle<File extends OpenFile | undefined>(
  access: Access,
  path: Path,
  place: Place,
  storage: Storage,
  options: AccessOptions,
  open: (call: CallOptions) => Promise<File>,
): Promise<OpenFile | File> {
  const { signal } = options
  const { holder, protocol } = access.principal
  const { descriptors, events } = access.dependencies
  const release = descriptors.take(holder, descriptorsOf.read)
  const hooks = new TransferMeter(events, protocol.name).handle(storage, 'read', signal, (event) =>
    recordRead(access, place.at, event),
  )
  const closed = () => {
    hooks.closed()
    release()
  }
  let file: File | undefined
  try {
    file = await open({ signal, holder })
    if (!file) {
      closed()
      return file
    }
    await assertNoSymlink(access, 'read', place, options)
    return passedFile(file, edgeOf(access, path, signal, { ...hooks, closed }))
  } catch (error) {
    hooks.failed(error)
    closed()
    await file?.close().catch(() => undefined)
    throw error
  }
}

// Writing

/** Replaces or creates a file. Resolves when it is stored. */
export async function write(
  access: Access,
  path: Path,
  source: Source,
  options: FileWriteOptions,
  event: EventDraft,
): Promise<WriteResult> {
  const { entry, created, at, storage } = await store(access, path, source, options)
  wasStored(event, at, entry, storage, created)
  return { entry: access.decisions.factsOf(at, entry), created }
}

/** Creates an empty file. Rejects with `exists` if the name is taken. */
export async function reserve(
  access: Access,
  path: Path,
  options: ChangeOptions,
  event: EventDraft,
): Promise<Reservation> {
  const { dependencies } = access
  const { entry, at, storage } = await store(access, path, emptySource, { ...options, createOnly: true })
  wasStored(event, at, entry, storage, true)
  const release = () =>
    new Change<OnePath>(dependencies, gatewayAuthority, {
      options: { ifMatch: [etagOf(entry)] },
      preferred: () => storage,
      resolve: async () => [{ at }],
      load: 'symlink',
      touches: () => [{ path: at, membership: true }],
    })
      .underLocks((target) => removeEntry(dependencies, target, false, {}))
      .then(() => recordDone(access, { ...event, kind: 'removed', size: undefined }))
      .catch((error: unknown) => {
        // Another request has removed, replaced or changed the file.
        if (!isGatewayError(error, 'not_found', 'precondition_failed')) throw error
      })
  return { entry: access.decisions.factsOf(at, entry), release }
}

/** The event of a file that was stored as this entry. */
function wasStored(event: EventDraft, at: Path, entry: Entry, storage: Storage, created: boolean): void {
  event.kind = created ? 'file.stored' : 'file.replaced'
  event.path = at
  event.size = entry.size
  event.entry = 'file'
  event.storage = storage.mountPoint
}

async function store(
  access: Access,
  path: Path,
  source: Source,
  options: FileWriteOptions,
): Promise<WriteResult & Pick<Target, 'at' | 'storage'>> {
  const { principal } = access
  const { descriptors, events, locks } = access.dependencies
  const work = async (signal: AbortSignal | undefined) => {
    const writing = changeOf(access, path, { ...options, signal })
    return writing.publish(async ({ at, storage, inner, entry: old }) => {
      if (options.parents === true && !old) await makeMissingParents(access, at, { ...options, preferred: storage })
      // Bytes in memory are stored at once.
      const release = source.bytes ? undefined : descriptors.take(principal.holder, descriptorsOf.replace)
      const transfer = new MeteredTransfer(events, principal.protocol.name, storage.row, 'write')
      let stopExtending: (() => void) | undefined
      let created = !old
      const beforePublish = async () => {
        if (source.bytes) transfer.count(source.bytes.length)
        const [{ entry }] = await writing.begin()
        access.assertNotRevoked()
        created = !entry
      }
      try {
        // A body may take longer to arrive than the timeout of the lock that its sender presents.
        if (options.lockTokens) stopExtending = locks.extendDuring(at, options.lockTokens, principal)
        const { createOnly, modified, resumable } = options
        const mode = askedMode(options)
        const write = { holder: principal.holder, createOnly, modified, mode, resumable, beforePublish }
        const send = (until: AbortSignal | undefined) =>
          storage.write(inner, transfer.counted(source), { ...write, signal: until })
        const entry = await transfer.run(() =>
          source.bytes && storage.traits.remote ? access.untilRevoked(writing, send) : send(writing.signal),
        )
        return { entry, created, at, storage }
      } finally {
        stopExtending?.()
        release?.()
      }
    })
  }
  // Nothing of bytes in memory for a local storage has to be interrupted: `beforePublish` refuses a revoked session.
  return source.bytes ? work(options.signal) : access.untilRevoked(options, work)
}

/** Rejects as `write` does before it reads the body. */
export async function assertWritable(access: Access, path: Path, options: ChangeOptions): Promise<void> {
  await changeOf(access, path, options).check()
}

/**
 * Opens a handle for writes: 'update' in place, 'replace' to a file that `commit` publishes. `event`: that of each
 * commit, and of what was changed in place when it is closed.
 */
export async function openToWrite(
  access: Access,
  path: Path,
  openMode: 'update' | 'replace',
  options: FileOpenOptions,
  event: EventDraft,
): Promise<WritableTreeFile> {
  const { holder: user, protocol } = access.principal
  const { descriptors, events, inPlaceHandles, locks } = access.dependencies
  const writing = changeOf(access, path, options, openMode)
  const [target] = await writing.check()
  const { storage, inner, entry: old } = target
  const mustExist = openMode === 'update'
  const { createOnly, modified, readable } = options
  const facts = { path: target.at, entry: 'file', storage: storage.mountPoint } as const
  const recording = new HandleRecording(access, { ...event, ...facts })
  const beforePublish = async () => {
    const [{ entry }] = await writing.begin()
    recording.creates = !entry
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
  const hooks = new TransferMeter(events, protocol.name).handle(storage, openMode, signal, (read) =>
    recordRead(access, target.at, read),
  )
  const call = { signal, user, beforePublish }
  let release: Release | undefined
  const closed = () => {
    hooks.closed()
    recording.closed(mustExist)
    writing.end()
    release?.()
  }
  try {
    release = descriptors.take(user, descriptorsOf[openMode])
    const { file, isMovedAway } = mustExist
      ? await inPlaceHandles.open(target, () => storage.open(inner, openMode, { ...call, readable: true }))
      : {
          file: await storage.open(inner, openMode, { ...call, createOnly, modified, mode, readable }),
          isMovedAway: () => false,
        }
    // A file that is replaced is checked when it is published.
    const changing = () => {
      recording.hasChanges = true
      return mustExist ? assertUnlocked(locks, access.principal, { path: target.at }, options) : undefined
    }
    // A commit that failed may be repeated until the handle is closed.
    const edge = {
      ...hooks,
      changing,
      committed: (stored: Entry) => recording.stored(stored),
      failed: (error: unknown) => {
        hooks.failed(error)
        recording.failure = toGatewayError(error)
      },
      closed,
      ended: () => writing.release(),
    }
    return Object.assign(passedFile(file, edgeOf(access, path, signal, edge)), { old, isMovedAway })
  } catch (error) {
    hooks.failed(error)
    closed()
    throw error
  }
}

/** Records what is done by a handle that writes: each commit, and when it is closed, what was changed otherwise. */
class HandleRecording {
  /** Whether the commit makes a new file. */
  creates = false
  /** Whether anything was changed since the last commit. */
  hasChanges = false
  failure: GatewayError | undefined

  constructor(
    private readonly access: Access,
    private readonly event: EventDraft,
  ) {}

  async stored(entry: Entry): Promise<Entry> {
    this.hasChanges = false
    this.failure = undefined
    this.event.kind = this.creates ? 'file.stored' : 'file.replaced'
    this.event.size = entry.size
    await recordDone(this.access, this.event)
    return entry
  }

  closed(isInPlace: boolean): void {
    const error = this.failure ?? (isInPlace ? undefined : new GatewayError('aborted'))
    if (!this.hasChanges) return
    void (error ? recordFailure(this.access, this.event, error) : recordDone(this.access, this.event))
  }
}

/**
 * The edge of the tree, for a handle: every call rejects with `unauthenticated` once the principal is revoked, and
 * errors are redacted. `edge`: the rest of it; the result of `failed` is ignored.
 */
function edgeOf(access: Access, path: Path, signal: AbortSignal | undefined, edge: FileEdge): FileEdge {
  const { toClients: reading, fromClients: writing } = access.dependencies.bandwidth
  // By name: to spread an object that was made by a spread takes a microsecond and more.
  const { didRead, didWrite, changing, committing, committed, closed, ended } = edge
  return {
    check: () => access.assertNotRevoked(),
    limits: { reading, writing, signals: [signal, access.principal.signal] },
    didRead,
    didWrite,
    changing,
    committing,
    committed,
    failed: (error, op) => {
      edge.failed?.(error, op)
      return redactedError(access, error, op, path)
    },
    closed,
    ended,
  }
}

/** Replaces or creates a file. `openMode`: that of the handle, if it is written through one. */
function changeOf(access: Access, path: Path, options: FileOpenOptions, openMode?: 'update' | 'replace') {
  const { mounts } = access.dependencies
  const makesFile = openMode !== 'update'
  const isRead = makesFile ? options.readable === true : options.readable !== false
  const resolving = access.resolving('write', path, { ...options, makesFile })
  return access.change<OnePath>({
    ...resolving,
    resolve: async () => {
      const [place] = await resolving.resolve()
      for (const at of isRead ? [place.named, place.at] : []) access.decisions.assertContentGranted(at)
      return [place]
    },
    require: (target) => {
      const { at, entry } = target
      if (mounts.isMountFolder(at)) throw new GatewayError('is_folder')
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

function askedMode({ mode }: ChangeOptions): number | undefined {
  return mode === undefined ? undefined : newFileMode(mode)
}
