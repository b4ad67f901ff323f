/** Creates thumbnails of images in a child process, which all mounts share and which runs while there is work. */
import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import PQueue from 'p-queue'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import type { ImageResponse, ImageRequest } from './image-process.js'

/** An open file. */
export interface OpenedFile {
  readonly fd: number
  readonly size: number
  /** Resolves to the number of bytes read; fewer than requested only at the end of the file. */
  read(into: Buffer, position: number): Promise<number>
  close(): Promise<void>
}

/** Maximum size of an image file in bytes. */
const maxFileSize = 64 * 1024 * 1024
const chunkSize = 256 * 1024
/** Maximum number of images that are decoded concurrently, for all mounts. */
const maxConcurrent = 4

/** Milliseconds until the process must be ready. */
const startTimeout = 20_000
/**
 * Milliseconds for one image. More than the decoder may take for all concurrent ones, since large ones are decoded one
 * at a time.
 */
const requestTimeout = 45_000
const idleTimeout = 10_000

const program = fileURLToPath(new URL('./image-process.js', import.meta.url))

interface Pending {
  resolve(picture: Buffer): void
  reject(error: GatewayError): void
  readonly timer: NodeJS.Timeout
}

class ImageProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  #lastId = 0
  #idleTimer: NodeJS.Timeout | undefined
  /** Rejects with `unavailable` if the process cannot decode images on this system. */
  readonly ready: Promise<void>

  constructor(private readonly onEnded: () => void) {
    // The environment of the daemon may contain secrets.
    this.#child = fork(program, [], { serialization: 'advanced', stdio: 'ignore', execArgv: [], env: {} })
    this.ready = new Promise((resolve, reject) => {
      const fail = () => reject(new GatewayError('unavailable', { reason: 'images cannot be decoded here' }))
      const timer = setTimeout(() => {
        this.#child.kill('SIGKILL')
        fail()
      }, startTimeout)
      this.#child.on('message', (message) => {
        const answer = message as ImageResponse
        if (!('ready' in answer)) this.#handleResponse(answer)
        else if (answer.ready) resolve()
        else fail()
        clearTimeout(timer)
      })
      this.#child.once('error', fail)
      this.#child.once('exit', () => {
        clearTimeout(timer)
        fail()
        onEnded()
        for (const id of this.#pending.keys()) {
          const reason = 'no thumbnail can be made of this image: it broke the decoder'
          this.#takePending(id)?.reject(new GatewayError('invalid', { reason }))
        }
      })
    })
    // The daemon can exit while the process is idle. The process exits with the daemon.
    this.#child.unref()
    this.#child.channel?.unref()
    this.ready.then(
      () => this.#startIdleTimer(),
      () => undefined,
    )
  }

  async make(file: OpenedFile): Promise<Buffer> {
    await this.ready
    const id = ++this.#lastId
    clearTimeout(this.#idleTimer)
    const made = new Promise<Buffer>((resolve, reject) => {
      // The decoders have a shorter timeout. A process that exceeds this one is killed.
      const timer = setTimeout(() => {
        this.#takePending(id)?.reject(
          new GatewayError('timeout', { reason: 'a thumbnail of this image takes too long' }),
        )
        this.#child.kill('SIGKILL')
      }, requestTimeout)
      this.#pending.set(id, { resolve, reject, timer })
    })
    this.#sendFile(id, file).catch((error: unknown) => {
      this.#takePending(id)?.reject(toGatewayError(error))
      void this.#send({ id, canceled: true })
    })
    return made
  }

  /** Sends the file in chunks, so that only one of them is in memory here. */
  async #sendFile(id: number, file: OpenedFile): Promise<void> {
    const buffer = Buffer.allocUnsafeSlow(Math.min(file.size, chunkSize))
    for (let position = 0; position < file.size && this.#pending.has(id);) {
      const bytes = await file.read(buffer, position)
      if (bytes === 0) break
      await this.#send({ id, chunk: buffer.subarray(0, bytes) })
      position += bytes
    }
    await this.#send({ id })
  }

  /**
   * Resolves also if the message cannot be sent: the process has ended or is about to, and its exit rejects all pending
   * requests.
   */
  #send(request: ImageRequest): Promise<void> {
    return new Promise((resolve) => {
      this.#child.send(request, () => {
        resolve()
      })
    })
  }

  #handleResponse(answer: Exclude<ImageResponse, { ready: boolean }>): void {
    const request = this.#takePending(answer.id)
    if ('picture' in answer) {
      request?.resolve(Buffer.from(answer.picture))
      return
    }
    const timedOut = /timeout/i.test(answer.fault)
    const reason = timedOut ? 'a thumbnail of this image takes too long' : 'no thumbnail can be made of this image'
    request?.reject(new GatewayError(timedOut ? 'timeout' : 'invalid', { reason, cause: new Error(answer.fault) }))
  }

  #takePending(id: number): Pending | undefined {
    const request = this.#pending.get(id)
    this.#pending.delete(id)
    clearTimeout(request?.timer)
    this.#startIdleTimer()
    return request
  }

  /** Terminates the process when it has been idle for a while. */
  #startIdleTimer(): void {
    clearTimeout(this.#idleTimer)
    if (this.#pending.size > 0) return
    this.#idleTimer = setTimeout(() => {
      // No further request may use this process.
      this.onEnded()
      this.#child.kill()
    }, idleTimeout).unref()
  }
}

let running: ImageProcess | undefined
let isUsable: Promise<boolean> | undefined

function imageProcess(): ImageProcess {
  if (running) return running
  const started: ImageProcess = new ImageProcess(() => {
    if (running === started) running = undefined
  })
  running = started
  return started
}

/** Whether the image library is installed and usable. Checked once for all mounts. */
export function canMakeImages(): Promise<boolean> {
  isUsable ??= imageProcess().ready.then(
    () => true,
    () => false,
  )
  return isUsable
}

const queue = new PQueue({ concurrency: maxConcurrent })

/**
 * Creates a PNG thumbnail. Rejects with `unsupported` for formats that are not decoded, with `invalid` for broken or
 * too large images, and with `timeout`. The file must stay open until the promise settles.
 */
export async function imageThumbnail(file: OpenedFile): Promise<Buffer> {
  const head = Buffer.alloc(Math.min(file.size, headSize))
  await file.read(head, 0)
  if (!isDecodable(head)) throw new GatewayError('unsupported', { reason: 'no thumbnails are made of such images' })
  if (file.size > maxFileSize) throw new GatewayError('invalid', { reason: 'this image is too large for a thumbnail' })
  return queue.add(() => imageProcess().make(file))
}

const headSize = 64

/**
 * Whether a file that starts with these bytes has a format that is decoded. Other formats, such as vector graphics and
 * icons, are displayed by browsers directly, and their decoders are not safe with malicious files.
 */
function isDecodable(head: Buffer): boolean {
  const text = head.toString('latin1')
  if (text.startsWith('RIFF')) return text.startsWith('WEBP', 8)
  if (text.startsWith('ftyp', 4)) return /avi[fs]/.test(text.slice(8))
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
