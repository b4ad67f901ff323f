/** Lengths of the parts of an upload, as the programs of 115 and Aliyundrive choose them. */

import { GatewayError } from '../../../src/base/errors.js'

const mebibyte = 1024 ** 2
const gibibyte = 1024 ** 3
/** Bytes of the parts of files that are larger than so many bytes; the largest first. */
const lengths: readonly (readonly [above: number, length: number])[] = [
  [768 * gibibyte, 109_951_163],
  [512 * gibibyte, 82_463_373],
  [384 * gibibyte, 54_975_582],
  [256 * gibibyte, 41_231_687],
  [128 * gibibyte, 27_487_791],
]

/** Maximum bytes of a file with parts of the usual length: a larger one would have too many of them. */
const maxUsualSize = 1024 * gibibyte
const maxParts = 10_000
/** Maximum bytes of a part, which is held in memory. */
const maxLength = gibibyte

/**
 * Bytes of each part but the last of a file of this size, at most those of the file: a buffer of this length is made.
 * There are at most 10,000 parts. Throws `too_large`.
 */
export function partLengthOf(size: number): number {
  const usual = lengths.find(([above]) => size > above)?.[1] ?? 20 * mebibyte
  const length = size > maxUsualSize ? Math.ceil(size / maxParts) : usual
  if (length > maxLength) throw new GatewayError('too_large')
  return Math.max(1, Math.min(size, length))
}
