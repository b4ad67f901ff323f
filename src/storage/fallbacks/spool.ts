/**
 * Temporary files on the local disk for uploads that must be read twice, whose size must be known (`sendAsNeeded`), or
 * that a task stores later. Several processes may share the folder: a file is named after the one that created it.
 */
import { createHash, randomUUID, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../contract/call-options.js'
import type { Instance } from '../../contract/driver-env.js'
import type { Entry, HashName } from '../../contract/entry.js'
import type { Traits } from '../../contract/traits.js'
import { GatewayError, isGatewayError } from '../../base/errors.js'

/** A source on the local disk. The caller must call `dispose`, which deletes the file. */
export interface Spooled extends Source {
  readonly size: number
  readonly file: string
  dispose(): Promise<void>
}

interface SpoolOptions {
  readonly instance: Pick<Instance, 'name' | 'isOver'>
  /** Names of files of earlier processes that this one needs. */
  readonly keep?: ReadonlySet<string>
  /** Names of files of earlier processes that others need. */
  readonly neededElsewhere?: ReadonlySet<string>
  /** Returns the current maximum size of all files of the spool together, in bytes. */
  readonly limit?: () => number
}

export class Spool {
  /** The size of each file, in bytes. */
  readonly #sizes = new Map<string, number>()
  #total = 0

  private constructor(
    readonly folder: string,
    private readonly instance: Pick<Instance, 'name'>,
    private readonly limit: () => number,
  ) {}

  /** Opens the folder, creates it if it is missing, and deletes the files of ended processes that no process needs. */
  static async open(folder: string, options: SpoolOptions): Promise<Spool> {
    const { instance, keep, neededElsewhere, limit = () => Infinity } = options
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const spool = new Spool(folder, instance, limit)
    for (const name of await readdir(folder)) {
      if (keep?.has(name) === true) await spool.find(name)
      else if (isOver(name, instance) && neededElsewhere?.has(name) !== true) {
        await rm(join(folder, name), { force: true, recursive: true })
      }
    }
    return spool
  }

  /** Bytes that can still be received. Negative if the limit has been lowered below the current size. */
  get room(): number {
    return this.limit() - this.#total
  }

  /** Returns the path of a new file in the spool, without creating it. */
  newFile(): string {
    return join(this.folder, `${this.instance.name}.${randomUUID()}`)
  }

  /**
   * Writes the whole source to a new file. `sync`: the file survives a power failure. `hashes`: digests that are
   * computed while the bytes arrive, and added to those of the source. Rejects with `no_space` if the disk is full or
   * the spool's limit is exceeded, with `invalid` if the source has another size than announced, and with `aborted` if
   * its stream is destroyed without an error. Deletes the file on failure.
   */
  async receive(
    source: Source,
    signal?: AbortSignal,
    sync = false,
    hashes: readonly HashName[] = [],
  ): Promise<Spooled> {
    const file = this.newFile()
    try {
      this.#assertRoom(source.size ?? 0)
      const bytes = await source.read(undefined, { signal })
      const digests = hashes.map((name) => ({ name, hash: createHash(name) }))
      const counted = this.#counted(
        file,
        digests.map(({ hash }) => hash),
      )
      // Created before the bytes flow: a stream that opens its file itself may create it after a failure has removed
      // it.
      const created = await convertDiskFull(() => open(file, 'wx', 0o600)).catch((error: unknown) => {
        bytes.destroy()
        throw error
      })
      await convertDiskFull(() =>
        pipeline(bytes, counted, created.createWriteStream({ highWaterMark: 1024 * 1024 }), { signal }),
      )
      const { size } = await stat(file)
      if (source.size !== undefined && source.size !== size) {
        throw new GatewayError('invalid', { reason: `${source.size} bytes were announced, ${size} came` })
      }
      if (sync) await synced(file)
      const computed = Object.fromEntries(digests.map(({ name, hash }) => [name, hash.digest('hex')]))
      const known = digests.length === 0 ? source.hashes : { ...source.hashes, ...computed }
      return this.#spooled(file, size, { modified: source.modified, hashes: known })
    } catch (error) {
      await this.remove(basename(file))
      if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
      throw new GatewayError('aborted', { reason: 'the body ended prematurely', cause: error })
    }
  }

  /** Resolves to a file that was received earlier, also by another process; undefined if it does not exist. */
  async find(name: string, facts: Pick<Source, 'modified' | 'hashes'> = {}): Promise<Spooled | undefined> {
    const file = join(this.folder, name)
    if (!this.#sizes.has(file)) {
      const size = await sizeOf(file)
      if (size === undefined) return undefined
      if (!this.#sizes.has(file)) this.#grow(file, size)
    }
    return this.#spooled(file, this.#sizes.get(file) ?? 0, facts)
  }

  /** Accounts for a new size of a file. Throws `no_space` if that exceeds the limit. */
  resize(file: string, size: number): void {
    const more = size - (this.#sizes.get(file) ?? 0)
    if (more > 0) this.#assertRoom(more)
    this.#grow(file, more)
  }

  /** Deletes a file. A missing file is not an error. */
  async remove(name: string): Promise<void> {
    const file = join(this.folder, name)
    await rm(file, { force: true })
    this.#total -= this.#sizes.get(file) ?? 0
    this.#sizes.delete(file)
  }

  #spooled(file: string, size: number, source: Pick<Source, 'modified' | 'hashes'>): Spooled {
    return {
      ...factsOf(source),
      size,
      file,
      rereadable: true,
      read: readFrom(file),
      dispose: () => this.remove(basename(file)),
    }
  }

  #counted(file: string, hashes: readonly Hash[]): (chunks: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
    this.#sizes.set(file, 0)
    const grow = (bytes: number) => {
      this.#assertRoom(bytes)
      this.#grow(file, bytes)
    }
    return async function* (chunks) {
      for await (const chunk of chunks) {
        grow(chunk.length)
        for (const hash of hashes) hash.update(chunk)
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

/** Sends a source by `send`, through the spool if the backend needs more than the source has. */
export async function sendAsNeeded(
  source: Source,
  { writeNeeds, writeHashes }: Pick<Traits, 'writeNeeds' | 'writeHashes'>,
  spool: Spool,
  signal: AbortSignal | undefined,
  send: (source: Source) => Promise<Entry>,
): Promise<Entry> {
  const sendSpooled = async () => {
    const lacking = writeHashes.filter((name) => source.hashes?.[name] === undefined)
    const spooled = await spool.receive(source, signal, false, lacking)
    try {
      return await send(spooled)
    } finally {
      await spooled.dispose()
    }
  }
  const isTooLittle =
    (writeNeeds === 'size' && source.size === undefined) ||
    (writeNeeds === 'reread' && !source.rereadable) ||
    writeHashes.some((name) => source.hashes?.[name] === undefined)
  if (isTooLittle) return sendSpooled()
  if (source.size !== undefined) return send(source)
  const body = { isRead: false }
  const read: Source['read'] = (range, options) => {
    body.isRead = true
    return source.read(range, options)
  }
  const { modified, hashes, rereadable } = source
  try {
    return await send({ modified, hashes, rereadable, read })
  } catch (error) {
    // Some backends report only now that they need the size.
    if (body.isRead || !isGatewayError(error, 'unsupported')) throw error
    return sendSpooled()
  }
}

/** Whether the process that created the file has ended. Files without the name of one are of an older version. */
function isOver(file: string, { isOver }: Pick<Instance, 'isOver'>): boolean {
  const dot = file.indexOf('.')
  return dot === -1 || isOver(file.slice(0, dot)) === true
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Syncs the file and the folder that contains it. */
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

/** Runs `work`, and rejects with `no_space` if it fails because the spool's disk is full. */
export async function convertDiskFull<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    throw new GatewayError('no_space', { reason: 'the spool disk is full', cause: error })
  }
}

function factsOf(source: Pick<Source, 'modified' | 'hashes'>): Pick<Source, 'modified' | 'hashes'> {
  return { modified: source.modified, hashes: source.hashes }
}

/** Returns the `read` function of a source stored in a local file. */
export function readFrom(file: string): Source['read'] {
  return async (range) => {
    const start = range?.offset ?? 0
    if (range?.length === 0) return Readable.from([])
    const end = range?.length === undefined ? undefined : start + range.length - 1
    return createReadStream(file, { start, ...(end === undefined ? {} : { end }), highWaterMark: 512 * 1024 })
  }
}
