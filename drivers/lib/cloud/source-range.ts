/** Small ranges of a source, by which a client proves that it has the file whose hash it names. */
import { buffer } from 'node:stream/consumers'
import type { Source } from '../../../src/contract/call-options.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'

/** Maximum bytes of a range: it is read into memory. */
const maxLength = 16 * 1024 * 1024

/**
 * The bytes of a range of a source that can be read more than once; fewer at its end. Rejects with `unavailable` if the
 * source has changed meanwhile and has fewer bytes than its size says.
 */
export async function rangeOf(
  source: Pick<Source, 'size' | 'read'>,
  offset: number,
  length: number,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const expected = Math.max(0, Math.min(length, (source.size ?? Number.POSITIVE_INFINITY) - offset))
  if (expected > maxLength) throw new GatewayError('unsupported', { reason: 'the range of a proof is too long' })
  if (expected === 0) return Buffer.alloc(0)
  try {
    const bytes = await buffer(await source.read({ offset, length: expected }, { signal }))
    if (source.size === undefined || bytes.length === expected) return bytes
  } catch (error) {
    throw toGatewayError(error)
  }
  throw new GatewayError('unavailable', { detail: 'source_changed' })
}
