/** Uploads that must be read again, whose size must be known, or that are stored later, are kept on the local disk for that long. */
import { randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from './driver.js'
import { GatewayError } from './errors.js'

/** A source on the local disk; whoever asked for it disposes of it. */
export interface Spooled extends Source {
  readonly size: number
  readonly file: string
  dispose(): Promise<void>
}

export interface SpoolOptions {
  /** Names of files that an earlier process left and that are still needed. */
  readonly keep?: ReadonlySet<string>
  /** Bytes that all files of the spool may take up together, as things stand now. */
  readonly limit?: () => number
}

export class Spool {
  /** Bytes of each received file. */
  readonly #sizes = new Map<string, number>()
  #total = 0

  private constructor(
    readonly folder: string,
    private readonly limit: () => number,
  ) {}

  /** Opens the folder, making it where it is missing, and sweeps what an earlier process left. */
  static async open(folder: string, { keep, limit = () => Infinity }: SpoolOptions = {}): Promise<Spool> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const spool = new Spool(folder, limit)
    for (const name of await readdir(folder)) {
      const file = join(folder, name)
      if (keep?.has(name) === true) spool.#grow(file, (await stat(file)).size)
      else await rm(file, { force: true, recursive: true })
    }
    return spool
  }

  /** Bytes that may still be received; negative where the limit has shrunk since. */
  get room(): number {
    return this.limit() - this.#total
  }

  /** A name for a new file in the spool. */
  newFile(): string {
    return join(this.folder, randomUUID())
  }

  /**
   * Receives the whole source; with `sync` it outlives a power cut. Rejects with `no_space` where the disk, or what the spool may
   * take of it, is full; nothing is left then.
   */
  async receive(source: Source, signal?: AbortSignal, sync = false): Promise<Spooled> {
    const file = this.newFile()
    try {
      this.#assertRoom(source.size ?? 0)
      const bytes = await source.read(undefined, { signal })
      const counted = this.#counted(file)
      await onSpool(() =>
        pipeline(bytes, counted, createWriteStream(file, { mode: 0o600, highWaterMark: 1024 * 1024 }), { signal }),
      )
      const { size } = await stat(file)
      if (source.size !== undefined && source.size !== size) {
        throw new GatewayError('invalid', { reason: `${source.size} bytes were announced, ${size} came` })
      }
      if (sync) await synced(file)
      return this.#spooled(file, size, source)
    } catch (error) {
      await this.remove(basename(file))
      throw error
    }
  }

  /** What an earlier call, or an earlier process, received; undefined where it is gone. */
  find(name: string, known: Pick<Source, 'modified' | 'hashes'> = {}): Spooled | undefined {
    const file = join(this.folder, name)
    const size = this.#sizes.get(file)
    return size === undefined ? undefined : this.#spooled(file, size, known)
  }

  /** A file of the spool is to be of this size: rejects with `no_space` where there is no room for that. */
  resize(file: string, size: number): void {
    const more = size - (this.#sizes.get(file) ?? 0)
    if (more > 0) this.#assertRoom(more)
    this.#grow(file, more)
  }

  /** One that is gone already is no error. */
  async remove(name: string): Promise<void> {
    const file = join(this.folder, name)
    await rm(file, { force: true })
    this.#total -= this.#sizes.get(file) ?? 0
    this.#sizes.delete(file)
  }

  #spooled(file: string, size: number, source: Pick<Source, 'modified' | 'hashes'>): Spooled {
    return {
      ...facts(source),
      size,
      file,
      rereadable: true,
      read: readFrom(file),
      dispose: () => this.remove(basename(file)),
    }
  }

  #counted(file: string): (chunks: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
    this.#sizes.set(file, 0)
    const grow = (bytes: number) => {
      this.#assertRoom(bytes)
      this.#grow(file, bytes)
    }
    return async function* (chunks) {
      for await (const chunk of chunks) {
        grow(chunk.length)
        yield chunk
      }
    }
  }

  #grow(file: string, bytes: number): void {
    this.#sizes.set(file, (this.#sizes.get(file) ?? 0) + bytes)
    this.#total += bytes
  }

  #assertRoom(bytes: number): void {
    if (bytes <= this.room) return
    throw new GatewayError('no_space', { reason: 'too many uploads wait on the local disk (spool_size_limit)' })
  }
}

/** The file and its name, on the medium. */
async function synced(file: string): Promise<void> {
  for (const path of [file, join(file, '..')]) {
    const handle = await open(path, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
}

/** Rejects with `no_space` where the work filled the disk of the spool. */
export async function onSpool<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    throw new GatewayError('no_space', { reason: 'the spool disk is full', cause: error })
  }
}

function facts(source: Pick<Source, 'modified' | 'hashes'>): Pick<Source, 'modified' | 'hashes'> {
  return { modified: source.modified, hashes: source.hashes }
}

/** The `read` of a source that lies in a file of ours. */
export function readFrom(file: string): Source['read'] {
  return async (range) => {
    const start = range?.offset ?? 0
    if (range?.length === 0) return Readable.from([])
    const end = range?.length === undefined ? undefined : start + range.length - 1
    return createReadStream(file, { start, ...(end === undefined ? {} : { end }), highWaterMark: 512 * 1024 })
  }
}
