/** The digest of a source that can be read more than once, for backends that need it before the bytes. */
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { Source } from '../../../src/contract/call-options.js'
import type { HashName } from '../../../src/contract/entry.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { withBody } from './parts.js'

/**
 * The digest in lower-case hexadecimal: as the source reports it, otherwise by reading all of it. Rejects with
 * `unavailable` if it does not have its size.
 */
export async function digestOf(source: Source, name: HashName, signal: AbortSignal | undefined): Promise<string> {
  const known = source.hashes?.[name]
  if (known !== undefined) return known
  const hash = createHash(name)
  let size = 0
  try {
    const body: Readable = await source.read(undefined, { signal })
    await withBody(body, signal, async () => {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        hash.update(chunk)
        size += chunk.length
      }
    })
  } catch (error) {
    throw toGatewayError(error)
  }
  if (source.size !== undefined && size !== source.size) {
    throw new GatewayError('unavailable', { detail: 'source_changed' })
  }
  return hash.digest('hex')
}
