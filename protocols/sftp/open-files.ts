/** The handles of one session, and what its open files mean for the names they stand under. */
import { Readable } from 'node:stream'
import { etagOf } from '../../src/change.js'
import type { Entry, Source } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { isWithin, nameOf, parentOf, under, within, type Path } from '../../src/path.js'
import type { AskedAttributes } from './attributes.js'
import type { FolderHandle } from './folder-handle.js'
import { needsLookup, planOpen, type OpenPlan } from './open-plan.js'
import { openFlag } from './protocol.js'
import type { Tree } from './tree.js'
import { WorkingFile } from './working-file.js'

export interface FileHandle {
  readonly kind: 'file'
  readonly file: WorkingFile
  readonly plan: OpenPlan
}
export type Handle = FileHandle | FolderHandle

/** What OpenSSH's server would apply to the modes of new files and folders by default. */
export const modeMask = 0o022

const nothing: Source = { size: 0, rereadable: true, read: async () => Readable.from([]) }

export class OpenFiles {
  readonly #handles = new Map<number, Handle>()
  /** Of each file, how many handles share it. */
  readonly #files = new Map<WorkingFile, number>()
  /** Those whose names were free when they were opened. */
  readonly #fresh = new WeakSet<WorkingFile>()
  #next = 0
  #opening = 0

  constructor(
    private readonly tree: Tree,
    private readonly limit: number,
    private readonly signal: AbortSignal,
  ) {}

  get count(): number {
    return this.#handles.size + this.#opening
  }

  /** Rejects with `busy` where the session holds as many handles as it may. */
  async admit<T extends Handle>(open: () => Promise<T>): Promise<Buffer> {
    if (this.count >= this.limit) {
      throw new GatewayError('busy', { op: 'open', reason: `no more than ${this.limit} handles can be open at once` })
    }
    this.#opening++
    try {
      const handle = await open()
      if (this.signal.aborted) {
        await this.#discard(handle)
        throw new GatewayError('aborted')
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

  find(key: Buffer): Handle {
    const handle = key.length === 4 ? this.#handles.get(key.readUInt32BE(0)) : undefined
    if (!handle) throw new GatewayError('invalid', { reason: 'no such handle' })
    return handle
  }

  file(key: Buffer): FileHandle {
    const handle = this.find(key)
    if (handle.kind !== 'file') throw new GatewayError('is_dir', { reason: 'the handle is one of a folder' })
    return handle
  }

  /** From now on the key is nobody's; the handle itself is closed by `close`. */
  forget(key: Buffer): Handle {
    const handle = this.find(key)
    this.#handles.delete(key.readUInt32BE(0))
    return handle
  }

  /** Resolves when what was written is stored, and rejects where it is not. */
  async close(handle: Handle): Promise<void> {
    try {
      if (handle.kind === 'file' && handle.plan.write) await handle.file.publish()
    } finally {
      await this.#discard(handle)
    }
  }

  /**
   * The connection is gone: uploads to names that were free, and still are, are published as far as they came. What was
   * to replace a file is left to `abandon`.
   */
  async keepPartial(): Promise<void> {
    const fresh = [...this.#files.keys()].filter((file) => this.#fresh.has(file))
    await Promise.allSettled(fresh.map((file) => file.keep()))
  }

  /** The connection is gone: nothing more is published. */
  async abandon(): Promise<void> {
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

  /** OPEN by the flags of the draft. `asked`: attributes of a file that is made. */
  async open(path: Path, flags: number, asked: AskedAttributes): Promise<FileHandle> {
    const own = this.#ownOf(path)
    const standing = own ? own.entry : needsLookup(flags) ? await this.#look(path) : undefined
    const plan = planOpen(flags, standing !== undefined || !needsLookup(flags))
    if (plan.action === 'refuse missing') throw new GatewayError('not_found', { op: 'open', path })
    if (plan.action === 'refuse existing') throw new GatewayError('exists', { op: 'open', path })
    if (standing?.kind === 'link') throw leadsNowhere(path, flags)
    if (own && !own.isUnlinked) {
      if (plan.action === 'replace') await own.restart()
      return this.#share({ kind: 'file', file: own, plan })
    }
    const file = await this.#start(path, plan, asked.mode === undefined ? undefined : asked.mode & 0o777 & ~modeMask)
    return this.#share({ kind: 'file', file, plan })
  }

  /** `mode`: permission bits of a file that is made. */
  async #start(path: Path, plan: OpenPlan, mode: number | undefined): Promise<WorkingFile> {
    const { tree } = this
    const { signal } = this
    const readable = plan.read
    const empty = async () =>
      (await tree.write(path, nothing, { createOnly: plan.action === 'create', mode, signal })).entry
    // Opened to read alone, there will be no write that could publish it.
    if (!plan.write && plan.action !== 'read') await empty()
    if (!plan.write) return new WorkingFile(tree, path, await tree.open(path, 'read', { signal }), false, false)
    if (plan.action === 'update') {
      return new WorkingFile(tree, path, await tree.open(path, 'update', { signal }), false, true)
    }
    if (plan.action === 'replace') return this.#startAside(path, { mode, readable })
    const own = etagOf(await empty())
    const dropEmpty = () =>
      tree.remove(path, { what: 'file', ifMatch: [own] }).catch((error: unknown) => {
        // Somebody else has written it or removed it meanwhile.
        if (!isGatewayError(error, 'not_found', 'precondition_failed')) throw error
      })
    try {
      return await this.#startAside(path, { mode, readable }, own, dropEmpty)
    } catch (error) {
      await dropEmpty()
      throw error
    }
  }

  /** `own`: the entity tag of the empty file that has taken the name already. */
  async #startAside(
    path: Path,
    { mode, readable }: { readonly mode: number | undefined; readonly readable: boolean },
    own?: string,
    dropEmpty?: () => Promise<void>,
  ): Promise<WorkingFile> {
    const { tree, signal } = this
    // A file that is replaced hands on its mode.
    const modeOver = (old: Entry | undefined) => (old && own === undefined ? old.mode : mode)
    const beforePublish = async () => {
      if (!file.isPartial) return
      const standing = await this.#look(path)
      if (standing && etagOf(standing) !== own) throw new GatewayError('exists', { op: 'keep', path })
    }
    const opened = await tree.open(path, 'replace', { modeOver, readable, signal, beforePublish })
    const file = new WorkingFile(tree, path, opened, true, true, modeOver(opened.old), dropEmpty)
    if (!opened.old || own !== undefined) this.#fresh.add(file)
    return file
  }

  #share(handle: FileHandle): FileHandle {
    this.#files.set(handle.file, (this.#files.get(handle.file) ?? 0) + 1)
    return handle
  }

  async #look(path: Path): Promise<Entry | undefined> {
    try {
      return await this.tree.stat(path, { signal: this.signal })
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** A file under this name that the session writes: another handle sees and changes the same bytes. */
  #ownOf(path: Path): WorkingFile | undefined {
    for (const file of this.#files.keys()) {
      if (file.path === path && file.writes && !file.isUnlinked) return file
    }
    return undefined
  }

  /** Resolves when all that was asked before has been done of the file at `path`, or of those in the folder. */
  async settled(path: Path): Promise<void> {
    const isSeen = (file: WorkingFile) => file.path === path || parentOf(file.path) === path
    const written = [...this.#files.keys()].filter((file) => file.writes && isSeen(file))
    await Promise.all(written.map((file) => file.settled()))
  }

  /** A file under this name of which others do not see yet what was written. */
  asideAt(path: Path): WorkingFile | undefined {
    for (const file of this.#files.keys()) if (file.path === path && file.isAside) return file
    return undefined
  }

  asideWithin(folder: Path): WorkingFile[] {
    return [...this.#files.keys()].filter((file) => file.isAside && isWithin(folder, file.path))
  }

  /** Names in `folder` that the session has written, as it sees them. */
  asideIn(folder: Path): Map<string, Entry> {
    const inFolder = this.asideWithin(folder).filter((file) => parentOf(file.path) === folder)
    return new Map(inFolder.map((file) => [nameOf(file.path), { ...file.entry, name: nameOf(file.path) }]))
  }

  /** Every file of the session that bears this name; what it holds stays readable by its handles when the name goes. */
  async #heldAt(path: Path): Promise<readonly WorkingFile[]> {
    const files = [...this.#files.keys()].filter((file) => file.path === path && !file.isUnlinked)
    // One that cannot be held has no bytes but under its name.
    await Promise.allSettled(files.map((file) => file.hold()))
    return files
  }

  async remove(path: Path): Promise<void> {
    const own = this.asideAt(path)
    const files = await this.#heldAt(path)
    try {
      await this.tree.remove(path, { what: 'file', signal: this.signal })
    } catch (error) {
      // Nobody else has seen the name yet.
      if (!own || !isGatewayError(error, 'not_found')) throw error
    }
    await Promise.all(files.map((file) => file.unlink()))
  }

  /** What is written so far is published first, then moved; the handles go on under the new name. */
  async move(from: Path, to: Path, overwrite: boolean): Promise<void> {
    if (from !== to && !overwrite && this.asideAt(to)) throw new GatewayError('exists', { op: 'rename', path: to })
    const replaced = from === to ? [] : await this.#heldAt(to)
    await Promise.all(this.asideWithin(from).map((file) => file.leave()))
    await this.tree.move(from, to, { overwrite, signal: this.signal })
    await Promise.all(replaced.map((file) => file.unlink()))
    for (const file of this.#files.keys()) {
      const below = file.isUnlinked ? undefined : within(from, file.path)
      if (below !== undefined) file.moved(below === '/' ? to : under(to, below))
    }
  }

  /** A folder that only the session knows not to be empty stays. */
  async removeFolder(path: Path): Promise<void> {
    const own = this.asideWithin(path)
    if (own.some((file) => file.path === path)) throw new GatewayError('not_dir', { op: 'remove', path })
    if (own.length > 0) throw new GatewayError('not_empty', { op: 'remove', path })
    await this.tree.remove(path, { what: 'folder', signal: this.signal })
  }
}

/** Nothing is there to be opened, and nothing is made behind a link. */
function leadsNowhere(path: Path, flags: number): GatewayError {
  const code = (flags & openFlag.create) === 0 ? 'not_found' : 'denied'
  return new GatewayError(code, { op: 'open', path, reason: 'a link that leads nowhere' })
}
