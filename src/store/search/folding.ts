/** How names and words are compared: without regard to case, and to how a letter with its marks is composed. */

/** Names and the words of a search are folded alike; a word stands in a name where its folded form stands in that of the name. */
export function foldName(text: string): string {
  // The Greek sigma has two small forms, by its place in a word.
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ')
}

/** The words of a search: folded, each once, and none that stands within another. Only a name can hold them: no `/`, no NUL. */
export function searchWords(keywords: string): readonly string[] {
  const words = [...new Set(foldName(keywords).split(/\s+/))].filter((word) => word !== '')
  return words.filter((word) => !words.some((other) => other !== word && other.includes(word)))
}
