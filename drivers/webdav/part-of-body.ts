/** A part of a file from a server that sends more of it than was asked for. */
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import type { ByteRange } from '../../src/driver.js'

export class PartOfBody {
  readonly stream: Readable

  /** Ends `body` as soon as the part is over, or nobody wants it any more. */
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
    const wanted = chunk.subarray(this.toSkip).subarray(0, Math.min(chunk.length, this.toSend))
    this.toSkip = Math.max(0, this.toSkip - chunk.length)
    this.toSend -= wanted.length
    if (wanted.length > 0) this.push(wanted)
    if (this.toSend <= 0) this.push(null)
    done()
  }
}
