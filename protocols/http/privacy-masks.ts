/** What refusals do not tell: an admin says so by patterns. */
import type { Settings } from '../../src/settings.js'

/** The setting `privacy_regs`: what a line of it matches in a message is replaced by as many asterisks. */
export class PrivacyMasks {
  readonly #settings: Settings
  #text = ''
  #patterns: readonly RegExp[] = []

  constructor(settings: Settings) {
    this.#settings = settings
  }

  apply(message: string): string {
    const text = this.#settings.get('privacy_regs')
    if (text !== this.#text) {
      this.#text = text
      this.#patterns = text.split('\n').flatMap(patternOf)
    }
    return this.#patterns.reduce((masked, pattern) => masked.replace(pattern, (hit) => '*'.repeat(hit.length)), message)
  }
}

/** A line that is no regular expression masks nothing. */
function patternOf(line: string): RegExp[] {
  const source = line.trim().replace(/^\(\?i\)/, '')
  if (source === '') return []
  try {
    return [new RegExp(source, source === line.trim() ? 'g' : 'gi')]
  } catch {
    return []
  }
}
