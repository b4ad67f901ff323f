/** Masks parts of error messages that match patterns of the admin. */
import type { Log } from '../../../src/base/log.js'
import { hasDetail } from '../../../src/base/errors.js'
import type { Pattern } from '../../../src/base/patterns.js'
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'
import { privacyPatterns } from '../../../src/settings/settings-table.js'

const key = 'privacy_regs'

/** Applies the setting `privacy_regs`: each match of one of its lines is replaced by as many asterisks. */
export class PrivacyMasks {
  readonly #settings: ProtocolSettings
  readonly #log: Log
  #text = ''
  #patterns: readonly Pick<Pattern, 'masked'>[] = []

  constructor(settings: ProtocolSettings, log: Log) {
    this.#settings = settings
    this.#log = log
  }

  /** The message with all matches masked. */
  apply(message: string): string {
    const text = this.#settings.get(key)
    if (text !== this.#text) {
      this.#text = text
      this.#patterns = this.#storedPatterns(text)
    }
    return this.#patterns.reduce((masked, pattern) => pattern.masked(masked), message)
  }

  /** Compiles the stored setting. If its patterns are too expensive, masks whole messages. */
  #storedPatterns(text: string): readonly Pick<Pattern, 'masked'>[] {
    try {
      return privacyPatterns(text)
    } catch (error) {
      if (!hasDetail(error, 'costly_pattern')) throw error
      this.#log.error({ setting: key, reason: error.reason }, 'invalid privacy patterns, masking all error messages')
      return [{ masked: (message) => '*'.repeat(message.length) }]
    }
  }
}
