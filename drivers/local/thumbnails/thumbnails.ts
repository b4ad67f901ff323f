/**
 * The thumbnails of one mount: limits concurrency, shares one job between identical requests, and caches the results.
 */
import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import PQueue from 'p-queue'
import type { Thumbnail, ThumbnailKind } from '../../../src/contract/capabilities.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { GatewayError } from '../../../src/base/errors.js'
import { makeFolders } from '../../../src/base/make-folders.js'
import type { LocalOptions } from '../index.js'
import { canMakeImages, imageThumbnail, type OpenedFile } from './images.js'
import { ThumbnailCache } from './picture-folder.js'
import { canMakeVideos, parsePosition, videoThumbnail, type VideoPosition } from './videos.js'

/** Maximum concurrency, also used if the configured one is 0. */
const maxConcurrent = 64
/** Maximum number of queued files. Further requests are rejected with `busy`. */
const maxQueued = 512

/** The file to create a thumbnail of. */
interface ThumbnailSource {
  /** Path on the host. */
  readonly path: string
  readonly revision: string
  open(): Promise<OpenedFile>
}

interface Job {
  readonly promise: Promise<Buffer>
  readonly controller: AbortController
  waiters: number
}

interface ThumbnailsOptions {
  readonly kinds: readonly ThumbnailKind[]
  readonly concurrency: number
  readonly position: VideoPosition
  readonly cache: ThumbnailCache | undefined
}

export class Thumbnails {
  readonly kinds: readonly ThumbnailKind[]
  readonly #options: ThumbnailsOptions
  readonly #queue: PQueue
  readonly #jobs = new Map<string, Job>()
  #closed = false

  constructor(options: ThumbnailsOptions) {
    this.kinds = options.kinds
    this.#options = options
    this.#queue = new PQueue({ concurrency: options.concurrency })
  }

  /**
   * Resolves to the thumbnail of a file. Rejects with `unsupported` for kinds and files that are not supported, and
   * with `busy` if the queue is full.
   */
  async of(source: ThumbnailSource, kind: ThumbnailKind, signal: AbortSignal | undefined): Promise<Thumbnail> {
    if (!this.kinds.includes(kind)) throw new GatewayError('unsupported')
    const key = [kind, source.revision, source.path, ...(kind === 'video' ? [this.#positionText()] : [])].join('\n')
    const cached = await this.#options.cache?.get(key)
    const bytes = cached ?? (await this.#share(key, source, kind, signal))
    return { type: 'image/png', bytes }
  }

  #positionText(): string {
    return JSON.stringify(this.#options.position)
  }

  /** Joins the job for this key, or starts one. The job is aborted when its last waiter is. */
  async #share(
    key: string,
    source: ThumbnailSource,
    kind: ThumbnailKind,
    signal: AbortSignal | undefined,
  ): Promise<Buffer> {
    if (signal?.aborted) throw new GatewayError('aborted')
    const job = this.#jobs.get(key) ?? this.#start(key, source, kind)
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

  #start(key: string, source: ThumbnailSource, kind: ThumbnailKind): Job {
    if (this.#queue.size >= maxQueued) {
      throw new GatewayError('busy', { reason: 'too many thumbnails are being created', retryAfter: 5 })
    }
    const controller = new AbortController()
    const { signal } = controller
    const promise = this.#queue.add(() => this.#make(key, source, kind, signal))
    const job = { promise, controller, waiters: 0 }
    this.#jobs.set(key, job)
    // An aborted job is not joined by later requests.
    const forget = () => this.#jobs.get(key) === job && this.#jobs.delete(key)
    signal.addEventListener('abort', forget, { once: true })
    promise.then(forget, forget)
    return job
  }

  async #make(key: string, source: ThumbnailSource, kind: ThumbnailKind, signal: AbortSignal): Promise<Buffer> {
    if (signal.aborted) throw new GatewayError('aborted')
    const file = await source.open()
    let picture: Buffer
    try {
      picture =
        kind === 'video' ? await videoThumbnail(file.fd, this.#options.position, signal) : await imageThumbnail(file)
    } finally {
      await file.close()
    }
    if (!this.#closed) await this.#options.cache?.put(key, picture)
    return picture
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const { controller } of this.#jobs.values()) controller.abort()
    await this.#options.cache?.close()
  }
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
  const folder = await createCacheFolder(options.thumb_cache_folder.trim(), root, own.data)
  const kinds: ThumbnailKind[] = []
  if (await canMakeImages()) kinds.push('image')
  else log.warn({}, 'no thumbnails of images: the package sharp is not installed or not usable')
  if (await canMakeVideos()) kinds.push('video')
  else log.warn({}, 'no thumbnails of videos: ffmpeg and ffprobe are not installed')
  const cache = folder === undefined ? undefined : new ThumbnailCache({ folder, log })
  return new Thumbnails({ kinds, concurrency, position, cache })
}

/**
 * Creates the cache folder if missing. Rejects a folder inside the storage, where all its users could see it. `from`:
 * base of a relative path.
 */
async function createCacheFolder(text: string, root: string, from: string): Promise<string | undefined> {
  if (text === '') return undefined
  const path = resolve(from, text)
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
