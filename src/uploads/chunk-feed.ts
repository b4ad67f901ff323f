/** One stream of bytes that come from several requests, one after the other. */
import { Readable } from 'node:stream'
import type { DetachableReadable } from '../contract/capabilities.js'
import { GatewayError } from '../base/errors.js'

/** Bytes that wait in the stream until its reader takes them. */
const bufferSize = 64 * 1024

export class ChunkFeed {
  readonly stream: DetachableReadable
  #wake: (() => void) | undefined

  constructor() {
    const wake = () => {
      const resume = this.#wake
      this.#wake = undefined
      resume?.()
    }
    const readable = new Readable({ highWaterMark: bufferSize, read: wake })
    // The stream may fail when its reader has gone.
    readable.on('error', () => undefined)
    this.stream = Object.assign(readable, { givesChunks: true } as const)
  }

  /** Whether the sender waits because the reader accepts nothing. */
  get isBlocked(): boolean {
    return this.#wake !== undefined
  }

  /**
   * Passes bytes on, whose memory belongs to the reader from now on. If it returns false, more follow after `resume`.
   */
  push(bytes: Buffer, resume: () => void): boolean {
    if (this.stream.push(bytes)) return true
    this.#wake = resume
    return false
  }

  end(last: Buffer): void {
    this.stream.push(last)
    this.stream.push(null)
  }

  /** Ends the stream where it is: the bytes are not complete. Does nothing after `end` was read. */
  cut(): void {
    this.#wake = undefined
    this.stream.destroy(new GatewayError('aborted', { reason: 'the upload has ended' }))
  }
}
