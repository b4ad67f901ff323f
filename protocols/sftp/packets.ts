/** Packets of SFTP as bytes: cutting the stream into packets, reading fields, building answers. Nothing is copied that need not be. */
import { isUtf8 } from 'node:buffer'
import { limits, packetType } from './protocol.js'

/** The bytes are no packet of this protocol: the request is answered with BAD_MESSAGE. */
export class MalformedPacket extends Error {
  override readonly name = 'MalformedPacket'
}

/** The stream itself cannot be cut any more: the channel has to end. */
export class BrokenStream extends Error {
  override readonly name = 'BrokenStream'
}

export interface Packet {
  readonly type: number
  /** All fields after the type; of a WRITE without its data. */
  readonly fields: Buffer
  /** Data of a WRITE, in the pieces it arrived in. */
  readonly data: readonly Buffer[]
}

/** Cuts a stream into packets as its bytes arrive. Holds at most one packet and one chunk. */
export class PacketParser {
  readonly #chunks: Buffer[] = []
  /** Bytes of the first chunk that were taken. */
  #taken = 0
  #buffered = 0

  push(chunk: Buffer): void {
    if (chunk.length === 0) return
    this.#chunks.push(chunk)
    this.#buffered += chunk.length
  }

  /** Whether bytes of an unfinished packet are left. */
  get unfinished(): boolean {
    return this.#buffered > 0
  }

  /** The next whole packet. Throws BrokenStream on a length that no packet has. */
  next(): Packet | undefined {
    if (this.#buffered < 4) return undefined
    const length = this.#peekUint32(0)
    if (length === 0 || length > limits.packet) {
      throw new BrokenStream(`a packet of ${length} bytes was announced, ${limits.packet} is the limit`)
    }
    if (this.#buffered < 4 + length) return undefined
    const type = this.#take(5).readUInt8(4)
    return type === packetType.write ? this.#takeWrite(length - 1) : { type, fields: this.#take(length - 1), data: [] }
  }

  /** id, handle, offset and the length of the data are taken together, the data as it lies. */
  #takeWrite(length: number): Packet {
    const type = packetType.write
    const before = length < 8 ? length : this.#peekUint32(4) + 20
    if (length < 8 || before > length) return { type, fields: this.#take(length), data: [] }
    const fields = this.#take(before)
    const left = length - before
    const announced = Math.min(left, fields.readUInt32BE(before - 4))
    const data = this.#takePieces(announced)
    // Some clients send their whole buffer whatever they announce; what lies beyond it is nobody's data.
    this.#takePieces(left - announced)
    return { type, fields, data }
  }

  /** Of four bytes that have arrived, `offset` from the next one. */
  #peekUint32(offset: number): number {
    let value = 0
    let index = 0
    let at = this.#taken + offset
    for (let count = 0; count < 4; count++, at++) {
      for (let chunk = this.#chunks[index]; chunk && at >= chunk.length; chunk = this.#chunks[++index])
        at -= chunk.length
      value = value * 256 + (this.#chunks[index]?.[at] ?? 0)
    }
    return value
  }

  #take(length: number): Buffer {
    const pieces = this.#takePieces(length)
    const [first] = pieces
    return pieces.length === 1 && first ? first : Buffer.concat(pieces, length)
  }

  #takePieces(length: number): Buffer[] {
    const pieces: Buffer[] = []
    for (let missing = length; missing > 0;) {
      const [first] = this.#chunks
      if (!first) break
      const end = Math.min(first.length, this.#taken + missing)
      pieces.push(first.subarray(this.#taken, end))
      missing -= end - this.#taken
      this.#taken = end
      if (end === first.length) {
        this.#chunks.shift()
        this.#taken = 0
      }
    }
    this.#buffered -= length
    return pieces
  }
}

/** Reads the fields of a packet one after the other. Every method throws MalformedPacket where bytes are missing. */
export class FieldReader {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  get left(): number {
    return this.bytes.length - this.#at
  }

  uint32(): number {
    return this.bytes.readUInt32BE(this.#advance(4))
  }

  /** Exact up to 2^53; larger ones come out as Infinity, since no file reaches there. */
  uint64(): number {
    const at = this.#advance(8)
    const high = this.bytes.readUInt32BE(at)
    return high > 0x1fffff ? Number.POSITIVE_INFINITY : high * 0x1_0000_0000 + this.bytes.readUInt32BE(at + 4)
  }

  string(): Buffer {
    const length = this.uint32()
    const at = this.#advance(length)
    return this.bytes.subarray(at, at + length)
  }

  /** A string that must be UTF-8: what is not could never be asked for again. */
  text(): string {
    const bytes = this.string()
    if (!isUtf8(bytes)) throw new MalformedPacket('names must be UTF-8')
    return bytes.toString('utf8')
  }

  #advance(length: number): number {
    const at = this.#at
    if (length > this.left) throw new MalformedPacket('the packet ends too early')
    this.#at += length
    return at
  }
}

/** Builds one packet. It grows as needed; `finish` fills in the length. */
export class PacketBuilder {
  #bytes = Buffer.allocUnsafe(256)
  #length = 4

  constructor(type: number, id?: number) {
    this.uint8(type)
    if (id !== undefined) this.uint32(id)
  }

  /** Bytes so far, the length field included. */
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

  /** Puts a value into a field that was written before. */
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

export function statusPacket(id: number, code: number, message: string): Buffer {
  return new PacketBuilder(packetType.status, id).uint32(code).string(message).string('en').finish()
}

/** Bytes of a DATA packet before the data itself. */
export const dataHeaderLength = 13

/** Writes the header of a DATA packet over the first bytes of `packet`, whose data is there already. */
export function finishDataPacket(packet: Buffer, id: number, length: number): Buffer {
  packet.writeUInt32BE(9 + length, 0)
  packet.writeUInt8(packetType.data, 4)
  packet.writeUInt32BE(id, 5)
  packet.writeUInt32BE(length, 9)
  return packet.subarray(0, dataHeaderLength + length)
}
