/**
 * A cache of thumbnails in a folder of the host. File names are hashes of the cache keys. `lru-cache` has its entries
 * in memory, so that it would lose them when the process ends.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm, stat, opendir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverLog } from '../../../src/base/log.js'

/** Default limit of a folder in bytes. The least recently used thumbnails are removed first. */
const defaultCapacity = 1024 * 1024 * 1024
/** A sweep removes thumbnails until this fraction of the limit is used. */
const sweepTarget = 0.9
/** The first write, and then each time that so much of the limit was written, starts a sweep. */
const writtenBetweenSweeps = 0.05
const day = 24 * 3_600_000
/** Names of earlier versions ended with .png. */
const prefix = 'tidegate_thumb_'
const pictureName = /^tidegate_thumb_[\da-f]{64}$/

/** The caches of this process, by their folders: storages with the same folder share one. */
const caches = new Map<string, ThumbnailCache>()

export class ThumbnailCache {
  readonly #folder: string
  readonly #log: DriverLog
  readonly #capacity: number
  #unswept = Infinity
  #sweepInProgress: Promise<void> | undefined
  #hasWarned = false

  /** `folder`: an absolute path, created if missing. `capacity`: the limit in bytes. */
  constructor(folder: string, log: DriverLog, capacity = defaultCapacity) {
    this.#folder = folder
    this.#log = log
    this.#capacity = capacity
  }

  /** The cache in this folder, of this process. */
  static in(folder: string, log: DriverLog): ThumbnailCache {
    const cache = caches.get(folder) ?? new ThumbnailCache(folder, log)
    caches.set(folder, cache)
    return cache
  }

  #fileOf(key: string): string {
    const digest = createHash('sha256').update(key).digest('hex')
    return join(this.#folder, digest.slice(0, 2), `${prefix}${digest}`)
  }

  async get(key: string): Promise<Buffer | undefined> {
    const file = this.#fileOf(key)
    try {
      const bytes = await readFile(file)
      const { mtimeMs } = await stat(file)
      // The modification time records the last use, with a resolution of one day.
      if (Date.now() - mtimeMs > day) await utimes(file, new Date(), new Date())
      return bytes
    } catch {
      return undefined
    }
  }

  /** Stores a thumbnail. Never rejects: the cache is optional, and errors are logged. */
  async put(key: string, picture: Buffer): Promise<void> {
    const file = this.#fileOf(key)
    const temporary = `${file}.${randomBytes(6).toString('hex')}`
    try {
      // Thumbnails show content that other users of the host may not read.
      await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
      const handle = await open(temporary, 'wx', 0o600)
      try {
        await handle.writeFile(picture)
      } finally {
        await handle.close()
      }
      await rename(temporary, file)
      this.#unswept += picture.length
      if (this.#unswept > this.#capacity * writtenBetweenSweeps) this.#startSweep()
    } catch (error) {
      if (!this.#hasWarned) this.#log.warn({ err: error }, `cannot write thumbnails to ${this.#folder}`)
      this.#hasWarned = true
      await rm(temporary, { force: true }).catch(() => undefined)
    }
  }

  /** Starts a sweep in the background, unless one is running. */
  #startSweep(): void {
    this.#unswept = 0
    this.#sweepInProgress ??= this.#sweep()
      .catch((error: unknown) => this.#log.debug({ err: error }, `cannot sweep ${this.#folder}`))
      .finally(() => {
        this.#sweepInProgress = undefined
      })
  }

  async #sweep(): Promise<void> {
    const files: { file: string; size: number; lastUsed: number }[] = []
    let total = 0
    for await (const group of await opendir(this.#folder)) {
      if (!group.isDirectory() || !/^[\da-f]{2}$/.test(group.name)) continue
      for await (const { name } of await opendir(join(this.#folder, group.name))) {
        if (!name.startsWith(prefix)) continue
        const file = join(this.#folder, group.name, name)
        const stats = await stat(file).catch(() => undefined)
        if (!stats) continue
        if (!pictureName.test(name)) {
          // A temporary file of a killed process, or a thumbnail of an earlier version.
          if (Date.now() - stats.mtimeMs > day) await rm(file, { force: true })
          continue
        }
        files.push({ file, size: stats.size, lastUsed: stats.mtimeMs })
        total += stats.size
      }
    }
    if (total <= this.#capacity) return
    files.sort((one, other) => one.lastUsed - other.lastUsed)
    for (const { file, size } of files) {
      if (total <= this.#capacity * sweepTarget) break
      await rm(file, { force: true })
      total -= size
    }
  }

  /** Resolves when no sweep is running. */
  async swept(): Promise<void> {
    await this.#sweepInProgress
  }
}
