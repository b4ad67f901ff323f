/** An SFTP client that sends single packets, independently of the server's codec. */
import type { Duplex } from 'node:stream'
import type { ClientChannel } from 'ssh2'

/** The identification of connections that send the packets of `PacketClient`: an unknown client, and not ssh2. */
export const packetClient = 'PacketClient_1'

export interface Answer {
  readonly type: number
  readonly id: number
  /** The fields after the id. */
  readonly body: Buffer
}

export const types = { init: 1, open: 3, close: 4, read: 5, write: 6, lstat: 7, fstat: 8, setstat: 9, fsetstat: 10 }
export const names = { opendir: 11, readdir: 12, remove: 13, mkdir: 14, rmdir: 15, realpath: 16, stat: 17, rename: 18 }
export const symlinkTypes = { readlink: 19, symlink: 20, extended: 200 }
export const flags = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 }
export const status = { ok: 0, eof: 1, noSuchFile: 2, denied: 3, failure: 4, badMessage: 5, unsupported: 8 }

export const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
export const uint64 = (value: number | bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(value))
  return bytes
}
export const string = (value: string | Buffer): Buffer =>
  Buffer.concat([uint32(Buffer.byteLength(value)), Buffer.from(value as string)])
export const noAttributes = uint32(0)
/** Attributes with permission bits only. */
export const permissions = (bits: number): Buffer => Buffer.concat([uint32(4), uint32(bits)])

export class PacketClient<Channel extends Duplex = ClientChannel> {
  #received = Buffer.alloc(0)
  #next = 1
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #version: ((body: Buffer) => void) | undefined
  readonly closed: Promise<void>

  constructor(readonly channel: Channel) {
    channel.on('data', (chunk: Buffer) => this.#take(chunk))
    this.closed = new Promise((resolve) => channel.once('close', () => resolve()))
  }

  #take(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk])
    while (this.#received.length >= 4) {
      const length = this.#received.readUInt32BE(0)
      if (this.#received.length < 4 + length) return
      const packet = this.#received.subarray(4, 4 + length)
      this.#received = this.#received.subarray(4 + length)
      const type = packet.readUInt8(0)
      if (type === 2) this.#version?.(packet.subarray(1))
      else this.#settle({ type, id: packet.readUInt32BE(1), body: packet.subarray(5) })
    }
  }

  #settle(answer: Answer): void {
    this.#waiting.get(answer.id)?.(answer)
    this.#waiting.delete(answer.id)
  }

  /** Sends INIT. Resolves to the content of VERSION. */
  start(version = 3): Promise<Buffer> {
    return new Promise((resolve) => {
      this.#version = resolve
      this.channel.write(Buffer.concat([uint32(5), Buffer.from([types.init]), uint32(version)]))
    })
  }

  /** Sends a request. Many may be sent before the first response. */
  ask(type: number, ...fields: readonly Buffer[]): Promise<Answer> {
    const id = this.#next++
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      const body = Buffer.concat([Buffer.from([type]), uint32(id), ...fields])
      this.channel.write(Buffer.concat([uint32(body.length), body]))
    })
  }

  /** Sends a request. Resolves to the status code of the response. */
  async status(type: number, ...fields: readonly Buffer[]): Promise<number> {
    const answer = await this.ask(type, ...fields)
    if (answer.type !== 101) throw new Error(`answered with packet ${answer.type}, not with STATUS`)
    return answer.body.readUInt32BE(0)
  }

  extended(name: string, ...fields: readonly Buffer[]): Promise<Answer> {
    return this.ask(symlinkTypes.extended, string(name), ...fields)
  }

  /** The handle, or the status code of an error. */
  async open(path: string, opened: number, attributes = noAttributes): Promise<Buffer | number> {
    return handleOf(await this.ask(types.open, string(path), uint32(opened), attributes))
  }

  async openFolder(path: string): Promise<Buffer | number> {
    return handleOf(await this.ask(names.opendir, string(path)))
  }

  /** The handle. Rejects on an error. */
  async mustOpen(path: string, opened: number, attributes = noAttributes): Promise<Buffer> {
    const handle = await this.open(path, opened, attributes)
    if (typeof handle === 'number') throw new Error(`OPEN of ${path} was refused with status ${handle}`)
    return handle
  }

  write(handle: Buffer, offset: number | bigint, data: string | Buffer): Promise<number> {
    return this.status(types.write, string(handle), uint64(offset), string(data))
  }

  /** The bytes, or the status code of an error. */
  async read(handle: Buffer, offset: number | bigint, length: number): Promise<Buffer | number> {
    const { type, body } = await this.ask(types.read, string(handle), uint64(offset), uint32(length))
    return type === 103 ? body.subarray(4) : body.readUInt32BE(0)
  }

  close(handle: Buffer): Promise<number> {
    return this.status(types.close, string(handle))
  }

  /** Opens, writes and closes. Resolves to the status of CLOSE. */
  async put(path: string, content: string | Buffer): Promise<number> {
    const handle = await this.mustOpen(path, flags.write | flags.create | flags.truncate)
    const bytes = Buffer.from(content as string)
    for (let at = 0; at < bytes.length; at += 200_000) await this.write(handle, at, bytes.subarray(at, at + 200_000))
    return this.close(handle)
  }

  /** The content as text, or the status code of OPEN or READ. */
  async get(path: string): Promise<string | number> {
    const handle = await this.open(path, flags.read)
    if (typeof handle === 'number') return handle
    const bytes = await this.read(handle, 0, 100_000)
    await this.close(handle)
    if (bytes === status.eof) return ''
    return typeof bytes === 'number' ? bytes : bytes.toString()
  }

  /** Size, mode and seconds of the modification time, or the status code. */
  async stat(path: string, type = names.stat): Promise<{ size: number; mode: number; modified: number } | number> {
    return attributesOf(await this.ask(type, string(path)))
  }

  async fstat(handle: Buffer): Promise<{ size: number; mode: number; modified: number } | number> {
    return attributesOf(await this.ask(types.fstat, string(handle)))
  }

  /** All names of a folder with their long names, by as many READDIRs as necessary. */
  async list(path: string): Promise<Map<string, string>> {
    const handle = await this.openFolder(path)
    if (typeof handle === 'number') throw new Error(`OPENDIR of ${path} was refused with status ${handle}`)
    const all = new Map<string, string>()
    for (;;) {
      const { type, body } = await this.ask(names.readdir, string(handle))
      if (type !== 104) break
      let at = 4
      const text = () => {
        const length = body.readUInt32BE(at)
        at += 4 + length
        return body.subarray(at - length, at).toString()
      }
      for (let left = body.readUInt32BE(0); left > 0; left--) {
        const name = text()
        all.set(name, text())
        at += 32
      }
    }
    await this.close(handle)
    return all
  }
}

function handleOf({ type, body }: Answer): Buffer | number {
  return type === 102 ? Buffer.from(body.subarray(4)) : body.readUInt32BE(0)
}

function attributesOf({ type, body }: Answer): { size: number; mode: number; modified: number } | number {
  if (type !== 105) return body.readUInt32BE(0)
  return { size: Number(body.readBigUInt64BE(4)), mode: body.readUInt32BE(20), modified: body.readUInt32BE(28) }
}
