import { createHash, timingSafeEqual } from 'node:crypto'

/** Whether two texts are the same, in a time that tells nothing of where they differ, nor of the length of either. */
export function isSameText(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}
