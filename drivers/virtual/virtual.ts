/**
 * The Virtual driver: derives every entry and its content from the path, so that both are the same in every listing and
 * after a restart. It stores nothing and is read-only.
 */
import { createCipheriv, createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { ByteRange, CallOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import { inPages, type Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { segmentsOf, type Path } from '../../src/base/path.js'
import type { VirtualOptions } from './index.js'

const chunkSize = 256 * 1024
const cipherBlock = 16

/** Maximum depth of folders, so that a walk of the tree ends. */
const maxDepth = 2

/** Maximum number of files, and of folders, in one folder. */
const maxEntries = 10_000

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const nameLength = 10

/** The earliest modification time, and the range of modification times in milliseconds. */
const firstTime = Date.UTC(2020, 0, 1)
const timeSpan = 4 * 365 * 24 * 60 * 60 * 1000

export class VirtualDriver implements Driver {
  /** Throws `invalid` if a number is out of range. */
  constructor(private readonly options: VirtualOptions) {
    for (const name of ['num_file', 'num_folder'] as const) checkNumber(name, options[name], maxEntries)
    for (const name of ['min_file_size', 'max_file_size'] as const) {
      checkNumber(name, options[name], Number.MAX_SAFE_INTEGER)
    }
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    throwIfAborted(signal)
    return this.#existing(path)
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(signal)
    if (this.#existing(path).kind !== 'folder') throw new GatewayError('not_folder')
    const entries = [...this.#members(segmentsOf(path)).values()]
    for (const page of inPages(entries)) {
      throwIfAborted(signal)
      yield page
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    throwIfAborted(signal)
    const { kind, size } = this.#existing(path)
    if (kind === 'folder') throw new GatewayError('is_folder')
    const end = Math.min(size, range.offset + (range.length ?? size))
    return contentOf(this.#seed('content', segmentsOf(path)), range.offset, end, signal)
  }

  #existing(path: Path): Entry {
    let entry = folder('', new Date(firstTime))
    const parents: string[] = []
    for (const name of segmentsOf(path)) {
      const found = entry.kind === 'folder' ? this.#members(parents).get(name) : undefined
      if (!found) throw new GatewayError('not_found')
      entry = found
      parents.push(name)
    }
    return entry
  }

  #members(parents: readonly string[]): ReadonlyMap<string, Entry> {
    const members = new Map<string, Entry>()
    const folders = parents.length < maxDepth ? this.options.num_folder : 0
    for (let index = 0; index < folders; index++) {
      const seed = this.#seed(`folder ${index}`, parents)
      members.set(nameFrom(seed), folder(nameFrom(seed), timeFrom(seed)))
    }
    const { min_file_size: minSize, max_file_size: maxSize } = this.options
    for (let index = 0; index < this.options.num_file; index++) {
      const seed = this.#seed(`file ${index}`, parents)
      const size = minSize + Math.floor(fractionFrom(seed, 16) * Math.max(0, maxSize - minSize))
      const name = nameFrom(seed)
      members.set(name, { name, kind: 'file', size, modified: timeFrom(seed), revision: seed.toString('hex', 24) })
    }
    return members
  }

  /** A seed of 32 bytes, which differs for each purpose and path. */
  #seed(purpose: string, segments: readonly string[]): Buffer {
    return createHash('sha256')
      .update([this.options.root_folder_path, purpose, ...segments].join('\0'))
      .digest()
  }
}

/** The content: the key stream of AES-256 in counter mode, which can start at any position. */
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

/** A fraction from six bytes: at least 0 and less than 1. */
function fractionFrom(seed: Buffer, at: number): number {
  return seed.readUIntBE(at, 6) / 2 ** 48
}

function checkNumber(name: string, value: number, max: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= max) return
  throw new GatewayError('invalid', { reason: `${name} must be a whole number from 0 to ${max}` })
}
