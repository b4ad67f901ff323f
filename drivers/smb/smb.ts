/** A folder of a share on an SMB server as a storage. Names that differ only in case are one name there. */
import type { Readable } from 'node:stream'
import { assertGoing, untilAborted } from '../../src/aborting.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  OpenFile,
  OpenMode,
  OpenOptions,
  Source,
  Upload,
  UploadPlan,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { childOf, cleanPath, folded, isWithin, nameOf, parentOf, segmentsOf, type Path } from '../../src/path.js'
import { readingStream, writeAll } from '../lib/pieces.js'
import { onFolder } from '../lib/root-folder.js'
import { isAbandoned, keptFile, keptPaths, stagedBy, stagedName } from '../lib/staged-names.js'
import { forsaken, keepingPace, StagedUpload, type KeepingPace } from '../lib/staged-upload.js'
import { Sweep } from '../lib/sweep.js'
import type { FileFacts, FileId } from './client/messages.js'
import { Share } from './client/share.js'
import { status } from './client/statuses.js'
import { entryOf, isFolder } from './entry.js'
import { isStatus, translated } from './errors.js'
import type { SmbOptions } from './index.js'
import { folderOf, isAmbiguous, isSameName, joined, nameFromWire, wireName } from './names.js'
import { accessTo, piecesOf } from './open-file.js'
import { Places } from './places.js'
import { shareOptionsOf } from './share-options.js'
import { Shares } from './shares.js'
import { renameAt } from './staged-file.js'
import { Staging } from './staging.js'

const pageSize = 1000
/** What dead runs have left in one folder: so much of it goes, if it is only that which keeps the folder from being removed. */
const sweptAtOnce = 1000

export async function openSmb(options: SmbOptions, env: DriverEnv, pace: KeepingPace = keepingPace): Promise<Driver> {
  const shareOptions = shareOptionsOf(options)
  const root = segmentsOf(cleanPath(options.root_folder_path)).map(wireName).join('\\')
  return onFolder(new SmbDriver((signal) => Share.open(shareOptions, signal), root, env, pace), env.signal)
}

class SmbDriver implements Driver {
  readonly #places: Places
  /**
   * Servers refuse to rename over a file, or to rename a folder with a file, that is open on the same connection: what is open for
   * reading and for changes in place has connections of its own.
   */
  readonly #readers: Shares
  readonly #changers: Shares
  readonly #sweep: Sweep
  readonly #staging: Staging

  constructor(
    connect: (signal: AbortSignal) => Promise<Share>,
    root: string,
    private readonly env: DriverEnv,
    private readonly pace: KeepingPace,
  ) {
    this.#places = new Places(root)
    this.#readers = new Shares(connect)
    this.#changers = new Shares(connect)
    this.#sweep = new Sweep(async (wire) => {
      // Somebody may go on with it.
      const kept = [...keptPaths(await env.uploads())].map((path) => this.#places.wire(path))
      if (kept.some((each) => isSameName(each, wire))) return
      await this.#within(env.signal, () => this.#changers.use((share) => share.removeAt(wire)))
    })
    this.#staging = new Staging({
      instance: env.instance.name,
      places: this.#places,
      shares: this.#changers,
      sweep: (wire) => this.#sweep.soon(wire),
    })
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    return this.#within(signal, () => this.#readers.useAgain((share) => this.#places.entryAt(share, path)))
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    // Names come in pages through one handle: behind the first of them nothing can be asked again.
    const { held, id, first, close } = await this.#within(
      signal,
      () => this.#openToList(path),
      ({ close }) => close(),
    )
    const { share } = held
    let next: Promise<readonly FileFacts[]> = Promise.resolve(first)
    try {
      for (;;) {
        const names = await this.#within(signal, () => next)
        if (names.length === 0) return
        next = share.names(id, false)
        next.catch(() => undefined) // told when its turn comes
        const entries = this.#entries(names, path)
        for (let at = 0; at < entries.length; at += pageSize) yield entries.slice(at, at + pageSize)
      }
    } finally {
      // Whoever removes the folder next, over another connection, would find it open.
      const closed = close()
      await this.#within(signal, () => closed).catch(() => undefined)
    }
  }

  async #openToList(path: Path) {
    return this.#readers.useAgain(async (share) => {
      const { id } = await this.#places.spelled(share, path, (wire) => share.open(wire, 'folder'))
      const { held, close } = this.#kept(share, id)
      try {
        return { held, id, close, first: await share.names(id, true) }
      } catch (error) {
        await close()
        throw error
      }
    })
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    const { held, id, facts, close } = await this.#within(
      signal,
      () => this.#openToRead(path),
      ({ close }) => close(),
    )
    return readingStream(piecesOf(held.share, id), range, { size: facts.size, signal, done: close })
  }

  async #openToRead(path: Path, how: 'read' | 'update' = 'read') {
    return this.#readers.useAgain(async (share) => {
      const { id, facts } = await this.#places.spelled(share, path, (wire) => share.openWithFacts(wire, how))
      return { id, facts, ...this.#kept(share, id) }
    })
  }

  /** Keeps the connection of an open file, and tells what gives both back, once. */
  #kept(share: Share, id: FileId) {
    const held = this.#readers.keep(share)
    let isOpen = true
    const close = async () => {
      if (!isOpen) return
      isOpen = false
      await share.closeFile(id).catch(() => undefined)
      held.give()
    }
    return { held, close }
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    return this.#within(signal, async () => {
      const { held, place, staged } = await this.#staging.stage(path, options)
      try {
        await writeAll(source, piecesOf(held.share, staged.id), signal)
        assertGoing(signal)
        return await this.#staging.publish(staged, place, path, options)
      } catch (error) {
        await this.#staging.discard(staged)
        throw error
      } finally {
        held.give()
      }
    })
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { signal } = options
    const { size, replace = async () => undefined } = plan
    const begin = async () => {
      const { held, place, staged, confirmed } = await this.#staging.stage(path, options, plan)
      const name = staged.wirePath.slice(staged.wirePath.lastIndexOf('\\') + 1)
      return new StagedUpload(
        {
          ...{ size, signal, replace, file: piecesOf(held.share, staged.id) },
          kept: { path: childOf(parentOf(path), name), held: confirmed },
          sync: () => held.share.flush(staged.id),
          within: (work) => this.#within(signal, work),
          publish: () => this.#staging.publish(staged, place, path, options),
          leave: async () => {
            await staged.leave()
            held.give()
          },
        },
        this.pace,
      )
    }
    return this.#within(signal, begin, (late) => forsaken(this, late))
  }

  async dropUpload(token: string, { signal }: CallOptions = {}): Promise<void> {
    const kept = keptFile(token)
    if (!kept) return
    const remove = (share: Share) => this.#places.spelled(share, kept.path, (wire) => share.removeAt(wire))
    await this.#within(signal, () => this.#changers.useAgain(remove)).catch((error: unknown) => {
      if (!isGatewayError(error, 'not_found', 'not_dir')) throw error
    })
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('exists')
    await this.#within(signal, () =>
      this.#changers.use(async (share) => {
        const { wire, facts } = isAmbiguous(path)
          ? await this.#places.find(share, path)
          : { wire: this.#places.wire(path), facts: undefined }
        if (facts !== undefined) throw new GatewayError('exists')
        await share.makeFolder(wire).catch((error: unknown) => this.#places.explainNew(share, error, path))
      }),
    )
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#within(signal, () =>
      this.#changers.use((share) =>
        this.#places.spelled(share, path, async (wire) => {
          const aside = joined(folderOf(wire), stagedName(this.env.instance.name))
          try {
            await share.removeAt(wire, aside)
          } catch (error) {
            if (!isStatus(error, status.directoryNotEmpty) || !(await this.#sweepNow(share, wire))) throw error
            await share.removeAt(wire, aside)
          }
        }),
      ),
    )
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    if (from === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#within(signal, () =>
      this.#changers.use(async (share) => {
        const [source, target] = await Promise.all([this.#places.find(share, from), this.#places.find(share, to)])
        if (source.facts === undefined) throw new GatewayError('not_found')
        if (from === to) return
        const isSame = isSameName(from, to)
        if (!isSame && isWithin(folded(from), folded(to))) {
          throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
        }
        const old = isSame ? undefined : target.facts
        if (to === '/' || (old && isFolder(old))) throw new GatewayError('is_dir')
        if (old && isFolder(source.facts)) throw new GatewayError('exists')
        const wire = isSame ? joined(folderOf(source.wire), wireName(nameOf(to))) : target.wire
        try {
          await renameAt(share, source.wire, wire, old !== undefined)
        } catch (error) {
          if (this.#staging.isWritingIn(source.wire) && isStatus(error, status.accessDenied)) {
            throw new GatewayError('busy', { reason: 'an upload into this folder is under way', cause: error })
          }
          await this.#places.explainTaken(share, error, to)
        }
      }),
    )
  }

  /** By the server itself; `unsupported` where it does not. */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    await this.#within(options.signal, async () => {
      const { held, place, staged } = await this.#staging.stage(to, options)
      const { share } = held
      try {
        const { id, facts } = await this.#places.spelled(share, from, (wire) => share.openWithFacts(wire, 'read'))
        try {
          await share.copy(id, staged.id, facts.size)
        } finally {
          await share.closeFile(id).catch(() => undefined)
        }
        await this.#staging.publish(staged, place, to, { ...options, modified: options.modified ?? facts.modified })
      } catch (error) {
        await this.#staging.discard(staged)
        throw error
      } finally {
        held.give()
      }
    })
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    return this.#within(
      options.signal,
      () => (mode === 'replace' ? this.#replacing(path, options) : this.#inPlace(path, mode)),
      (file) => file.close(),
    )
  }

  async #inPlace(path: Path, mode: 'read' | 'update'): Promise<OpenFile> {
    const { held, id, facts, close } = await this.#openToRead(path, mode)
    const told = nameFromWire(facts.name)
    // Some servers tell the name by which it was asked for, some another one of the same file.
    const name = isSameName(told, nameOf(path)) ? told : nameOf(path)
    const { read, ...changes } = accessTo(held.share, id)
    return { entry: entryOf(name, facts), read, ...(mode === 'update' && changes), close }
  }

  async #replacing(path: Path, options: OpenOptions): Promise<OpenFile> {
    const { held, place, staged } = await this.#staging.stage(path, options)
    let published: Entry | undefined
    return {
      entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
      ...accessTo(held.share, staged.id),
      commit: ({ modified = options.modified }: Attributes = {}) =>
        this.#within(options.signal, async () => {
          published ??= await this.#staging.publish(staged, place, path, { ...options, modified })
          return published
        }),
      close: async () => {
        await this.#staging.discard(staged)
        held.give()
      },
    }
  }

  async setAttributes(path: Path, { modified }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    await this.#within(signal, () =>
      this.#changers.useAgain((share) =>
        this.#places.spelled(share, path, async (wire) => {
          if (modified === undefined) await share.facts(wire)
          else await share.setModifiedAt(wire, modified)
        }),
      ),
    )
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    const { total, available, free } = await this.#within(signal, () =>
      this.#readers.useAgain((share) => share.space(this.#places.root)),
    )
    return { total, used: total - free, free: available }
  }

  async close(): Promise<void> {
    this.#readers.close()
    this.#changers.close()
  }

  #entries(names: readonly FileFacts[], folder: Path): Entry[] {
    const entries: Entry[] = []
    for (const facts of names) {
      if (facts.name === '.' || facts.name === '..') continue
      if (stagedBy(facts.name) !== undefined) {
        const wire = joined(this.#places.wire(folder), facts.name)
        if (isAbandoned(facts.name, this.env.instance)) this.#sweep.soon(wire)
        continue
      }
      entries.push(entryOf(nameFromWire(facts.name), facts))
    }
    return entries
  }

  /**
   * What was left by runs, dead ones and this one, where it keeps a folder from being removed, also what somebody might go on with.
   * Resolves to whether there was that alone.
   */
  async #sweepNow(share: Share, folder: string): Promise<boolean> {
    const { id } = await share.open(folder, 'folder')
    const left: string[] = []
    try {
      let names = await share.names(id, true)
      for (; names.length > 0 && left.length < sweptAtOnce; names = await share.names(id, false)) {
        for (const { name } of names) {
          if (isAbandoned(name, this.env.instance) || this.#staging.isLeft(joined(folder, name))) left.push(name)
          else if (name !== '.' && name !== '..') return false
        }
      }
    } finally {
      await share.closeFile(id).catch(() => undefined)
    }
    for (const name of left) await share.removeAt(joined(folder, name))
    return left.length > 0
  }

  // Calls

  /** Rejects with `aborted` as soon as the signal says so. What was asked ends later by itself; `undo` gives back what it opened. */
  async #within<T>(signal: AbortSignal | undefined, work: () => Promise<T>, undo?: (late: T) => unknown): Promise<T> {
    assertGoing(signal)
    try {
      return await untilAborted(work(), signal, { undo })
    } catch (error) {
      throw translated(error)
    }
  }
}
