/** A source of bytes that are in memory. */
import { Readable } from 'node:stream'
import type { Source } from './call-options.js'

/** Returns a source of these bytes, which must not be modified while it is used. */
export function byteSource(bytes: Buffer, facts: Pick<Source, 'modified' | 'hashes'> = {}): Source {
  return {
    size: bytes.length,
    modified: facts.modified,
    hashes: facts.hashes,
    rereadable: true,
    bytes,
    read: async ({ offset = 0, length = bytes.length } = { offset: 0 }) => {
      const part = bytes.subarray(offset, offset + length)
      return Readable.from(part.length === 0 ? [] : [part], { objectMode: false })
    },
  }
}
