/**
 * Opens files as handles, to read and write them at any position. As in `file-content.ts`, each is a transfer, `path`
 * is the principal's own, and `at` is a path of the whole tree.
 */
import type { OpenFile, WritableFile } from '../contract/capabilities.js'
import type { CallOptions, WriteOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import type { Release } from '../base/fair-share.js'
import { GatewayError, toGatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import { passedFile, type FileEdge } from '../storage/edge.js'
import type { Storage } from '../storage/storage.js'
import { TransferMeter } from '../storage/transfer-meter.js'
import type { DownloadRoute, DownloadRouteOptions } from '../download-urls/download-routing.js'
import type { Access, Place } from './access.js'
import { assertUnlocked } from './change.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'
import { recordDone, recordFailure, recordRead, type EventDraft } from './recording.js'
import { redactedError } from './redaction.js'
import { assertNoSymlink } from './symlinks.js'
import { askedMode, changeOf, descriptorsOf } from './file-content.js'

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
  const { holder, protocol } = access.principal
  const { descriptors, events, inPlaceHandles, locks } = access.dependencies
  const writing = changeOf(access, path, options, openMode)
  const [target] = await writing.check()
  const { storage, inner, entry: old } = target
  const mustExist = openMode === 'update'
  const { createOnly, modified, readable } = options
  const facts = { path: target.at, entry: 'file', storage: storage.mountPoint } as const
  const recording = new HandleRecording(access, { ...event, ...facts })
  const beforePublish = async () => {
    const [{ entry }] = await writing.lockAndCheck()
    recording.creates = !entry
    try {
      // Other requests may have made or removed the file since it was opened.
      if (entry && createOnly === true) throw new GatewayError('exists')
      if (!entry && mustExist) throw new GatewayError('not_found')
      await options.beforePublish?.()
    } catch (error) {
      writing.unlock()
      throw error
    }
  }
  const mode = askedMode(options) ?? options.modeOver?.(old)
  const { signal } = writing
  const hooks = new TransferMeter(events, protocol.name).handle(storage, openMode, signal, (read) =>
    recordRead(access, target.at, read),
  )
  const call: WriteOptions = { signal, holder, beforePublish }
  let release: Release | undefined
  const closed = () => {
    hooks.closed()
    recording.closed(mustExist)
    writing.close()
    release?.()
  }
  try {
    release = descriptors.take(holder, descriptorsOf[openMode])
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
      ended: () => writing.unlock(),
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
