/** The thumbnails of one mount: shares one job between identical requests, and keeps the results and the failures. */
import { realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { LRUCache } from 'lru-cache'
import {
  thumbnailSizes,
  type Thumbnail,
  type ThumbnailKind,
  type ThumbnailOptions,
  type ThumbnailSize,
} from '../../../src/contract/capabilities.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { FairShare } from '../../../src/base/fair-share.js'
import type { DriverLog } from '../../../src/base/log.js'
import { makeFolders } from '../../../src/base/make-folders.js'
import type { LocalOptions } from '../index.js'
import { hasImageLibrary, imageThumbnail, type OpenedFile } from './images.js'
import { decoderTurns } from './limited-process.js'
import { ThumbnailCache } from './picture-folder.js'
import { canMakeVideos, parsePosition, videoThumbnail, type VideoPosition } from './videos.js'

/** Maximum concurrency, also used if the configured one is 0. */
const maxConcurrent = 64

/** The folder of thumbnails in the data folder. Storages do not show it. */
const defaultFolder = 'thumbnails'

/** How many failures are remembered, and for how many milliseconds: the same file fails again. */
const maxFailures = 10_000
const failureTime = 600_000

const types: Readonly<Record<ThumbnailKind, string>> = { image: 'image/webp', video: 'image/jpeg' }

/** The file to create a thumbnail of. */
interface ThumbnailSource {
  /** Identifies the file and its content, for all mounts. */
  readonly revision: string
  open(): Promise<OpenedFile>
}

interface Job {
  readonly promise: Promise<Buffer>
  readonly controller: AbortController
  waiters: number
}

interface Dependencies {
  readonly kinds: readonly ThumbnailKind[]
  readonly concurrency: number
  readonly position: VideoPosition
  readonly cache: ThumbnailCache
  readonly log: DriverLog
}

export class Thumbnails {
  readonly kinds: readonly ThumbnailKind[]
  readonly #dependencies: Dependencies
  /** Turns of users to have files of this mount decoded. */
  readonly #turns: FairShare
  readonly #jobs = new Map<string, Job>()
  readonly #failures = new LRUCache<string, GatewayError>({
    maxSize: maxFailures,
    sizeCalculation: () => 1,
    ttl: failureTime,
  })
  #closed = false
  #hasWarned = false

  constructor(dependencies: Dependencies) {
    this.kinds = dependencies.kinds
    this.#dependencies = dependencies
    this.#turns = new FairShare(dependencies.concurrency)
  }

  /** Resolves and rejects as `Driver.thumbnail` does. */
  async of(source: ThumbnailSource, kind: ThumbnailKind, options: ThumbnailOptions): Promise<Thumbnail> {
    if (!this.kinds.includes(kind)) throw new GatewayError('unsupported')
    const { size = thumbnailSizes[0] } = options
    const key = [kind, size, source.revision, ...(kind === 'video' ? [this.#positionText()] : [])].join('\n')
    const failure = this.#failures.get(key)
    if (failure) throw new GatewayError(failure.code, { reason: failure.reason, cause: failure })
    const kept = await this.#dependencies.cache.get(key)
    return { type: types[kind], bytes: kept ?? (await this.#share({ key, source, kind, size }, options)) }
  }

  #positionText(): string {
    return JSON.stringify(this.#dependencies.position)
  }

  /** Joins the job for this key, or starts one. The job is aborted when its last waiter is. */
  async #share(wanted: Wanted, { signal, holder }: ThumbnailOptions): Promise<Buffer> {
    if (signal?.aborted) throw new GatewayError('aborted')
    const job = this.#jobs.get(wanted.key) ?? this.#start(wanted, holder)
    job.waiters++
    let cancel: () => void = () => undefined
    const canceled = new Promise<never>((_resolve, reject) => {
      cancel = () => reject(new GatewayError('aborted'))
      signal?.addEventListener('abort', cancel, { once: true })
    })
    try {
      return await Promise.race([job.promise, canceled])
    } finally {
      signal?.removeEventListener('abort', cancel)
      if (--job.waiters === 0) job.controller.abort()
    }
  }

  /** `holder`: whose turns it uses, also if others join. */
  #start(wanted: Wanted, holder: ThumbnailOptions['holder']): Job {
    const { key } = wanted
    const controller = new AbortController()
    const { signal } = controller
    const decode = () => decoderTurns.run(holder, () => this.#make(wanted, signal), signal)
    const promise = this.#turns.run(holder, decode, signal)
    const job = { promise, controller, waiters: 0 }
    this.#jobs.set(key, job)
    // An aborted job is not joined by later requests.
    const forget = () => this.#jobs.get(key) === job && this.#jobs.delete(key)
    signal.addEventListener('abort', forget, { once: true })
    promise.then(forget, (error: unknown) => {
      forget()
      this.#remember(key, error)
    })
    return job
  }

  async #make({ key, source, kind, size }: Wanted, signal: AbortSignal): Promise<Buffer> {
    if (signal.aborted) throw new GatewayError('aborted')
    const file = await source.open()
    try {
      const { position, cache } = this.#dependencies
      const picture =
        kind === 'video' ? await videoThumbnail(file.fd, position, size, signal) : await imageThumbnail(file, size)
      // A file that was written meanwhile may have another picture.
      if (!this.#closed && (await file.revision()) === source.revision) await cache.put(key, picture)
      return picture
    } finally {
      await file.close()
    }
  }

  #remember(key: string, error: unknown): void {
    if (isGatewayError(error, 'invalid', 'unsupported', 'timeout')) this.#failures.set(key, error)
    if (!isGatewayError(error, 'unavailable') || this.#hasWarned) return
    this.#hasWarned = true
    this.#dependencies.log.warn({ err: error }, 'thumbnails cannot be made')
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const { controller } of this.#jobs.values()) controller.abort()
    await this.#dependencies.cache.swept()
  }
}

/** What is not there yet, and where it will be. */
interface Wanted {
  readonly key: string
  readonly source: ThumbnailSource
  readonly kind: ThumbnailKind
  readonly size: ThumbnailSize
}

/**
 * Creates the thumbnails of a mount according to its options; undefined if they are disabled. Rejects with `invalid`
 * for invalid options.
 */
export async function openThumbnails(
  options: LocalOptions,
  root: string,
  { log, own }: Pick<DriverEnv, 'log' | 'own'>,
): Promise<Thumbnails | undefined> {
  const position = parsePosition(options.video_thumb_pos)
  if (!position) rejectInvalid('video_thumb_pos must be seconds, or a percentage up to 100%')
  if (!/^\d{0,4}$/.test(options.thumb_concurrency.trim()))
    rejectInvalid('thumb_concurrency must be a number, 0 or more')
  if (!options.thumbnail) return undefined
  const concurrency = Math.min(Number(options.thumb_concurrency) || maxConcurrent, maxConcurrent)
  const folder = await openCacheFolder(options.thumb_cache_folder.trim(), root, own.data)
  const kinds: ThumbnailKind[] = []
  if (hasImageLibrary()) kinds.push('image')
  else log.info({}, 'no thumbnails of images: the package sharp is not installed')
  if (await canMakeVideos()) kinds.push('video')
  else log.info({}, 'no thumbnails of videos: ffmpeg and ffprobe are not installed')
  return new Thumbnails({ kinds, concurrency, position, cache: ThumbnailCache.in(folder, log), log })
}

/**
 * The folder of the option, created if missing. Rejects a folder inside the storage, where all its users could see it.
 * Without the option, a folder in `data`, which is created with its first thumbnail. A relative path is relative to
 * `data`.
 */
async function openCacheFolder(text: string, root: string, data: string): Promise<string> {
  if (text === '') return join(data, defaultFolder)
  const path = resolve(data, text)
  try {
    await makeFolders(path, 0o700)
  } catch (error) {
    throw new GatewayError('invalid', { reason: `cannot create thumb_cache_folder ${path}`, cause: error })
  }
  const folder = await realpath(path)
  if (`${folder}/`.startsWith(`${root}/`)) rejectInvalid('thumb_cache_folder must be outside of the root folder')
  return folder
}

function rejectInvalid(reason: string): never {
  throw new GatewayError('invalid', { reason })
}
