/**
 * The file format of rclone's crypt: a header of 8 magic bytes and a nonce of 24 bytes, then blocks of 64 KiB. Each
 * block is sealed with the nonce plus its index. An empty file consists of the header only.
 */
import { randomBytes } from 'node:crypto'
import { Transform, type TransformCallback } from 'node:stream'
import { GatewayError } from '../../src/base/errors.js'
import { tagSize, type SecretBox } from './sodium.js'

const magic = Buffer.from('RCLONE\0\0', 'latin1')
const nonceSize = 24
export const headerSize = magic.length + nonceSize
export const blockSize = 64 * 1024
export const sealedBlockSize = blockSize + tagSize

/** Size of the encrypted file, in bytes. */
export function encryptedSize(plain: number): number {
  const rest = plain % blockSize
  return headerSize + Math.floor(plain / blockSize) * sealedBlockSize + (rest > 0 ? tagSize + rest : 0)
}

/** Size of the content of an encrypted file, in bytes; undefined if no encrypted file has this size. */
export function plainSize(encrypted: number): number | undefined {
  const body = encrypted - headerSize
  const rest = body % sealedBlockSize
  if (body < 0 || (rest > 0 && rest <= tagSize)) return undefined
  return Math.floor(body / sealedBlockSize) * blockSize + (rest > 0 ? rest - tagSize : 0)
}

/** The nonce in the header of a file; undefined if `header` is too short or has other magic bytes. */
export function nonceFromHeader(header: Buffer): Buffer | undefined {
  if (header.length < headerSize || !header.subarray(0, magic.length).equals(magic)) return undefined
  return Buffer.from(header.subarray(magic.length, headerSize))
}

/** The nonce of a block: `first` plus `block`, as a 24-byte little-endian integer. */
function blockNonce(first: Buffer, block: number): Buffer {
  const nonce = Buffer.from(first)
  for (let index = 0, carry = block; index < nonceSize && carry > 0; index++) {
    const sum = nonce.readUInt8(index) + (carry % 256)
    nonce[index] = sum & 0xff
    carry = Math.floor(carry / 256) + (sum >> 8)
  }
  return nonce
}

/** Splits a stream of chunks into blocks of `size` bytes. */
class Blocks {
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(private readonly size: number) {}

  *add(chunk: Buffer): Generator<Buffer> {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.size) return
    let rest = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
    for (; rest.length >= this.size; rest = rest.subarray(this.size)) yield rest.subarray(0, this.size)
    this.#chunks = [rest]
    this.#bytes = rest.length
  }

  /** The rest, which is shorter than a block. */
  last(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}

/** Encrypts a file. Fails with `invalid` if the content does not have the `announced` size. */
export class ContentEncryption extends Transform {
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
    super({ readableHighWaterMark: 2 * sealedBlockSize, writableHighWaterMark: 2 * blockSize })
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
    this.push(this.box.seal(block, blockNonce(this.#nonce, this.#block++), this.key))
  }
}

interface DecryptionPlan {
  readonly box: SecretBox
  readonly key: Buffer
  /** Nonce of the file; undefined if the stream starts with the header. */
  readonly nonce?: Buffer | undefined
  /** Index of the first block of the stream. */
  readonly block: number
  /** Bytes to skip in the first block. */
  readonly skip: number
  /** Maximum number of decrypted bytes to return. */
  readonly length: number
}

/** Decrypts blocks of an encrypted file. */
export class ContentDecryption extends Transform {
  /** Resolves to the nonce once the first block was decrypted, or once the stream has ended without one. */
  readonly started: Promise<Buffer>
  readonly #blocks = new Blocks(sealedBlockSize)
  #resolveStarted!: (nonce: Buffer) => void
  #rejectStarted!: (error: Error) => void
  #head: Buffer = Buffer.alloc(0)
  #nonce: Buffer | undefined
  #block: number
  #skip: number
  #remaining: number

  constructor(private readonly plan: DecryptionPlan) {
    super({ readableHighWaterMark: 2 * blockSize, writableHighWaterMark: 2 * sealedBlockSize })
    this.#nonce = plan.nonce
    this.#block = plan.block
    this.#skip = plan.skip
    this.#remaining = plan.length
    this.started = new Promise((resolve, reject) => {
      this.#resolveStarted = resolve
      this.#rejectStarted = reject
    })
    // A caller need not await it.
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
      this.#nonce = nonceFromHeader(this.#head)
      if (!this.#nonce) {
        done(notEncrypted())
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
      done(notEncrypted())
      return
    }
    const last = this.#blocks.last()
    const error = last.length > 0 ? this.#open(this.#nonce, last) : undefined
    if (!error) this.#resolveStarted(this.#nonce)
    done(error)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#rejectStarted(error ?? new GatewayError('aborted'))
    done(error)
  }

  #open(nonce: Buffer, sealed: Buffer): GatewayError | undefined {
    const { box, key } = this.plan
    const plain = sealed.length > tagSize ? box.open(sealed, blockNonce(nonce, this.#block++), key) : undefined
    if (!plain) return new GatewayError('unavailable', { detail: 'wrong_key' })
    this.#resolveStarted(nonce)
    const part = plain.subarray(this.#skip, this.#skip + this.#remaining)
    this.#skip = 0
    this.#remaining -= part.length
    if (part.length > 0) this.push(part)
    return undefined
  }
}

/** The error for a file that has no valid header. */
export function notEncrypted(): GatewayError {
  return new GatewayError('unavailable', { reason: 'the stored file is not encrypted, or it is damaged' })
}
