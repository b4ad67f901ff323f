/**
 * Regular expressions that come from people: matched in linear time by RE2's rules wherever the pattern
 * allows it. Patterns with look-around or back-references run in V8: freely where they cannot take long
 * on a name, else under a time limit. No pattern can stall the server.
 */
import { performance } from 'node:perf_hooks'
import { createContext, Script } from 'node:vm'
import { RE2JS } from 're2js'
import { GatewayError } from './errors.js'

export interface Pattern {
  /** Whether it matches anywhere in `text`. A match that takes longer than the limit counts as one. */
  test(text: string): boolean
}

/** Milliseconds that one match by V8 may take. */
const limit = 100

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
  let free: RegExp
  try {
    free = new RegExp(pattern)
  } catch (error) {
    const why = error instanceof Error ? error.message : 'not a regular expression'
    throw new GatewayError('invalid', { reason: `${pattern} is illegal: ${why}` })
  }
  if (!isShortLived(pattern)) return timed(pattern)
  let guarded: Pattern | undefined
  return { test: (text) => (text.length <= shortText ? free.test(text) : (guarded ??= timed(pattern)).test(text)) }
}

const shortText = 256

/**
 * Whether backtracking is bounded to some million steps on a short text: every open-ended repetition multiplies them by
 * the text's length, every choice by two, and a repeated group may do anything.
 */
function isShortLived(pattern: string): boolean {
  const bare = pattern
    .replace(/\\./gs, 'x')
    .replace(/\[\^?[^\]]*\]/g, 'x')
    .replace(/\((\?(<?[=!]|:|<\w+>))?/g, '(')
  if (/\)[*+?{]/.test(bare)) return false
  const repetitions = bare.match(/[*+{]/g)?.length ?? 0
  const choices = bare.match(/[|?]/g)?.length ?? 0
  return 8 * (repetitions + 1) + choices <= 20
}

/** After a match that ran out of time, so many milliseconds pass until another text is tried. */
const rest = 1000

/** Texts that ran out of time and are not tried again. */
const knownSlow = 1000

function timed(pattern: string): Pattern {
  const context = createContext({ pattern, text: '' })
  const match = new Script('new RegExp(pattern).test(text)')
  const slow = new Set<string>()
  let restsUntil = 0
  return {
    test(text) {
      if (slow.has(text) || performance.now() < restsUntil) return true
      context.text = text
      try {
        return match.runInContext(context, { timeout: limit }) === true
      } catch {
        // Hiding too much is the safe side of a pattern that never ends.
        if (slow.size < knownSlow) slow.add(text)
        restsUntil = performance.now() + rest
        return true
      }
    },
  }
}
