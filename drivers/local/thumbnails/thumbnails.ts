/** Thumbnails of one mount: made in turn, one for all who ask for the same, and kept where there is a folder for that. */
import { mkdir, realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import PQueue from 'p-queue'
import type { DriverEnv, Thumbnail, ThumbnailKind } from '../../../src/driver.js'
import { GatewayError } from '../../../src/errors.js'
import type { LocalOptions } from '../index.js'
import { canMakeImages, imageThumbnail, type OpenedFile } from './images.js'
import { PictureFolder } from './picture-folder.js'
import { canMakeVideos, parsePosition, videoThumbnail, type VideoPosition } from './videos.js'

/** Where an admin sets no limit. */
const atOnceAtMost = 64
/** Files that wait for their turn; who comes then is asked to come again. */
const waitingAtMost = 512

/** What is known of a file before it is opened. */
export interface Asked {
  /** Of the host. */
  readonly path: string
  readonly revision: string
  open(): Promise<OpenedFile>
}

interface Job {
  readonly promise: Promise<Buffer>
  readonly controller: AbortController
  waiters: number
}

export interface ThumbnailsOptions {
  readonly kinds: readonly ThumbnailKind[]
  readonly atOnce: number
  readonly position: VideoPosition
  readonly kept: PictureFolder | undefined
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
    this.#queue = new PQueue({ concurrency: options.atOnce })
  }

  /** `unsupported` for kinds and files of which none is made, `busy` while too many wait. */
  async of(asked: Asked, kind: ThumbnailKind, signal: AbortSignal | undefined): Promise<Thumbnail> {
    if (!this.kinds.includes(kind)) throw new GatewayError('unsupported')
    const key = [kind, asked.revision, asked.path, ...(kind === 'video' ? [this.#positionText()] : [])].join('\n')
    const kept = await this.#options.kept?.get(key)
    const bytes = kept ?? (await this.#share(key, asked, kind, signal))
    return { type: 'image/png', bytes }
  }

  #positionText(): string {
    return JSON.stringify(this.#options.position)
  }

  /** One job for all who wait for it; it stops when the last of them leaves. */
  async #share(key: string, asked: Asked, kind: ThumbnailKind, signal: AbortSignal | undefined): Promise<Buffer> {
    if (signal?.aborted) throw new GatewayError('aborted')
    const job = this.#jobs.get(key) ?? this.#begin(key, asked, kind)
    job.waiters++
    let leave: () => void = () => undefined
    const left = new Promise<never>((_resolve, reject) => {
      leave = () => reject(new GatewayError('aborted'))
      signal?.addEventListener('abort', leave, { once: true })
    })
    try {
      return await Promise.race([job.promise, left])
    } finally {
      signal?.removeEventListener('abort', leave)
      if (--job.waiters === 0) job.controller.abort()
    }
  }

  #begin(key: string, asked: Asked, kind: ThumbnailKind): Job {
    if (this.#queue.size >= waitingAtMost) {
      throw new GatewayError('busy', { reason: 'too many thumbnails are being made', retryAfter: 5 })
    }
    const controller = new AbortController()
    const { signal } = controller
    const promise = this.#queue.add(() => this.#make(key, asked, kind, signal))
    const job = { promise, controller, waiters: 0 }
    this.#jobs.set(key, job)
    // Who comes after the last one left begins anew.
    const forget = () => this.#jobs.get(key) === job && this.#jobs.delete(key)
    signal.addEventListener('abort', forget, { once: true })
    promise.then(forget, forget)
    return job
  }

  async #make(key: string, asked: Asked, kind: ThumbnailKind, signal: AbortSignal): Promise<Buffer> {
    if (signal.aborted) throw new GatewayError('aborted')
    const file = await asked.open()
    let picture: Buffer
    try {
      picture =
        kind === 'video' ? await videoThumbnail(file.fd, this.#options.position, signal) : await imageThumbnail(file)
    } finally {
      await file.close()
    }
    if (!this.#closed) await this.#options.kept?.keep(key, picture)
    return picture
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const { controller } of this.#jobs.values()) controller.abort()
    await this.#options.kept?.close()
  }
}

/** Thumbnails as a mount's options ask for them; undefined where they do not. Rejects with `invalid` for options that make no sense. */
export async function openThumbnails(
  options: LocalOptions,
  root: string,
  { log, own }: Pick<DriverEnv, 'log' | 'own'>,
): Promise<Thumbnails | undefined> {
  const position = parsePosition(options.video_thumb_pos)
  if (!position) refuse('video_thumb_pos must be seconds, or a part up to 100%')
  if (!/^\d{1,4}$/.test(options.thumb_concurrency.trim())) refuse('thumb_concurrency must be a number, 0 or more')
  if (!options.thumbnail) return undefined
  const atOnce = Math.min(Number(options.thumb_concurrency) || atOnceAtMost, atOnceAtMost)
  const folder = await keptIn(options.thumb_cache_folder.trim(), root, own.data)
  const kinds: ThumbnailKind[] = []
  if (await canMakeImages()) kinds.push('image')
  else log.warn({}, 'no thumbnails of images: the package sharp is not installed, or does not work here')
  if (await canMakeVideos()) kinds.push('video')
  else log.warn({}, 'no thumbnails of videos: ffmpeg and ffprobe are not installed')
  const kept = folder === undefined ? undefined : new PictureFolder({ folder, log })
  return new Thumbnails({ kinds, atOnce, position, kept })
}

/** The folder, made where it is missing. In the tree it would be shown to everybody. `from`: where a relative one starts. */
async function keptIn(text: string, root: string, from: string): Promise<string | undefined> {
  if (text === '') return undefined
  const wanted = resolve(from, text)
  try {
    await mkdir(wanted, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new GatewayError('invalid', { reason: `thumb_cache_folder ${wanted} cannot be made`, cause: error })
  }
  const folder = await realpath(wanted)
  if (`${folder}/`.startsWith(`${root}/`)) refuse('thumb_cache_folder must lie outside of the root folder')
  return folder
}

function refuse(reason: string): never {
  throw new GatewayError('invalid', { reason })
}
