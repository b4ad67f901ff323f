/** Small pictures of images, made by one process for all mounts that runs while there is work. */
import { fork, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import PQueue from 'p-queue'
import { GatewayError, toGatewayError } from '../../../src/errors.js'
import type { ImageAnswer, ImageOrder } from './image-process.js'

/** A file that is open to be read. */
export interface OpenedFile {
  readonly fd: number
  readonly size: number
  /** Bytes read, fewer than asked only at the end. */
  read(into: Buffer, position: number): Promise<number>
  close(): Promise<void>
}

/** Bytes of a file that is looked at. */
const bytesLimit = 64 * 1024 * 1024
const pieceSize = 256 * 1024
/** Images in that process, of all mounts: it decodes no more of them side by side. */
const atOnce = 4

/** Milliseconds. */
const startLimit = 20_000
/** Longer than the decoder gives each of those that it has at once. */
const orderLimit = 45_000
const idleTime = 10_000

const program = fileURLToPath(new URL('./image-process.js', import.meta.url))

interface Pending {
  resolve(picture: Buffer): void
  reject(error: GatewayError): void
  readonly timer: NodeJS.Timeout
}

class ImageProcess {
  readonly #child: ChildProcess
  readonly #pending = new Map<number, Pending>()
  #last = 0
  #idle: NodeJS.Timeout | undefined
  /** Rejects with `unavailable` where it cannot do its work here. */
  readonly ready: Promise<void>

  constructor(private readonly ended: () => void) {
    // Nothing of what the daemon was told in secret is its business.
    this.#child = fork(program, [], { serialization: 'advanced', stdio: 'ignore', execArgv: [], env: {} })
    this.ready = new Promise((resolve, reject) => {
      const fail = () => reject(new GatewayError('unavailable', { reason: 'images cannot be decoded here' }))
      const timer = setTimeout(() => {
        this.#child.kill('SIGKILL')
        fail()
      }, startLimit)
      this.#child.on('message', (message) => {
        const answer = message as ImageAnswer
        if (!('ready' in answer)) this.#answered(answer)
        else if (answer.ready) resolve()
        else fail()
        clearTimeout(timer)
      })
      this.#child.once('error', fail)
      this.#child.once('exit', () => {
        clearTimeout(timer)
        fail()
        ended()
        for (const id of this.#pending.keys()) {
          const reason = 'no thumbnail can be made of this image: it broke the decoder'
          this.#settle(id)?.reject(new GatewayError('invalid', { reason }))
        }
      })
    })
    // The daemon does not stay for it. When it ends, so does this.
    this.#child.unref()
    this.#child.channel?.unref()
    this.ready.then(
      () => this.#rest(),
      () => undefined,
    )
  }

  async make(file: OpenedFile): Promise<Buffer> {
    await this.ready
    const id = ++this.#last
    clearTimeout(this.#idle)
    const made = new Promise<Buffer>((resolve, reject) => {
      // The decoders stop by themselves before this; where they do not, nothing else helps.
      const timer = setTimeout(() => {
        this.#settle(id)?.reject(new GatewayError('timeout', { reason: 'a thumbnail of this image takes too long' }))
        this.#child.kill('SIGKILL')
      }, orderLimit)
      this.#pending.set(id, { resolve, reject, timer })
    })
    this.#bring(id, file).catch((error: unknown) => {
      this.#settle(id)?.reject(toGatewayError(error))
      void this.#send({ id, dropped: true })
    })
    return made
  }

  /** However large the file, little of it is held here. */
  async #bring(id: number, file: OpenedFile): Promise<void> {
    const buffer = Buffer.allocUnsafeSlow(Math.min(file.size, pieceSize))
    for (let position = 0; position < file.size && this.#pending.has(id);) {
      const bytes = await file.read(buffer, position)
      if (bytes === 0) break
      await this.#send({ id, piece: buffer.subarray(0, bytes) })
      position += bytes
    }
    await this.#send({ id })
  }

  /** Resolves where the process takes no more orders, too: then it has ended, or is about to, and its end answers them all. */
  #send(order: ImageOrder): Promise<void> {
    return new Promise((resolve) => {
      this.#child.send(order, () => {
        resolve()
      })
    })
  }

  #answered(answer: Exclude<ImageAnswer, { ready: boolean }>): void {
    const order = this.#settle(answer.id)
    if ('picture' in answer) {
      order?.resolve(Buffer.from(answer.picture))
      return
    }
    const slow = /timeout/i.test(answer.fault)
    const reason = slow ? 'a thumbnail of this image takes too long' : 'no thumbnail can be made of this image'
    order?.reject(new GatewayError(slow ? 'timeout' : 'invalid', { reason, cause: new Error(answer.fault) }))
  }

  #settle(id: number): Pending | undefined {
    const order = this.#pending.get(id)
    this.#pending.delete(id)
    clearTimeout(order?.timer)
    this.#rest()
    return order
  }

  /** Ends it when it has had nothing to do for a while. */
  #rest(): void {
    clearTimeout(this.#idle)
    if (this.#pending.size > 0) return
    this.#idle = setTimeout(() => {
      // Nobody is to bring it anything any more.
      this.ended()
      this.#child.kill()
    }, idleTime).unref()
  }
}

let running: ImageProcess | undefined
let known: Promise<boolean> | undefined

function imageProcess(): ImageProcess {
  if (running) return running
  const started: ImageProcess = new ImageProcess(() => {
    if (running === started) running = undefined
  })
  running = started
  return started
}

/** Whether the library for images is installed and works. Asked once for all mounts. */
export function canMakeImages(): Promise<boolean> {
  known ??= imageProcess().ready.then(
    () => true,
    () => false,
  )
  return known
}

const turns = new PQueue({ concurrency: atOnce })

/**
 * PNG. `unsupported` for what is not decoded here, `invalid` for what is broken or too large, `timeout` for what takes too
 * long. The file is in use until it settles.
 */
export async function imageThumbnail(file: OpenedFile): Promise<Buffer> {
  const head = Buffer.alloc(Math.min(file.size, headSize))
  await file.read(head, 0)
  if (!isDecodable(head)) throw new GatewayError('unsupported', { reason: 'no thumbnails are made of such images' })
  if (file.size > bytesLimit) throw new GatewayError('invalid', { reason: 'this image is too large for a thumbnail' })
  return turns.add(() => imageProcess().make(file))
}

const headSize = 64

/**
 * Whether these first bytes are those of a picture that is decoded here. Others (vector graphics, icons) are shown by browsers as
 * they are, and their decoders are no match for hostile files.
 */
function isDecodable(head: Buffer): boolean {
  const text = head.toString('latin1')
  if (text.startsWith('RIFF')) return text.startsWith('WEBP', 8)
  if (text.startsWith('ftyp', 4)) return /avi[fs]/.test(text.slice(8))
  const digits = head.toString('hex')
  return beginnings.some((beginning) => digits.startsWith(beginning))
}

/** JPEG, PNG, both GIFs, and TIFF in either order of bytes, plain or large. */
const beginnings = [
  'ffd8ff',
  '89504e470d0a1a0a',
  '474946383761',
  '474946383961',
  '49492a00',
  '49492b00',
  '4d4d002a',
  '4d4d002b',
]
