/**
 * Large files on their way to a storage: what their drivers keep of them, for another run of their task to go on with, and what
 * becomes of that (docs/decisions/0015).
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Driver, Entry, Source, WriteOptions } from './driver.js'
import { unlessUnsupported } from './driver-calls.js'
import { mayPass, SourceChangedError } from './errors.js'
import type { Log } from './log.js'
import type { Path } from './path.js'
import type { Storage } from './storage.js'
import type { Store, UploadRow } from './store/rows.js'

/** Bytes of a file from which on it is worth a row. */
const keptFrom = 16 * 1024 * 1024
/** Milliseconds for which a task waits for what it has kept to go. */
const dropPatience = 2000
/** Milliseconds after which a storage that could not let go of something is asked again. */
const dropPause = 60_000

/** `resume`: the token of an earlier run. `keep` resolves when a token is surely kept. Undefined: nothing was done. */
type UploadWork = (resume: string | undefined, keep: (token: string) => Promise<void>) => Promise<Entry | undefined>

/** One file of one task, in one state of its source, on its way to wherever it is written. */
export interface KeptUpload {
  /** Does `work` on this storage. What is kept goes when that succeeds, or fails in a way that does not pass. */
  during(storageId: number, work: UploadWork): Promise<Entry | undefined>
}

/** What a row says of its file, whatever its driver keeps of it. */
type FileOfTask = Omit<UploadRow, 'id' | 'token'> & { readonly taskId: string }

export interface KeptUploadsParts {
  readonly store: Store['uploads']
  /** Undefined for one that does not run. */
  readonly storageOf: (id: number) => Pick<Storage, 'dropUpload'> | undefined
  readonly log: Log
}

export class KeptUploads {
  /** Rows of files that are being written, or let go of. */
  readonly #busy = new Set<number>()
  /** Rows that a storage could not let go of. */
  readonly #failed = new Set<number>()
  #again: NodeJS.Timeout | undefined

  constructor(
    private readonly parts: KeptUploadsParts,
    private readonly pause = dropPause,
  ) {}

  close(): void {
    clearTimeout(this.#again)
  }

  /** What somebody may go on with. */
  tokens(): Promise<readonly string[]> {
    return this.parts.store.tokens()
  }

  /** Tasks for which something is kept. */
  owners(): Promise<readonly string[]> {
    return this.parts.store.owners()
  }

  /** `source`: its state, in the words of `stateOf`, or whatever else differs as soon as its bytes do. */
  of(taskId: string, path: Path, source: string): KeptUpload {
    return { during: (storageId, work) => this.#during({ taskId, path, source, storageId }, work) }
  }

  /** Nobody goes on with what is kept for this task. Resolves when it is gone, or after a while: what takes longer goes by itself. */
  async drop(taskId: string): Promise<void> {
    await this.parts.store.releaseAll(taskId)
    const dropped = this.#dropLoose(({ id }) => !this.#failed.has(id))
    await Promise.race([dropped, pause(dropPatience, undefined, { ref: false })])
  }

  /** A storage runs again: what nobody goes on with there goes. Rejects with nothing. */
  settle({ row }: Pick<Storage, 'row'>): Promise<void> {
    return this.#dropLoose(({ storageId }) => storageId === row.id)
  }

  async #during(file: FileOfTask, work: UploadWork) {
    const { store } = this.parts
    let row = await this.#earlier(file)
    let isOver = false
    const keep = async (token: string) => {
      // A driver may still tell of what was begun before it failed.
      if (isOver || row?.token === token) return
      if (row) await store.setToken(row.id, token)
      row = { ...file, token, id: row?.id ?? (await store.insert({ ...file, token })) }
      this.#busy.add(row.id)
    }
    const end = () => {
      isOver = true
      if (row) this.#busy.delete(row.id)
      return row
    }
    if (row) this.#busy.add(row.id)
    try {
      const entry = await work(row?.token, keep)
      const last = end()
      if (last) await (entry ? store.delete(last.id) : this.#letGo(last))
      return entry
    } catch (error) {
      const last = end()
      if (last && (!mayPass(error) || error instanceof SourceChangedError)) await this.#letGo(last)
      throw error
    }
  }

  /** What was kept of these very bytes on this storage. */
  async #earlier(file: FileOfTask): Promise<UploadRow | undefined> {
    const row = await this.parts.store.of(file.taskId, file.path)
    if (!row || (row.source === file.source && row.storageId === file.storageId)) return row
    await this.#letGo(row)
    return undefined
  }

  async #letGo(row: UploadRow): Promise<void> {
    await this.parts.store.release(row.id)
    await this.#drop(row)
  }

  async #dropLoose(which: (row: UploadRow) => boolean): Promise<void> {
    try {
      for (const row of await this.parts.store.loose()) if (which(row)) await this.#drop(row)
    } catch (error) {
      this.parts.log.warn({ err: error }, 'half-sent files that nobody needs could not be let go of')
    }
  }

  #tryAgain(): void {
    this.#again = undefined
    void this.#dropLoose(({ id }) => this.#failed.has(id))
  }

  /** The row goes last. Of a storage that does not run, it waits for its next start; one that cannot do it now is asked again in a while. */
  async #drop({ id, storageId, token }: UploadRow): Promise<void> {
    const { store, storageOf, log } = this.parts
    const storage = storageOf(storageId)
    if (!storage || this.#busy.has(id)) return
    this.#busy.add(id)
    try {
      await storage.dropUpload(token)
      await store.delete(id)
      this.#failed.delete(id)
    } catch (error) {
      this.#failed.add(id)
      this.#again ??= setTimeout(() => this.#tryAgain(), this.pause).unref()
      log.warn({ err: error, storage: storageId }, 'a half-sent file that nobody needs could not be let go of')
    } finally {
      this.#busy.delete(id)
    }
  }
}

/**
 * Writes a large file so that it can be gone on with, from wherever it was left. Undefined, and nothing was done, for files and
 * drivers of which nothing is kept.
 */
export async function writeKept(
  driver: Driver,
  storageId: number,
  [path, source]: readonly [path: Path, source: Source],
  kept: KeptUpload,
  options: WriteOptions,
): Promise<Entry | undefined> {
  const { size, rereadable } = source
  if (!driver.upload || size === undefined || size < keptFrom || !rereadable) return undefined
  return kept.during(storageId, async (resume, keep) => {
    const begun = await unlessUnsupported(async () => driver.upload?.(path, { size, resume, replace: keep }, options))
    if (!begun) return undefined
    try {
      await keep(begun.token).catch(async (error: unknown) => {
        await begun.close()
        await driver.dropUpload?.(begun.token)
        throw error
      })
      const { signal } = options
      await begun.write(await source.read(begun.confirmed === 0 ? undefined : { offset: begun.confirmed }, { signal }))
      return await begun.commit()
    } finally {
      await begun.close()
    }
  })
}
