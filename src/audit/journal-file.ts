/** A file of lines that are appended one by one, each by one synchronous write: it outlives the end of the process. */
import { closeSync, fdatasync, fstatSync, ftruncateSync, mkdirSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

const sync = promisify(fdatasync)

export class JournalFile {
  #descriptor: number | undefined
  #size = 0
  #isSynced = Promise.resolve()
  #nextSync: Promise<void> | undefined
  #hasSyncedName = false

  /** The file is made, for its owner alone, by the first append. So is its folder, if it was removed. */
  constructor(readonly path: string) {}

  /** The size of the file, in bytes. */
  get size(): number {
    return this.#size
  }

  /** Appends a line, which ends with a newline, or throws the error of the system and appends nothing. */
  append(line: string): void {
    this.#descriptor ??= created(this.path)
    const length = Buffer.byteLength(line)
    let written = 0
    try {
      written = writeSync(this.#descriptor, line)
      // A disk that becomes full takes a part first.
      while (written < length) written += writeSync(this.#descriptor, Buffer.from(line), written)
    } catch (error) {
      // A part of a line would spoil the next one.
      if (written > 0) ftruncateSync(this.#descriptor, this.#size)
      throw error
    }
    this.#size += length
  }

  /** Resolves when all lines that were appended before are on disk. Calls meanwhile share the next sync. */
  async sync(): Promise<void> {
    this.#nextSync ??= this.#isSynced
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined
        this.#isSynced = this.#sync()
        return this.#isSynced
      })
    await this.#nextSync
  }

  async #sync(): Promise<void> {
    if (this.#descriptor === undefined) return
    await sync(this.#descriptor)
    if (this.#hasSyncedName) return
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
    this.#hasSyncedName = true
  }

  /** Whether the file exists: it was made, and no other program has removed it. */
  get exists(): boolean {
    return this.#descriptor !== undefined && fstatSync(this.#descriptor).nlink > 0
  }

  /** Empties the file for other lines, when no sync runs: a new one would take three times as long. */
  async empty(): Promise<void> {
    await this.#untilSynced()
    if (this.#descriptor !== undefined) ftruncateSync(this.#descriptor)
    this.#size = 0
  }

  async #untilSynced(): Promise<void> {
    await this.#nextSync?.catch(() => undefined)
    await this.#isSynced.catch(() => undefined)
  }

  /** Closes the file, which may be appended to no more, when no sync runs. */
  async close(): Promise<void> {
    await this.#untilSynced()
    if (this.#descriptor !== undefined) closeSync(this.#descriptor)
    this.#descriptor = undefined
  }

  /** Closes and removes the file. */
  async remove(): Promise<void> {
    const { exists } = this
    await this.close()
    if (exists) unlinkSync(this.path)
  }
}

function created(path: string): number {
  const create = () => openSync(path, 'ax', 0o600)
  try {
    return create()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    return create()
  }
}

/** The values of the lines of a file. Leaves out lines that are torn: they were not complete when the process ended. */
export async function valuesIn(file: string): Promise<readonly unknown[]> {
  return (await readFile(file, 'utf8')).split('\n').flatMap((line) => {
    try {
      return line === '' ? [] : [JSON.parse(line) as unknown]
    } catch {
      return []
    }
  })
}
