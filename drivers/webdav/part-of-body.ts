/** Extracts a byte range from a response that contains more than that range. */
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import type { ByteRange } from '../../src/contract/call-options.js'

export class BodyRange {
  readonly stream: Readable

  /** Destroys `body` when the range is complete or `stream` is destroyed. */
  constructor(body: Readable, { offset, length = Infinity }: ByteRange) {
    const part = new Part(offset, length)
    part.once('end', () => body.destroy())
    pipeline(body, part, () => undefined)
    this.stream = part
  }
}

class Part extends Transform {
  constructor(
    private toSkip: number,
    private toSend: number,
  ) {
    super({ highWaterMark: 256 * 1024 })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const slice = chunk.subarray(this.toSkip).subarray(0, Math.min(chunk.length, this.toSend))
    this.toSkip = Math.max(0, this.toSkip - chunk.length)
    this.toSend -= slice.length
    if (slice.length > 0) this.push(slice)
    if (this.toSend <= 0) this.push(null)
    done()
  }
}
