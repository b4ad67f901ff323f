/** Creates thumbnails of images in child processes, which all mounts share and which run while there is work. */
import type { ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { ImageResponse, ImageRequest } from './image-process.js'
import { spawnLimited } from './limited-process.js'

/** An open file. */
export interface OpenedFile {
  readonly fd: number
  readonly size: number
  /** Resolves to the number of bytes read; fewer than requested only at the end of the file. */
  read(into: Buffer, position: number): Promise<number>
  /** Identifies the file and its content as they are now; see `revisionOf`. */
  revision(): Promise<string>
  close(): Promise<void>
}

/** Maximum size of an image file in bytes. */
const maxFileSize = 64 * 1024 * 1024
/** Maximum size in bytes of a file that browsers show as it is. */
const maxShownSize = 1024 * 1024
const chunkSize = 256 * 1024

/** Milliseconds until a process must be ready. */
const startTimeout = 60_000
/** Milliseconds to send and decode one image. The decoder has a shorter timeout, which it may not keep. */
const requestTimeout = 20_000
/** Milliseconds after which a process without work is ended. */
const idleTimeout = 10_000
/** Seconds of processor time of one process. */
const processorTime = 3600

const program = fileURLToPath(new URL('./image-process.js', import.meta.url))

interface Pending {
  resolve(picture: Buffer): void
  reject(error: GatewayError): void
}

/** The processes without work. */
const idle = new Set<ImageProcess>()
/** Why the library does not work on this system, once that is known. */
let libraryFault: string | undefined

class ImageProcess {
  readonly #child: ChildProcess
  readonly #ready: Promise<void>
  #pending: Pending | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #hasEnded = false

  constructor() {
    this.#child = spawnLimited(process.execPath, [program], {
      processorTime,
      env: { UV_THREADPOOL_SIZE: '1' },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
    })
    this.#ready = new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#end(), startTimeout)
      this.#child.on('message', (message) => {
        clearTimeout(timer)
        const response = message as ImageResponse
        if (!('ready' in response)) this.#respond(response)
        else if (response.ready) resolve()
        else libraryFault = response.fault
      })
      const onEnd = (cause?: Error) => {
        clearTimeout(timer)
        this.#hasEnded = true
        idle.delete(this)
        reject(notUsable(cause))
        this.#settle(invalidImage(': it broke the decoder'))
      }
      this.#child.once('error', onEnd)
      this.#child.once('exit', () => onEnd())
    })
    this.#ready.catch(() => undefined)
    // The daemon can exit while the process is idle. The process exits with the daemon.
    this.#child.unref()
    this.#child.channel?.unref()
  }

  /** One call at a time. The file must stay open until the promise settles. */
  async make(file: OpenedFile, size: number): Promise<Buffer> {
    clearTimeout(this.#idleTimer)
    await this.#ready
    const timer = setTimeout(() => {
      this.#settle(tooSlow())
      this.#end()
    }, requestTimeout)
    const made = new Promise<Buffer>((resolve, reject) => (this.#pending = { resolve, reject }))
    const sent = this.#sendFile(file, size).catch((error: unknown) => this.#settle(toGatewayError(error)))
    try {
      return await made
    } finally {
      await sent
      clearTimeout(timer)
      this.#rest()
    }
  }

  /** Sends the file in chunks, so that only one of them is in memory here. */
  async #sendFile(file: OpenedFile, size: number): Promise<void> {
    await this.#send({ length: file.size })
    const buffer = Buffer.allocUnsafeSlow(Math.min(file.size, chunkSize))
    for (let position = 0; position < file.size && this.#pending;) {
      const bytes = await file.read(buffer.subarray(0, file.size - position), position)
      if (bytes === 0) break
      await this.#send({ chunk: buffer.subarray(0, bytes) })
      position += bytes
    }
    await this.#send({ size })
  }

  /** Resolves also if the message cannot be sent: the process has ended or is about to, which settles the request. */
  #send(request: ImageRequest): Promise<void> {
    return new Promise((resolve) => {
      this.#child.send(request, () => {
        resolve()
      })
    })
  }

  #respond(response: Exclude<ImageResponse, { ready: boolean }>): void {
    if ('picture' in response) {
      this.#settle(Buffer.from(response.picture))
      return
    }
    const cause = new Error(response.fault)
    this.#settle(/timeout/i.test(response.fault) ? tooSlow(cause) : invalidImage('', cause))
  }

  #settle(result: Buffer | GatewayError): void {
    const pending = this.#pending
    this.#pending = undefined
    if (result instanceof GatewayError) pending?.reject(result)
    else pending?.resolve(result)
  }

  /** Leaves the process to the next image, or ends it if there is none for a while. */
  #rest(): void {
    if (this.#hasEnded) return
    idle.add(this)
    this.#idleTimer = setTimeout(() => this.#end(), idleTimeout).unref()
  }

  #end(): void {
    this.#hasEnded = true
    idle.delete(this)
    this.#child.kill('SIGKILL')
  }
}

function invalidImage(detail: string, cause?: Error): GatewayError {
  return new GatewayError('invalid', { reason: `no thumbnail can be made of this image${detail}`, cause })
}

function tooSlow(cause?: Error): GatewayError {
  return new GatewayError('timeout', { reason: 'a thumbnail of this image takes too long', cause })
}

function notUsable(failure?: Error): GatewayError {
  const cause = libraryFault === undefined ? failure : new Error(libraryFault)
  return new GatewayError('unavailable', { reason: 'images cannot be decoded here', cause })
}

/** Whether the image library is installed. */
export function hasImageLibrary(): boolean {
  try {
    createRequire(import.meta.url).resolve('sharp')
    return true
  } catch {
    return false
  }
}

/**
 * Creates a WebP that fits into a square of `size` pixels. Rejects with `unsupported` for small files of formats that
 * are not decoded, with `invalid` for other ones and for broken or too large images, with `timeout`, and with
 * `unavailable` if images cannot be decoded on this system. The file must stay open until the promise settles.
 */
export async function imageThumbnail(file: OpenedFile, size: number): Promise<Buffer> {
  const head = Buffer.alloc(Math.min(file.size, headSize))
  await file.read(head, 0)
  if (!isDecodable(head)) {
    const code = file.size <= maxShownSize ? 'unsupported' : 'invalid'
    throw new GatewayError(code, { reason: 'no thumbnails are made of such images' })
  }
  if (file.size > maxFileSize) throw new GatewayError('invalid', { reason: 'this image is too large for a thumbnail' })
  if (libraryFault !== undefined) throw notUsable()
  const [waiting = new ImageProcess()] = idle
  idle.delete(waiting)
  return waiting.make(file, size)
}

const headSize = 64

/**
 * Whether a file that starts with these bytes has a format that is decoded. Other formats, such as vector graphics and
 * icons, are displayed by browsers directly, and their decoders are not safe with malicious files. Whether HEIC is
 * decoded depends on how the library was built.
 */
function isDecodable(head: Buffer): boolean {
  const text = head.toString('latin1')
  if (text.startsWith('RIFF')) return text.startsWith('WEBP', 8)
  if (text.startsWith('ftyp', 4)) return /avi[fs]|hei[cx]|mif1/.test(text.slice(8))
  const digits = head.toString('hex')
  return signatures.some((signature) => digits.startsWith(signature))
}

/** JPEG, PNG, GIF87a, GIF89a, and TIFF and BigTIFF in both byte orders. */
const signatures = [
  'ffd8ff',
  '89504e470d0a1a0a',
  '474946383761',
  '474946383961',
  '49492a00',
  '49492b00',
  '4d4d002a',
  '4d4d002b',
]
