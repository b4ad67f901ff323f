/** Sources: of bytes in memory, and of bytes that are compared with the digests that the client announced. */
import { createHash } from 'node:crypto'
import { pipeline, Readable, Transform } from 'node:stream'
import type { Source } from './call-options.js'
import { hashNames } from './entry.js'
import { GatewayError } from '../base/errors.js'

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

/**
 * Returns a source whose stream fails with `invalid` before its end if the content does not match `source.hashes`. A
 * file is published only after its stream has ended, so nothing is stored then.
 */
export function verifiedSource(source: Source): Source {
  const announced = hashNames.flatMap((name) => {
    const digest = source.hashes?.[name]
    return digest === undefined ? [] : [{ name, digest }]
  })
  if (announced.length === 0) return source
  return {
    ...source,
    rereadable: false,
    bytes: undefined,
    async read(range, options) {
      const bytes = await source.read(range, options)
      const hashes = announced.map(({ name, digest }) => ({ name, digest, hash: createHash(name) }))
      const verifier = new Transform({
        transform(chunk: Buffer, _encoding, callback) {
          for (const { hash } of hashes) hash.update(chunk)
          callback(null, chunk)
        },
        flush(callback) {
          const wrong = hashes.find(({ hash, digest }) => hash.digest('hex') !== digest)
          const reason = `the content does not have the announced ${wrong?.name ?? ''}`
          callback(wrong === undefined ? null : new GatewayError('invalid', { reason }))
        },
      })
      // An error of either stream destroys both. The reader receives it from the verifier.
      pipeline(bytes, verifier, () => undefined)
      return verifier
    },
  }
}
