/** Comparison of secret texts. */
import { createHash, timingSafeEqual } from 'node:crypto'

/**
 * Compares the digests of two texts, so that the time reveals neither where they differ nor whether their lengths are
 * equal.
 */
export function timingSafeEqualText(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}
