/** The SFTP wire format: splits the stream into packets, reads their fields and builds responses. Avoids copies. */
import { WireReader } from '../../src/accounts/ssh-wire.js'
import { limits, packetType } from './wire.js'

/** A packet cannot be decoded: the response is BAD_MESSAGE, which no error code of the core has. */
export class MalformedPacket extends Error {
  override readonly name = 'MalformedPacket'
}

/** The stream cannot be split into packets any more: the channel must be closed, and there is no response. */
export class MalformedStream extends Error {
  override readonly name = 'MalformedStream'
}

export interface Packet {
  readonly type: number
  /** All fields after the type. For a WRITE, without the data. */
  readonly fields: Buffer
  /** Data of a WRITE, in the chunks in which it arrived. */
  readonly data: readonly Buffer[]
}

/** Chunks with fewer bytes than this are copied together: a client may send a packet in chunks of one byte. */
const smallChunk = 4096
const blockSize = 16 * 1024

/** Splits a stream into packets. Buffers at most one packet and one chunk if all complete packets are read. */
export class PacketParser {
  readonly #chunks: Buffer[] = []
  /** Holds copies of small chunks, up to `#blockEnd`. */
  #block = Buffer.alloc(0)
  #blockEnd = 0
  /** Number of bytes of the first chunk that are consumed. */
  #consumed = 0
  #buffered = 0

  /** Number of bytes that were pushed and are not part of a packet that `next` has returned. */
  get buffered(): number {
    return this.#buffered
  }

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.#buffered += chunk.length
    if (chunk.length < smallChunk) this.#pushCopy(chunk)
    else this.#chunks.push(chunk)
  }

  /** Copies the chunk behind the last one, if that is a copy too and there is room. */
  #pushCopy(chunk: Buffer): void {
    if (this.#blockEnd + chunk.length > this.#block.length) {
      this.#block = Buffer.allocUnsafeSlow(blockSize)
      this.#blockEnd = 0
    }
    const last = this.#chunks.at(-1)
    const follows = last?.buffer === this.#block.buffer && last.byteOffset + last.length === this.#blockEnd
    const start = follows ? last.byteOffset : this.#blockEnd
    this.#blockEnd += chunk.copy(this.#block, this.#blockEnd)
    if (follows) this.#chunks.pop()
    this.#chunks.push(this.#block.subarray(start, this.#blockEnd))
  }

  /** The next complete packet, or undefined. Throws if the length is invalid: the stream cannot be decoded then. */
  next(): Packet | undefined {
    if (this.#buffered < 4) return undefined
    const length = this.#peekUint32(0)
    if (length === 0 || length > limits.packet) {
      throw new MalformedStream(`invalid packet length ${length}, the maximum is ${limits.packet}`)
    }
    if (this.#buffered < 4 + length) return undefined
    const type = this.#take(5).readUInt8(4)
    return type === packetType.write ? this.#takeWrite(length - 1) : { type, fields: this.#take(length - 1), data: [] }
  }

  /** Takes id, handle, offset and data length as one buffer, and the data as the chunks in which it arrived. */
  #takeWrite(length: number): Packet {
    const type = packetType.write
    const headerLength = length < 8 ? length : this.#peekUint32(4) + 20
    if (length < 8 || headerLength > length) return { type, fields: this.#take(length), data: [] }
    const fields = this.#take(headerLength)
    const remaining = length - headerLength
    const dataLength = Math.min(remaining, fields.readUInt32BE(headerLength - 4))
    const data = this.#takeChunks(dataLength)
    // Bytes after the data are discarded, as by OpenSSH (sftp-server.c, process).
    this.#takeChunks(remaining - dataLength)
    return { type, fields, data }
  }

  /** The 32-bit number at `offset` from the next byte. Its four bytes must be buffered. */
  #peekUint32(offset: number): number {
    let value = 0
    let index = 0
    let at = this.#consumed + offset
    for (let count = 0; count < 4; count++, at++) {
      for (let chunk = this.#chunks[index]; chunk && at >= chunk.length; chunk = this.#chunks[++index])
        at -= chunk.length
      value = value * 256 + (this.#chunks[index]?.[at] ?? 0)
    }
    return value
  }

  #take(length: number): Buffer {
    const chunks = this.#takeChunks(length)
    const [first] = chunks
    return chunks.length === 1 && first ? first : Buffer.concat(chunks, length)
  }

  #takeChunks(length: number): Buffer[] {
    const chunks: Buffer[] = []
    for (let missing = length; missing > 0;) {
      const [first] = this.#chunks
      if (!first) break
      const end = Math.min(first.length, this.#consumed + missing)
      chunks.push(first.subarray(this.#consumed, end))
      missing -= end - this.#consumed
      this.#consumed = end
      if (end === first.length) {
        this.#chunks.shift()
        this.#consumed = 0
      }
    }
    this.#buffered -= length
    return chunks
  }
}

/**
 * Reads the fields of a packet in order. Throws MalformedPacket if the packet ends too early, and for text that is not
 * UTF-8.
 */
export class FieldReader extends WireReader {
  /** Exact up to 2^53; larger values return Infinity. */
  uint64(): number {
    const at = this.advance(8)
    const high = this.bytes.readUInt32BE(at)
    return high > 0x1fffff ? Number.POSITIVE_INFINITY : high * 0x1_0000_0000 + this.bytes.readUInt32BE(at + 4)
  }

  protected override endsEarly(): Error {
    return new MalformedPacket('the packet ends too early')
  }

  /** Names must be UTF-8: another one could not be requested again. */
  protected override notUtf8(): Error {
    return new MalformedPacket('names must be UTF-8')
  }
}

/** Builds one packet. The buffer grows as needed; `finish` sets the length field. */
export class PacketBuilder {
  #bytes = Buffer.allocUnsafe(256)
  #length = 4

  constructor(type: number, id?: number) {
    this.uint8(type)
    if (id !== undefined) this.uint32(id)
  }

  /** Length in bytes so far, including the length field. */
  get length(): number {
    return this.#length
  }

  uint8(value: number): this {
    const at = this.#grow(1)
    this.#bytes.writeUInt8(value, at)
    return this
  }

  uint32(value: number): this {
    const at = this.#grow(4)
    this.#bytes.writeUInt32BE(value, at)
    return this
  }

  uint64(value: number): this {
    const at = this.#grow(8)
    this.#bytes.writeBigUInt64BE(BigInt(value), at)
    return this
  }

  string(value: string | Buffer): this {
    const length = typeof value === 'string' ? Buffer.byteLength(value) : value.length
    this.uint32(length)
    const at = this.#grow(length)
    if (typeof value === 'string') this.#bytes.write(value, at)
    else value.copy(this.#bytes, at)
    return this
  }

  /** Overwrites the field at offset `at`. */
  replaceUint32(value: number, at: number): this {
    this.#bytes.writeUInt32BE(value, at)
    return this
  }

  finish(): Buffer {
    this.#bytes.writeUInt32BE(this.#length - 4, 0)
    return this.#bytes.subarray(0, this.#length)
  }

  #grow(by: number): number {
    const at = this.#length
    this.#length += by
    if (this.#length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#length, this.#bytes.length * 2))
      this.#bytes.copy(larger, 0, 0, at)
      this.#bytes = larger
    }
    return at
  }
}

/** Maximum length of the message of a STATUS, in characters. A path in it can be longer than the request. */
const maxMessageLength = 1024

/** Builds a STATUS. The middle of a longer message is left out: its end says what failed. */
export function statusPacket(id: number, code: number, message: string): Buffer {
  return new PacketBuilder(packetType.status, id).uint32(code).string(shortened(message)).string('en').finish()
}

function shortened(message: string): string {
  if (message.length <= maxMessageLength) return message
  const half = Math.floor((maxMessageLength - 1) / 2)
  return `${message.slice(0, half)}…${message.slice(-half)}`.toWellFormed()
}

/** Length of a DATA packet's header, in bytes. */
export const dataHeaderLength = 13

/** Writes the header of a DATA packet into `packet`, which already holds `length` bytes of data after it. */
export function finishDataPacket(packet: Buffer, id: number, length: number): Buffer {
  packet.writeUInt32BE(9 + length, 0)
  packet.writeUInt8(packetType.data, 4)
  packet.writeUInt32BE(id, 5)
  packet.writeUInt32BE(length, 9)
  return packet.subarray(0, dataHeaderLength + length)
}
