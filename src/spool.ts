/** Uploads that must be read again, or whose size must be known, are kept on the local disk for that long. */
import { randomUUID } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
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

export class Spool {
  private constructor(readonly folder: string) {}

  /** Opens the folder, making it where it is missing, and sweeps what an earlier process left. */
  static async open(folder: string): Promise<Spool> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    for (const name of await readdir(folder)) await rm(join(folder, name), { force: true, recursive: true })
    return new Spool(folder)
  }

  /** A name for a new file in the spool. */
  newFile(): string {
    return join(this.folder, randomUUID())
  }

  /** Receives the whole source. Rejects with `no_space` where the disk is full; nothing is left then. */
  async receive(source: Source, signal?: AbortSignal): Promise<Spooled> {
    const file = this.newFile()
    try {
      const bytes = await source.read(undefined, { signal })
      await onSpool(() =>
        pipeline(bytes, createWriteStream(file, { mode: 0o600, highWaterMark: 1024 * 1024 }), { signal }),
      )
      const { size } = await stat(file)
      if (source.size !== undefined && source.size !== size) {
        throw new GatewayError('invalid', { reason: `${source.size} bytes were announced, ${size} came` })
      }
      return {
        ...facts(source),
        size,
        file,
        rereadable: true,
        read: readFrom(file),
        dispose: () => rm(file, { force: true }),
      }
    } catch (error) {
      await rm(file, { force: true })
      throw error
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

function facts(source: Source): Pick<Source, 'modified' | 'hashes'> {
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
