/** Opens files of a storage whose driver has no handles: as streams, or as a copy in the spool. */
import { open as openFile, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Attributes, OpenFile, OpenMode, OpenOptions } from '../../contract/capabilities.js'
import type { ByteRange, CallOptions, Source } from '../../contract/call-options.js'
import type { Entry } from '../../contract/entry.js'
import { GatewayError, isGatewayError } from '../../base/errors.js'
import { nameOf, parentOf, type Path } from '../../base/path.js'
import { ofSameContent } from './continued-read.js'
import { convertDiskFull, readFrom, type Spool } from './spool.js'
import type { Storage } from '../storage.js'
import { StreamReader } from './stream-reader.js'
import { StreamWriter } from './stream-writer.js'

/** As `Driver.open`, by `read` and `write` of the storage. */
export async function openByStreams(
  storage: Storage,
  spool: Spool,
  path: Path,
  mode: OpenMode,
  options: OpenOptions,
): Promise<OpenFile> {
  return mode === 'read' ? openToRead(storage, path, options) : openToWrite(storage, spool, path, mode, options)
}

async function openToRead(storage: Storage, path: Path, options: CallOptions): Promise<OpenFile> {
  // Compared with later entries, so it must not come from the cached listing.
  const entry = await storage.stat(path, { ...options, refresh: true })
  if (entry.kind === 'folder') throw new GatewayError('is_folder')
  let isFirst = true
  const open = async (range: ByteRange) => {
    const stream = await storage.read(path, range, { ...options, entry })
    const isOpenedAgain = !isFirst
    isFirst = false
    const stat = () => storage.stat(path, { ...options, refresh: true })
    return isOpenedAgain ? ofSameContent(stream, entry, stat) : stream
  }
  return new StreamReader(entry, open, storage.traits.ranges)
}

async function openToWrite(
  storage: Storage,
  spool: Spool,
  path: Path,
  mode: 'update' | 'replace',
  options: OpenOptions,
): Promise<OpenFile> {
  // Its size is announced for its content, so it must not come from the cached listing.
  const old = await storage.stat(path, { ...options, refresh: true }).catch((error: unknown) => {
    if (mode === 'replace' && isGatewayError(error, 'not_found')) return undefined
    throw error
  })
  if (old?.kind === 'folder') throw new GatewayError('is_folder')
  if (old && options.createOnly === true) throw new GatewayError('exists')
  if (!old) await assertParent(storage, path, options)
  const fresh: Entry = { name: nameOf(path), kind: 'file', size: 0, modified: new Date() }
  const { readable, ...publish } = options
  const writeBack = (source: Source, { modified = publish.modified, mode = publish.mode }: Attributes) =>
    storage.write(path, source, { ...publish, modified, mode })
  if (mode === 'update' && old) {
    // A change in place does not change the permission bits.
    const content = storage.source(path, old)
    const change = (source: Source, { mode = publish.mode ?? old.mode, modified }: Attributes) =>
      writeBack(source, { mode, modified })
    return SpooledFile.open(spool, old, content, change, options.signal)
  }
  if (readable === true) return SpooledFile.open(spool, fresh, undefined, writeBack, options.signal)
  return new StreamWriter(
    fresh,
    publish,
    (source, write) => storage.write(path, source, write),
    async (entry, attributes) => {
      if (attributes.modified === undefined && attributes.mode === undefined) return entry
      await storage.setAttributes(path, attributes, { signal: options.signal })
      return storage.stat(path, { signal: options.signal })
    },
  )
}

/** Otherwise a stream would report a missing parent only at its end. */
async function assertParent(storage: Storage, path: Path, options: CallOptions): Promise<void> {
  // On a backend without folders, no parent can be missing.
  if (!storage.traits.emptyFolders) return
  const parent = await storage.stat(parentOf(path), options).catch((error: unknown) => {
    throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
  })
  if (parent.kind !== 'folder') throw new GatewayError('not_folder')
}

/**
 * A file in the spool, initially empty or with the stored content. Reads and writes at any position; `commit` writes it
 * back.
 */
export class SpooledFile implements OpenFile {
  private constructor(
    readonly entry: Entry,
    private readonly handle: FileHandle,
    private readonly spool: Spool,
    private readonly file: string,
    private readonly writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    size: number,
  ) {
    this.#size = size
  }

  #committing: Promise<unknown> = Promise.resolve()
  /** The size of the file, including pending writes. */
  #size: number

  /** `content`: the initial content; undefined for an empty file. */
  static async open(
    spool: Spool,
    entry: Entry,
    content: Source | undefined,
    writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    signal?: AbortSignal,
  ): Promise<SpooledFile> {
    const received = content && (await spool.receive(content, signal))
    const file = received?.file ?? spool.newFile()
    try {
      const handle = await openFile(file, received ? 'r+' : 'wx+', 0o600)
      return new SpooledFile(entry, handle, spool, file, writeBack, received?.size ?? 0)
    } catch (error) {
      await spool.remove(basename(file))
      throw error
    }
  }

  async read(into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const { bytesRead } = await this.handle.read(into, filled, into.length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return filled
  }

  async write(from: readonly Buffer[], position: number): Promise<void> {
    this.#resize(
      Math.max(
        this.#size,
        from.reduce((end, { length }) => end + length, position),
      ),
    )
    await convertDiskFull(async () => {
      let at = position
      for (const bytes of from) {
        for (let done = 0; done < bytes.length;) {
          done += (await this.handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten
        }
        at += bytes.length
      }
    })
  }

  async truncate(size: number): Promise<void> {
    if (size > this.#size) this.#resize(size)
    await convertDiskFull(() => this.handle.truncate(size))
    if (size < this.#size) this.#resize(size)
  }

  #resize(size: number): void {
    this.spool.resize(this.file, size)
    this.#size = size
  }

  async commit(attributes: Attributes = {}): Promise<Entry> {
    const { size } = await this.handle.stat()
    const source: Source = {
      size,
      rereadable: true,
      read: readFrom(this.file),
    }
    const written = this.writeBack(source, attributes)
    this.#committing = written.catch(() => undefined)
    return written
  }

  async close(): Promise<void> {
    // Writing back reads the file until it has finished.
    await this.#committing
    await this.handle.close()
    await this.spool.remove(basename(this.file))
  }
}
