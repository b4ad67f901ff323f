/**
 * Contents as rclone's crypt keeps them: a header of 8 known bytes and 24 of nonce, then blocks of 64 KiB, each sealed with the
 * nonce counted on by one. An empty file is its header alone.
 */
import { randomBytes } from 'node:crypto'
import { Transform, type TransformCallback } from 'node:stream'
import { GatewayError } from '../../src/errors.js'
import { tagSize, type SecretBox } from './sodium.js'

const magic = Buffer.from('RCLONE\0\0', 'latin1')
const nonceSize = 24
export const headerSize = magic.length + nonceSize
export const blockSize = 64 * 1024
export const sealedSize = blockSize + tagSize

/** Bytes of the encrypted file. */
export function encryptedSize(plain: number): number {
  const rest = plain % blockSize
  return headerSize + Math.floor(plain / blockSize) * sealedSize + (rest > 0 ? tagSize + rest : 0)
}

/** Bytes of the content of an encrypted file; undefined where no such file has this size. */
export function plainSize(encrypted: number): number | undefined {
  const body = encrypted - headerSize
  const rest = body % sealedSize
  if (body < 0 || (rest > 0 && rest <= tagSize)) return undefined
  return Math.floor(body / sealedSize) * blockSize + (rest > 0 ? rest - tagSize : 0)
}

/** The nonce of a file from its first bytes; undefined where they are no header. */
export function nonceIn(header: Buffer): Buffer | undefined {
  if (header.length < headerSize || !header.subarray(0, magic.length).equals(magic)) return undefined
  return Buffer.from(header.subarray(magic.length, headerSize))
}

/** Little endian, over all 24 bytes. */
export function nonceOf(first: Buffer, block: number): Buffer {
  const nonce = Buffer.from(first)
  for (let index = 0, carry = block; index < nonceSize && carry > 0; index++) {
    const sum = nonce.readUInt8(index) + (carry % 256)
    nonce[index] = sum & 0xff
    carry = Math.floor(carry / 256) + (sum >> 8)
  }
  return nonce
}

/** Bytes that come in any portions, as blocks of one size; the last one may be shorter. */
class Blocks {
  #held: Buffer[] = []
  #bytes = 0

  constructor(private readonly size: number) {}

  *add(chunk: Buffer): Generator<Buffer> {
    this.#held.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.size) return
    let rest = this.#held.length === 1 ? chunk : Buffer.concat(this.#held)
    for (; rest.length >= this.size; rest = rest.subarray(this.size)) yield rest.subarray(0, this.size)
    this.#held = [rest]
    this.#bytes = rest.length
  }

  /** What is left, which is less than a block. */
  last(): Buffer {
    return Buffer.concat(this.#held)
  }
}

/** Content in, encrypted file out. A content of another size than `announced` is `invalid`. */
export class Encryption extends Transform {
  readonly #blocks = new Blocks(blockSize)
  readonly #nonce: Buffer
  #block = 0
  #received = 0

  constructor(
    private readonly box: SecretBox,
    private readonly key: Buffer,
    private readonly announced: number | undefined,
    nonce: Buffer = randomBytes(nonceSize),
  ) {
    super({ readableHighWaterMark: 2 * sealedSize, writableHighWaterMark: 2 * blockSize })
    this.#nonce = nonce
    this.push(Buffer.concat([magic, nonce]))
  }

  override _transform(data: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#received += data.length
    if (this.announced !== undefined && this.#received > this.announced) {
      done(new GatewayError('invalid', { reason: `the body is longer than the announced ${this.announced} bytes` }))
      return
    }
    for (const block of this.#blocks.add(data)) this.#seal(block)
    done()
  }

  override _flush(done: TransformCallback): void {
    if (this.announced !== undefined && this.#received < this.announced) {
      const reason = `the body ended after ${this.#received} of ${this.announced} bytes`
      done(new GatewayError('invalid', { reason }))
      return
    }
    const last = this.#blocks.last()
    if (last.length > 0) this.#seal(last)
    done()
  }

  #seal(block: Buffer): void {
    this.push(this.box.seal(block, nonceOf(this.#nonce, this.#block++), this.key))
  }
}

export interface DecryptionPlan {
  readonly box: SecretBox
  readonly key: Buffer
  /** Where the stream starts with the header, absent. */
  readonly nonce?: Buffer | undefined
  /** Number of the block with which the stream starts, after its header. */
  readonly block: number
  /** Bytes of the first block that are left out. */
  readonly skip: number
  /** Bytes that come out at most. */
  readonly length: number
}

/** Blocks of an encrypted file in, content out. */
export class Decryption extends Transform {
  /** When the first block proved to be right, or there is none: the header's nonce. */
  readonly started: Promise<Buffer>
  readonly #blocks = new Blocks(sealedSize)
  #begin!: (nonce: Buffer) => void
  #fail!: (error: Error) => void
  #head: Buffer = Buffer.alloc(0)
  #nonce: Buffer | undefined
  #block: number
  #skip: number
  #left: number

  constructor(private readonly plan: DecryptionPlan) {
    super({ readableHighWaterMark: 2 * blockSize, writableHighWaterMark: 2 * sealedSize })
    this.#nonce = plan.nonce
    this.#block = plan.block
    this.#skip = plan.skip
    this.#left = plan.length
    this.started = new Promise((resolve, reject) => {
      this.#begin = resolve
      this.#fail = reject
    })
    // Who waits for it is told; nobody else has to be.
    this.started.catch(() => undefined)
  }

  override _transform(data: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let chunk = data
    if (!this.#nonce) {
      this.#head = Buffer.concat([this.#head, chunk])
      if (this.#head.length < headerSize) {
        done()
        return
      }
      this.#nonce = nonceIn(this.#head)
      if (!this.#nonce) {
        done(new NotEncryptedError())
        return
      }
      chunk = this.#head.subarray(headerSize)
    }
    for (const block of this.#blocks.add(chunk)) {
      const error = this.#open(this.#nonce, block)
      if (error) {
        done(error)
        return
      }
    }
    done()
  }

  override _flush(done: TransformCallback): void {
    if (!this.#nonce) {
      done(new NotEncryptedError())
      return
    }
    const last = this.#blocks.last()
    const error = last.length > 0 ? this.#open(this.#nonce, last) : undefined
    if (!error) this.#begin(this.#nonce)
    done(error)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#fail(error ?? new GatewayError('aborted'))
    done(error)
  }

  #open(nonce: Buffer, sealed: Buffer): GatewayError | undefined {
    const { box, key } = this.plan
    const plain = sealed.length > tagSize ? box.open(sealed, nonceOf(nonce, this.#block++), key) : undefined
    if (!plain) return new WrongKeyError()
    this.#begin(nonce)
    const part = plain.subarray(this.#skip, this.#skip + this.#left)
    this.#skip = 0
    this.#left -= part.length
    if (part.length > 0) this.push(part)
    return undefined
  }
}

/** A block that is not what was sealed with this key and nonce. */
export class WrongKeyError extends GatewayError {
  constructor() {
    super('unavailable', {
      reason: 'the content cannot be decrypted: it is damaged, or the password or the salt is wrong',
    })
  }
}

/** A file that does not start like an encrypted one. */
export class NotEncryptedError extends GatewayError {
  constructor() {
    super('unavailable', { reason: 'the stored file is no encrypted one, or it is damaged' })
  }
}
