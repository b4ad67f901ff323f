/**
 * Regular expressions that come from people: matched in linear time by RE2's rules wherever the pattern
 * allows it; patterns with look-around or back-references run in V8 under a time limit. No pattern can
 * stall the server.
 */
import { createContext, Script } from 'node:vm'
import { RE2JS } from 're2js'
import { GatewayError } from './errors.js'

export interface Pattern {
  /** Whether it matches anywhere in `text`. A match that takes longer than the limit counts as one. */
  test(text: string): boolean
}

/** Milliseconds that one match by V8 may take. */
const limit = 20

/** Rejects with `invalid`, naming the pattern, where it is no regular expression. */
export function compilePattern(pattern: string): Pattern {
  try {
    const linear = RE2JS.compile(pattern)
    return { test: (text) => linear.matcher(text).find() }
  } catch {
    return compileGuarded(pattern)
  }
}

function compileGuarded(pattern: string): Pattern {
  try {
    new RegExp(pattern)
  } catch (error) {
    const why = error instanceof Error ? error.message : 'not a regular expression'
    throw new GatewayError('invalid', { reason: `${pattern} is illegal: ${why}` })
  }
  const context = createContext({ pattern, text: '' })
  const match = new Script('new RegExp(pattern).test(text)')
  return {
    test(text) {
      context.text = text
      try {
        return match.runInContext(context, { timeout: limit }) === true
      } catch {
        // Hiding too much is the safe side of a pattern that never ends.
        return true
      }
    },
  }
}
