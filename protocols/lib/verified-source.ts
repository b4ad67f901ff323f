/** Content that must have the digests which its sender announced. */
import { createHash } from 'node:crypto'
import { pipeline, Transform } from 'node:stream'
import type { HashName, Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'

/**
 * The same source; its stream fails with `invalid` before its end where the content has other digests than `source.hashes`
 * says. As nothing takes its name before the stream has ended, nothing is stored then.
 */
export function verifiedSource(source: Source): Source {
  const announced = Object.entries(source.hashes ?? {}) as [HashName, string][]
  if (announced.length === 0) return source
  return {
    ...source,
    rereadable: false,
    async read(range, options) {
      const bytes = await source.read(range, options)
      const hashes = announced.map(([name, digest]) => ({ name, digest, hash: createHash(name) }))
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
      // A failure of either ends both; the reader hears of it from the verifier.
      pipeline(bytes, verifier, () => undefined)
      return verifier
    },
  }
}
