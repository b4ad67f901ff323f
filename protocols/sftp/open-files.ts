/** The handles of one session, and the effect of its open files on operations by name. */
import { isRealFolder, type Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import type { Log } from '../../src/base/log.js'
import { contentMode, newFileMode } from '../../src/contract/modes.js'
import { isWithin, nameOf, parentOf, under, within, type Path } from '../../src/base/path.js'
import type { Awaitable } from '../../src/contract/call-options.js'
import { etagOf } from '../../src/tree/preconditions.js'
import type { RequestedAttributes } from './attributes.js'
import type { FolderHandle } from './folder-handle.js'
import { openFlag } from './wire.js'
import type { SftpFileSystem } from './file-system.js'
import { WorkingFile } from './working-file.js'

export interface FileHandle {
  readonly kind: 'file'
  readonly file: WorkingFile
  readonly plan: OpenPlan
}
type Handle = FileHandle | FolderHandle

/** Umask for new files and folders: the default of OpenSSH's server. */
export const umask = 0o022

export class OpenFiles {
  readonly #handles = new Map<number, Handle>()
  /** Number of handles that share each file. */
  readonly #files = new Map<WorkingFile, number>()
  /** Files that did not exist before OPEN. */
  readonly #fresh = new WeakSet<WorkingFile>()
  #next = 0
  #opening = 0
  #hasReportedSync = false

  constructor(
    private readonly fs: SftpFileSystem,
    private readonly limit: number,
    private readonly signal: AbortSignal,
    private readonly log: Pick<Log, 'info' | 'warn'>,
  ) {}

  get count(): number {
    return this.#handles.size + this.#opening
  }

  /** Opens a handle of `path`, and resolves to its 4-byte key. Rejects with `busy` at the limit of open handles. */
  async openHandle<T extends Handle>(path: Path, open: () => Promise<T>): Promise<Buffer> {
    if (this.count >= this.limit) {
      const reason = `the limit of ${this.limit} open handles is reached`
      throw new GatewayError('busy', { op: 'open', path, reason })
    }
    this.#opening++
    try {
      const handle = await open()
      if (this.signal.aborted) {
        await this.#discard(handle)
        throw new GatewayError('aborted', { op: 'open', path })
      }
      const key = this.#next++ % 0x1_0000_0000
      this.#handles.set(key, handle)
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(key)
      return bytes
    } finally {
      this.#opening--
    }
  }

  /** The path of the handle of `key`; undefined if there is none. */
  pathOf(key: Buffer): Path | undefined {
    const handle = this.#get(key)
    return handle?.kind === 'file' ? handle.file.path : handle?.path
  }

  #get(key: Buffer): Handle | undefined {
    return key.length === 4 ? this.#handles.get(key.readUInt32BE(0)) : undefined
  }

  /** The handle of `key`. Throws `invalid` if there is none. */
  find(key: Buffer): Handle {
    const handle = this.#get(key)
    if (!handle) throw new GatewayError('invalid', { op: 'use handle', reason: 'no such handle' })
    return handle
  }

  /** The file handle of `key`. Throws `invalid` if there is none, and `is_folder` for the handle of a folder. */
  file(key: Buffer): FileHandle {
    const handle = this.find(key)
    if (handle.kind !== 'file') {
      const reason = 'the handle belongs to a folder'
      throw new GatewayError('is_folder', { op: 'use handle', path: handle.path, reason })
    }
    return handle
  }

  /**
   * Flushes what was written to the file of the handle. If its backend cannot, this protocol reports success
   * nevertheless (docs/decisions/0029-sftp-ignores.md), and the log says so once for each session.
   */
  async sync(key: Buffer): Promise<void> {
    const { file, plan } = this.file(key)
    // A handle that was opened to read has written nothing.
    if (!plan.write || (await file.sync()) || this.#hasReportedSync) return
    this.#hasReportedSync = true
    this.log.info({ path: file.path }, 'fsync has no effect on this storage: a file is stored when its CLOSE succeeds')
  }

  /** Invalidates the key and returns its handle, which the caller closes with `close`. */
  detach(key: Buffer): Handle {
    const handle = this.find(key)
    this.#handles.delete(key.readUInt32BE(0))
    return handle
  }

  /** Publishes what was written and closes the handle. Rejects if it could not be stored. */
  async close(handle: Handle): Promise<void> {
    try {
      if (handle.kind === 'file' && handle.plan.write) await handle.file.publish()
    } finally {
      await this.#discard(handle)
    }
  }

  /**
   * Publishes the received part of each upload whose name did not exist at OPEN and still does not exist. Uploads that
   * would replace a file are not published. Called when the connection is lost.
   */
  async publishPartial(): Promise<void> {
    const fresh = [...this.#files.keys()].filter((file) => this.#fresh.has(file))
    await Promise.allSettled(fresh.map((file) => file.publishPartial()))
  }

  /** Closes all handles without publishing. Called when the connection is lost. */
  async closeAll(): Promise<void> {
    const handles = [...this.#handles.values()]
    this.#handles.clear()
    await Promise.allSettled(handles.map((handle) => this.#discard(handle)))
  }

  async #discard(handle: Handle): Promise<void> {
    if (handle.kind === 'folder') return handle.close()
    const shared = (this.#files.get(handle.file) ?? 1) - 1
    if (shared > 0) {
      this.#files.set(handle.file, shared)
    } else {
      this.#files.delete(handle.file)
      await handle.file.release()
    }
  }

  /** OPEN with the flags of draft §6.3. `requested`: attributes of a new file. */
  async open(path: Path, flags: number, requested: RequestedAttributes): Promise<FileHandle> {
    const own = this.#ownOf(path)
    const found = own ? own.entry : needsLookup(flags) ? await this.#stat(path) : undefined
    // The file to which a dangling symlink leads is made, except with EXCL, for which the name is taken.
    const claim = openFlag.create | openFlag.exclusive
    const existing = found?.kind === 'symlink' && (flags & claim) !== claim ? undefined : found
    const plan = planOpen(flags, existing !== undefined || !needsLookup(flags))
    if (plan.action === 'refuse missing') throw new GatewayError('not_found', { op: 'open', path })
    if (plan.action === 'refuse existing') throw new GatewayError('exists', { op: 'open', path })
    if (own && !own.isUnlinked) {
      // The file may have been opened only to write.
      if (plan.read) {
        await this.fs.assertContentGranted(path, { signal: this.signal })
        own.isRead = true
      }
      if (plan.action === 'replace') await own.restart()
      return this.#share({ kind: 'file', file: own, plan })
    }
    const file = await this.#start(
      path,
      plan,
      requested.mode === undefined ? undefined : newFileMode(requested.mode & ~umask),
    )
    return this.#share({ kind: 'file', file, plan })
  }

  /** `mode`: permission bits of a new file. */
  async #start(path: Path, plan: OpenPlan, mode: number | undefined): Promise<WorkingFile> {
    const { fs } = this
    const { signal } = this
    const readable = plan.read
    // A read-only handle has no write that would publish the file later.
    if (!plan.write && plan.action !== 'read') {
      await fs.reserve(path, { mode, signal }).catch((error: unknown) => {
        // Without EXCL, a file that another request has just created is opened.
        if (plan.action === 'create' || !isGatewayError(error, 'exists')) throw error
      })
    }
    if (!plan.write) return new WorkingFile(fs, signal, path, await fs.open(path, 'read', { signal }), false, false)
    if (plan.action === 'update') {
      return new WorkingFile(fs, signal, path, await fs.open(path, 'update', { readable, signal }), false, true)
    }
    if (plan.action === 'replace') return this.#startStaged(path, { mode, readable })
    const reservation = await fs.reserve(path, { mode, signal })
    const dropEmpty = () =>
      reservation.release().catch((error: unknown) => {
        this.log.warn({ err: error, path }, 'could not remove the empty file of an upload that was not completed')
      })
    try {
      return await this.#startStaged(path, { mode, readable }, etagOf(reservation.entry), dropEmpty)
    } catch (error) {
      await dropEmpty()
      throw error
    }
  }

  /** `own`: the entity tag of the empty file that already exists under the name. */
  async #startStaged(
    path: Path,
    { mode, readable }: { readonly mode: number | undefined; readonly readable: boolean },
    own?: string,
    dropEmpty?: () => Promise<void>,
  ): Promise<WorkingFile> {
    const { fs, signal } = this
    // The mode of a replaced file is preserved.
    const kept = (old: Entry) => (old.mode === undefined ? undefined : contentMode(old.mode))
    const modeOver = (old: Entry | undefined) => (old && own === undefined ? kept(old) : mode)
    const beforePublish = async () => {
      if (!file.isPartial) return
      const existing = await this.#stat(path)
      if (existing && etagOf(existing) !== own) throw new GatewayError('exists', { op: 'publish partial upload', path })
    }
    const opened = await fs.open(path, 'replace', { modeOver, readable, signal, beforePublish })
    const file = new WorkingFile(fs, signal, path, opened, true, true, modeOver(opened.old), dropEmpty)
    if (!opened.old || own !== undefined) this.#fresh.add(file)
    return file
  }

  #share(handle: FileHandle): FileHandle {
    if (handle.plan.read) handle.file.isRead = true
    this.#files.set(handle.file, (this.#files.get(handle.file) ?? 0) + 1)
    return handle
  }

  #stat(path: Path): Promise<Entry | undefined> {
    return undefinedIfMissing(this.fs.stat(path, { signal: this.signal }))
  }

  /** The file at `path` that this session has open for writing. A new handle shares it. */
  #ownOf(path: Path): WorkingFile | undefined {
    for (const file of this.#files.keys()) {
      if (file.path === path && file.isWritable && !file.isUnlinked) return file
    }
    return undefined
  }

  /** Resolves when all earlier changes of the file at `path`, or of the files in the folder at `path`, have ended. */
  changesDone(path: Path): Awaitable<unknown> {
    const changes: Promise<void>[] = []
    for (const file of this.#files.keys()) {
      const isAffected = file.isWritable && (file.path === path || parentOf(file.path) === path)
      if (isAffected) changes.push(file.changesDone())
    }
    return changes.length > 0 ? Promise.all(changes) : undefined
  }

  /** The file at `path` with staged content that others do not see yet. */
  stagedAt(path: Path): WorkingFile | undefined {
    for (const file of this.#files.keys()) if (file.path === path && file.isStaged) return file
    return undefined
  }

  /** Files at or below `folder` with staged content. */
  stagedWithin(folder: Path): WorkingFile[] {
    const staged: WorkingFile[] = []
    for (const file of this.#files.keys()) if (file.isStaged && isWithin(folder, file.path)) staged.push(file)
    return staged
  }

  /** Entries of the staged files directly in `folder`, by name, as this session sees them. */
  stagedEntries(folder: Path): Map<string, Entry> {
    const inFolder = this.stagedWithin(folder).filter((file) => parentOf(file.path) === folder)
    return new Map(inFolder.map((file) => [nameOf(file.path), { ...file.entry, name: nameOf(file.path) }]))
  }

  /** The open files at `path`. Opens them on the backend, so that they stay readable after the name is removed. */
  async #pinnedAt(path: Path): Promise<readonly WorkingFile[]> {
    const files: WorkingFile[] = []
    for (const file of this.#files.keys()) if (file.path === path && !file.isUnlinked) files.push(file)
    // Best effort: a file that cannot be opened is readable only under its name.
    if (files.length > 0) await Promise.allSettled(files.map((file) => file.pin()))
    return files
  }

  /** Removes the file at `path`. A staged file without a published one counts as existing. */
  async remove(path: Path): Promise<void> {
    const own = this.stagedAt(path)
    const files = await this.#pinnedAt(path)
    try {
      await this.fs.remove(path, { what: 'file', signal: this.signal })
    } catch (error) {
      // The file was never published: there is only the staged one.
      if (!own || !isGatewayError(error, 'not_found')) throw error
    }
    await Promise.all(files.map((file) => file.markUnlinked()))
  }

  /**
   * Publishes staged files, then moves `from` to `to`. Open handles follow to the new path. Changes of them that are
   * requested meanwhile wait for the move.
   */
  async move(from: Path, to: Path, overwrite: false | 'same kind'): Promise<void> {
    if (from !== to && this.stagedAt(to)) {
      if (overwrite === false) throw new GatewayError('exists', { op: 'move', path: to })
      if (await this.#isFolder(from)) throw new GatewayError('not_folder', { op: 'move', path: to })
    }
    const replaced = from === to ? [] : await this.#pinnedAt(to)
    let end = (): void => undefined
    const renamed = new Promise<void>((resolve) => (end = resolve))
    try {
      const written = this.#writableWithin(from)
      if (written.length > 0) await Promise.all(written.map((file) => file.publishForRename(renamed)))
      await this.fs.move(from, to, { overwrite, signal: this.signal })
      if (replaced.length > 0) await Promise.all(replaced.map((file) => file.markUnlinked()))
      for (const file of this.#files.keys()) {
        const below = file.isUnlinked ? undefined : within(from, file.path)
        if (below !== undefined) file.setPath(below === '/' ? to : under(to, below))
      }
    } finally {
      end()
    }
  }

  #writableWithin(path: Path): WorkingFile[] {
    const found: WorkingFile[] = []
    for (const file of this.#files.keys()) {
      if (file.isWritable && !file.isUnlinked && isWithin(path, file.path)) found.push(file)
    }
    return found
  }

  async #isFolder(path: Path): Promise<boolean> {
    if (this.stagedAt(path)) return false
    return isRealFolder(await this.fs.stat(path, { ofSymlink: true, signal: this.signal }))
  }

  /** Removes the folder at `path`. Rejects with `not_empty` also if it holds only staged files. */
  async removeFolder(path: Path): Promise<void> {
    const own = this.stagedWithin(path)
    if (own.some((file) => file.path === path)) throw new GatewayError('not_folder', { op: 'remove', path })
    if (own.length > 0) throw new GatewayError('not_empty', { op: 'remove', path })
    await this.fs.remove(path, { what: 'folder', signal: this.signal })
  }
}

/** The meaning of the flags of OPEN (draft §6.3) for the tree. */
interface OpenPlan {
  readonly read: boolean
  readonly write: boolean
  /** Every write appends, regardless of its offset. */
  readonly append: boolean
  /** 'create': an empty file is created immediately, then replaced as if it had existed before. */
  readonly action: 'read' | 'update' | 'replace' | 'create' | 'refuse missing' | 'refuse existing'
}

/**
 * Follows open(2). Without READ and WRITE, the file is opened for reading. EXCL requires CREAT. A file that does not
 * exist requires CREAT. TRUNC requires WRITE, so that opening for reading never truncates a file.
 */
export function planOpen(flags: number, exists: boolean): OpenPlan {
  const has = (flag: keyof typeof openFlag) => (flags & openFlag[flag]) !== 0
  const write = has('write')
  const read = has('read') || !write
  const plan = (action: OpenPlan['action']): OpenPlan => ({ read, write, append: write && has('append'), action })
  if (!exists && !has('create')) return plan('refuse missing')
  if (has('create') && has('exclusive')) return plan(exists ? 'refuse existing' : 'create')
  if (!exists || (write && has('truncate'))) return plan('replace')
  return plan(write ? 'update' : 'read')
}

/** Whether the plan depends on what exists at the path. False for plain reads, and for replacing whatever exists. */
export function needsLookup(flags: number): boolean {
  const { write, create, truncate, exclusive } = openFlag
  const replacing = write | create | truncate
  if ((flags & (replacing | exclusive)) === replacing) return false
  return (flags & replacing) !== 0
}
