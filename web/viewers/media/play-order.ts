/** In which order the files of a list are played. */

/** What follows the last file, or each. */
export type Repeat = 'none' | 'all' | 'one'

export const repeats: readonly Repeat[] = ['none', 'all', 'one']

/** The indexes of a list of this length in a random order that begins with `first`. */
export function shuffled(length: number, first: number): readonly number[] {
  const order = Array.from({ length }, (_, index) => index).filter((index) => index !== first)
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1))
    const [one = 0, two = 0] = [order[at], order[other]]
    order[at] = two
    order[other] = one
  }
  return first < 0 ? order : [first, ...order]
}

/** The indexes before and after the one at `at`; undefined: there is none. `order`: absent: that of the list. */
export function around(at: number, length: number, order: readonly number[] | undefined, repeat: Repeat) {
  const place = order ? order.indexOf(at) : at
  if (place < 0) return {}
  const indexAt = (index: number) => {
    const wrapped = repeat === 'none' ? index : (index + length) % length
    return order ? order[wrapped] : wrapped >= 0 && wrapped < length ? wrapped : undefined
  }
  return { previous: indexAt(place - 1), next: indexAt(place + 1) }
}
