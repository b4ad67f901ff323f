/**
 * Reads and writes the content of files as streams. Each is a transfer: it is measured and throttled, and it ends when
 * the session of the principal is revoked. `path` is the principal's own, `at` a path of the whole tree.
 */
import type { Readable } from 'node:stream'
import { joinSignals } from '../base/cancellation.js'
import type { ByteRange, Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { newFileMode } from '../contract/modes.js'
import { checkName, nameOf, type Path } from '../base/path.js'
import { byteSource } from '../contract/sources.js'
import { PassedStream } from '../storage/edge.js'
import type { ResumableUpload } from '../storage/fallbacks/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import { MeteredTransfer, type TransferEvent } from '../storage/transfer-meter.js'
import type { Access } from './access.js'
import { removeEntry } from './follow-up.js'
import { makeMissingParents } from './missing-folders.js'
import { Change, gatewayAuthority, type OnePath, type Target } from './change.js'
import type { ChangeOptions, TreeReadOptions, Reservation, WriteResult } from './operation-options.js'
import { etagOf } from './preconditions.js'
import { recordDone, recordRead, type EventDraft } from './recording.js'
import { redactedError } from './redaction.js'
import { assertNoSymlink } from './symlinks.js'

/** Descriptors that one of these holds: the file, and the folder in which it is staged or named. */
export const descriptorsOf = { read: 1, update: 2, replace: 2 } as const

const emptySource = byteSource(Buffer.alloc(0))

/** Options of a write. */
export interface FileWriteOptions extends ChangeOptions {
  /** Creates missing folders. */
  readonly parents?: boolean | undefined
  /** The upload of a task that can resume it. */
  readonly resumable?: ResumableUpload | undefined
}

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
      .perform((target) => removeEntry(dependencies, target, false, {}))
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
    return writing.performWithBody(async ({ at, storage, inner, entry: old }) => {
      if (options.parents === true && !old) await makeMissingParents(access, at, { ...options, preferred: storage })
      // Bytes in memory are stored at once.
      const release = source.bytes ? undefined : descriptors.take(principal.holder, descriptorsOf.replace)
      const transfer = new MeteredTransfer(events, principal.protocol.name, storage.row, 'write')
      let stopExtending: (() => void) | undefined
      let created = !old
      const beforePublish = async () => {
        if (source.bytes) transfer.count(source.bytes.length)
        const [{ entry }] = await writing.lockAndCheck()
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

/** Replaces or creates a file. `openMode`: that of the handle, if it is written through one. */
export function changeOf(
  access: Access,
  path: Path,
  options: ChangeOptions & { readonly readable?: boolean | undefined },
  openMode?: 'update' | 'replace',
) {
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

/** The permission bits that a new file gets; undefined if none are asked for. */
export function askedMode({ mode }: ChangeOptions): number | undefined {
  return mode === undefined ? undefined : newFileMode(mode)
}
