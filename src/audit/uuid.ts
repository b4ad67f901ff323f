/** Identifiers of events. */
import { randomUUID } from 'node:crypto'

/**
 * Returns a function that makes UUIDs of version 7 (RFC 9562 §5.7) for times in milliseconds since 1970. Those of one
 * function sort in the order in which they are made: the twelve bits after the time count those of one millisecond
 * (§6.2, method 1), and a clock that goes back does not matter.
 */
export function orderedIds(): (time: number) => string {
  let last = 0
  let count = 0
  return (time) => {
    if (time > last) {
      last = time
      count = 0
    } else if (++count > 0xfff) {
      last++
      count = 0
    }
    const digits = last.toString(16).padStart(12, '0')
    const counted = count.toString(16).padStart(3, '0')
    // The variant and 62 random bits are at the same places in every version.
    return `${digits.slice(0, 8)}-${digits.slice(8)}-7${counted}${randomUUID().slice(18)}`
  }
}
