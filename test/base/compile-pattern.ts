/** Compiles one pattern for the tests of patterns. */
import { compilePatterns, type Pattern } from '../../src/base/patterns.js'

/** A list of one pattern. Throws as `compilePatterns` does. */
export function compilePattern(source: string): Pattern {
  const [pattern] = compilePatterns([source])
  if (!pattern) throw new Error('nothing was compiled')
  return pattern
}
