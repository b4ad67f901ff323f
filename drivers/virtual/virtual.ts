/**
 * Everything is derived from its path: a file that is listed can be fetched, again and in ranges, and is the same after a
 * restart. Nothing is kept, and nothing can be written.
 */
import { createCipheriv, createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { assertGoing } from '../../src/aborting.js'
import type { ByteRange, CallOptions, Driver, Entry } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { segmentsOf, type Path } from '../../src/path.js'
import type { VirtualOptions } from './index.js'

const pageSize = 1000
const chunkSize = 256 * 1024
const cipherBlock = 16

/** Folders lie in folders so often, so that a walk of the whole tree comes to an end. */
const deepest = 2

/** Files, or folders, that one folder may have. */
const mostEntries = 10_000

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const nameLength = 10

/** The time of the oldest, and milliseconds up to that of the newest. */
const firstTime = Date.UTC(2020, 0, 1)
const timeSpan = 4 * 365 * 24 * 60 * 60 * 1000

export class VirtualDriver implements Driver {
  /** Rejects with `invalid` where a number makes no sense. */
  constructor(private readonly options: VirtualOptions) {
    for (const name of ['num_file', 'num_folder'] as const) checkNumber(name, options[name], mostEntries)
    for (const name of ['min_file_size', 'max_file_size'] as const) {
      checkNumber(name, options[name], Number.MAX_SAFE_INTEGER)
    }
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    assertGoing(signal)
    return this.#existing(path)
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    assertGoing(signal)
    if (this.#existing(path).kind !== 'folder') throw new GatewayError('not_dir')
    const entries = [...this.#members(segmentsOf(path)).values()]
    for (let at = 0; at < entries.length; at += pageSize) {
      assertGoing(signal)
      yield entries.slice(at, at + pageSize)
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    assertGoing(signal)
    const { kind, size } = this.#existing(path)
    if (kind === 'folder') throw new GatewayError('is_dir')
    const end = Math.min(size, range.offset + (range.length ?? size))
    return contentOf(this.#seed('content', segmentsOf(path)), range.offset, end, signal)
  }

  #existing(path: Path): Entry {
    let entry = folder('', new Date(firstTime))
    const above: string[] = []
    for (const name of segmentsOf(path)) {
      const found = entry.kind === 'folder' ? this.#members(above).get(name) : undefined
      if (!found) throw new GatewayError('not_found')
      entry = found
      above.push(name)
    }
    return entry
  }

  #members(above: readonly string[]): ReadonlyMap<string, Entry> {
    const members = new Map<string, Entry>()
    const folders = above.length < deepest ? this.options.num_folder : 0
    for (let index = 0; index < folders; index++) {
      const seed = this.#seed(`folder ${index}`, above)
      members.set(nameFrom(seed), folder(nameFrom(seed), timeFrom(seed)))
    }
    const { min_file_size: least, max_file_size: most } = this.options
    for (let index = 0; index < this.options.num_file; index++) {
      const seed = this.#seed(`file ${index}`, above)
      const size = least + Math.floor(fractionFrom(seed, 16) * Math.max(0, most - least))
      const name = nameFrom(seed)
      members.set(name, { name, kind: 'file', size, modified: timeFrom(seed), revision: seed.toString('hex', 24) })
    }
    return members
  }

  /** 32 bytes, for each purpose and path others. */
  #seed(purpose: string, segments: readonly string[]): Buffer {
    return createHash('sha256')
      .update([this.options.root_folder_path, purpose, ...segments].join('\0'))
      .digest()
  }
}

/** The key stream of AES-256 in counter mode, which can be begun anywhere. */
function contentOf(key: Buffer, from: number, end: number, signal: AbortSignal | undefined): Readable {
  const counter = Buffer.alloc(cipherBlock)
  counter.writeBigUInt64BE(BigInt(Math.floor(from / cipherBlock)), 8)
  const cipher = createCipheriv('aes-256-ctr', key, counter)
  cipher.update(Buffer.alloc(from % cipherBlock))
  const zeros = Buffer.alloc(chunkSize)
  let position = from
  return new Readable({
    signal,
    highWaterMark: chunkSize,
    read() {
      const bytes = Math.min(chunkSize, end - position)
      position += Math.max(0, bytes)
      this.push(bytes > 0 ? cipher.update(zeros.subarray(0, bytes)) : null)
    },
  })
}

function folder(name: string, modified: Date): Entry {
  return { name, kind: 'folder', size: 0, modified }
}

function nameFrom(seed: Buffer): string {
  return [...seed.subarray(0, nameLength)].map((byte) => letters.charAt(byte % letters.length)).join('')
}

function timeFrom(seed: Buffer): Date {
  return new Date(firstTime + Math.floor(fractionFrom(seed, 10) * timeSpan))
}

/** At least 0 and less than 1, of six bytes. */
function fractionFrom(seed: Buffer, at: number): number {
  return seed.readUIntBE(at, 6) / 2 ** 48
}

function checkNumber(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= most) return
  throw new GatewayError('invalid', { reason: `${name} must be a whole number from 0 to ${most}` })
}
