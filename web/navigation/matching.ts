/** Which names the typed words find, and in which order. */

/** What names are compared by: case and the forms of letters do not matter. */
function folded(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/**
 * The items that have all words, in their name or in the other texts of `textsOf`. Those whose name begins with the
 * words come first, then those whose name has them. Otherwise the order stays. No words find all.
 */
export function matching<Item>(
  items: readonly Item[],
  words: string,
  textsOf: (item: Item) => readonly [name: string, ...others: readonly string[]],
): readonly Item[] {
  const wanted = folded(words).split(/\s+/).filter(Boolean)
  if (wanted.length === 0) return items
  const phrase = wanted.join(' ')
  const ranked = items.flatMap((item) => {
    const [name, ...others] = textsOf(item).map(folded)
    const all = [name, ...others].join('\n')
    if (!wanted.every((word) => all.includes(word))) return []
    const isInName = wanted.every((word) => name?.includes(word))
    return [{ item, rank: name?.startsWith(phrase) === true ? 0 : isInName ? 1 : 2 }]
  })
  return ranked.sort((one, other) => one.rank - other.rank).map(({ item }) => item)
}
