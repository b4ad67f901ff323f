/** Comparison of names and words, ignoring case and Unicode composition. */

/** Folds a name or a word of a search. A word matches a name if its folded form is a substring of the folded name. */
export function foldName(text: string): string {
  // Greek sigma has two lowercase forms, depending on its position in a word.
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ')
}

/** The distinct words of a search, folded. A word that is a substring of another one is omitted. */
export function searchWords(keywords: string): readonly string[] {
  const words = [...new Set(foldName(keywords).split(/\s+/))].filter((word) => word !== '')
  return words.filter((word) => !words.some((other) => other !== word && other.includes(word)))
}
