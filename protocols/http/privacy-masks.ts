/** What refusals do not tell: an admin says so by patterns. */
import type { Log } from '../../src/log.js'
import { compilePatterns, CostlyPatternError, patternLines, type Pattern } from '../../src/patterns.js'
import type { Settings } from '../../src/settings.js'

const key = 'privacy_regs'

/** The setting `privacy_regs`: what a line of it matches in a message is replaced by as many asterisks. */
export class PrivacyMasks {
  readonly #settings: Settings
  readonly #log: Log
  #text = ''
  #patterns: readonly Pick<Pattern, 'masked'>[] = []

  /** From now on the setting refuses patterns that cost too much. */
  constructor(settings: Settings, log: Log) {
    this.#settings = settings
    this.#log = log
    settings.guard(key, async (text) => void patternsOf(text))
  }

  apply(message: string): string {
    const text = this.#settings.get(key)
    if (text !== this.#text) {
      this.#text = text
      this.#patterns = this.#storedPatterns(text)
    }
    return this.#patterns.reduce((masked, pattern) => pattern.masked(masked), message)
  }

  /** Where the stored text costs too much, everything is masked rather than nothing. */
  #storedPatterns(text: string): readonly Pick<Pattern, 'masked'>[] {
    try {
      return patternsOf(text)
    } catch (error) {
      if (!(error instanceof CostlyPatternError)) throw error
      this.#log.error(
        { setting: key, reason: error.reason },
        'refusals say nothing: the patterns of a setting are refused',
      )
      return [{ masked: (message) => '*'.repeat(message.length) }]
    }
  }
}

/** A line that is no regular expression masks nothing. Rejects with CostlyPatternError. */
function patternsOf(text: string): readonly Pattern[] {
  return compilePatterns(
    patternLines(text).map((line) => line.trim()),
    'ignored',
  )
}
