/** Thumbnails that are kept in a folder of the host, each under a name made of what it shows. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm, stat, opendir, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverLog } from '../../../src/driver.js'

/** Bytes of all pictures; the ones that nobody asked for longest go first. */
const roomForAll = 1024 * 1024 * 1024
/** Swept down to this part of the room. */
const sweptTo = 0.9
const keptBetweenSweeps = 1000
const day = 24 * 3_600_000
const pictureName = /^tidegate_thumb_[\da-f]{64}\.png$/

export interface PictureFolderOptions {
  /** Absolute; it is made where it is missing. */
  readonly folder: string
  readonly log: DriverLog
  /** Bytes; absent: 1 GiB. */
  readonly room?: number | undefined
}

export class PictureFolder {
  readonly #folder: string
  readonly #log: DriverLog
  readonly #room: number
  #kept = 0
  #sweeping: Promise<void> | undefined
  #told = false

  constructor({ folder, log, room = roomForAll }: PictureFolderOptions) {
    this.#folder = folder
    this.#log = log
    this.#room = room
    this.sweep()
  }

  #fileOf(key: string): string {
    const digest = createHash('sha256').update(key).digest('hex')
    return join(this.#folder, digest.slice(0, 2), `tidegate_thumb_${digest}.png`)
  }

  async get(key: string): Promise<Buffer | undefined> {
    const file = this.#fileOf(key)
    try {
      const bytes = await readFile(file)
      const { mtimeMs } = await stat(file)
      // By this time it is told which ones nobody asks for.
      if (Date.now() - mtimeMs > day) await utimes(file, new Date(), new Date())
      return bytes
    } catch {
      return undefined
    }
  }

  /** Whether it can be kept or not, there is a thumbnail: nothing rejects. */
  async keep(key: string, picture: Buffer): Promise<void> {
    const file = this.#fileOf(key)
    const aside = `${file}.${randomBytes(6).toString('hex')}`
    try {
      // They show what not everybody may see.
      await mkdir(join(file, '..'), { recursive: true, mode: 0o700 })
      const handle = await open(aside, 'wx', 0o600)
      try {
        await handle.writeFile(picture)
      } finally {
        await handle.close()
      }
      await rename(aside, file)
      if (++this.#kept % keptBetweenSweeps === 0) this.sweep()
    } catch (error) {
      if (!this.#told) this.#log.warn({ err: error }, 'thumbnails cannot be kept in thumb_cache_folder')
      this.#told = true
      await rm(aside, { force: true }).catch(() => undefined)
    }
  }

  /** Makes room, in the background. */
  sweep(): void {
    this.#sweeping ??= this.#sweep()
      .catch((error: unknown) => this.#log.debug({ err: error }, 'thumb_cache_folder could not be swept'))
      .finally(() => {
        this.#sweeping = undefined
      })
  }

  async #sweep(): Promise<void> {
    const found: { file: string; size: number; used: number }[] = []
    let total = 0
    for await (const group of await opendir(this.#folder)) {
      if (!group.isDirectory() || !/^[\da-f]{2}$/.test(group.name)) continue
      for await (const { name } of await opendir(join(this.#folder, group.name))) {
        if (!name.startsWith('tidegate_thumb_')) continue
        const file = join(this.#folder, group.name, name)
        const stats = await stat(file).catch(() => undefined)
        if (!stats) continue
        if (!pictureName.test(name)) {
          // Left by a killed process.
          if (Date.now() - stats.mtimeMs > day) await rm(file, { force: true })
          continue
        }
        found.push({ file, size: stats.size, used: stats.mtimeMs })
        total += stats.size
      }
    }
    if (total <= this.#room) return
    found.sort((one, other) => one.used - other.used)
    for (const { file, size } of found) {
      if (total <= this.#room * sweptTo) break
      await rm(file, { force: true })
      total -= size
    }
  }

  /** Resolves when no sweep is on its way. */
  async close(): Promise<void> {
    await this.#sweeping
  }
}
