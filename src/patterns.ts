/**
 * Regular expressions that users write, and the only place that compiles them. RE2 matches them in linear time. A pattern with
 * look-around or back-references runs in V8: freely where it cannot take long on a name, otherwise under a time limit. What a
 * pattern costs is bounded before it is compiled: neither compiling nor matching one may stall the server.
 */
import { performance } from 'node:perf_hooks'
import { createContext, Script, type Context } from 'node:vm'
import { RE2JS, type Matcher } from 're2js'
import { GatewayError } from './errors.js'

export interface Pattern {
  /** Steps for each character of a text, at most. */
  readonly cost: number
  /** Whether it matches anywhere in `text`. A match that takes too long counts as one. */
  test(text: string): boolean
  /** `text` with an asterisk for each character of a match; from where matching takes too long, nothing but asterisks. */
  masked(text: string): string
}

/** A pattern by RE2's rules, without look-around and back-references. */
export interface LinearPattern {
  readonly expression: RE2JS
  readonly cost: number
}

/** Characters of a pattern. The compiler takes a time that grows with their square. */
export const longestPattern = 1000

/** Characters of patterns that are used together. */
const longestText = 20_000

/** The cost of patterns that are used together. Compiling them takes up to 20 ms. */
const mostCost = 4000

/** Steps of matching one text, or the names of one path. They take up to 40 ms. */
export const mostSteps = 1_000_000

/** Steps of matching one text. To begin with it costs as much as some characters. */
export function stepsOf(cost: number, length: number): number {
  return cost * (length + 10)
}

/** What becomes of a source that is no regular expression. */
export type IfIllegal = 'refused' | 'ignored'

/** A pattern that may be valid, but exceeds a limit. */
export class CostlyPatternError extends GatewayError {
  constructor(reason: string) {
    super('invalid', { reason })
  }
}

/** The lines of a text with a pattern on each. Blank ones are none, and lines may end as on Windows. */
export function patternLines(text: string): readonly string[] {
  if (text.length > longestText) {
    throw new CostlyPatternError(`the list of patterns is illegal: it has more than ${longestText} characters`)
  }
  const lines = text.split('\n').map((line) => line.replace(/(?<!\r)\r+$/, ''))
  return lines.filter((line) => line.trim() !== '')
}

/**
 * Patterns that are used together, one for each source. Rejects with CostlyPatternError, and with `invalid`, naming the pattern, where
 * one is no regular expression, unless that is ignored: then it matches nothing.
 */
export function compilePatterns(sources: readonly string[], illegal: IfIllegal = 'refused'): readonly Pattern[] {
  const timeLimit = new TimeLimit()
  let left = mostCost
  return sources.map((source) => {
    const pattern = compileWithin(left, source, timeLimit, illegal)
    left -= pattern.cost
    return pattern
  })
}

export function compilePattern(source: string): Pattern {
  return compileWithin(mostCost, source, new TimeLimit(), 'refused')
}

/** Rejects as `compilePatterns` does, also for a pattern that RE2 does not have. */
export function compileLinear(source: string): LinearPattern {
  const cost = checkedCost(source, mostCost)
  try {
    return { expression: RE2JS.compile(source), cost }
  } catch (error) {
    throw illegal(source, error)
  }
}

/**
 * The source of a pattern that matches the whole paths that a glob does: `*` stands for any part of a name, `?` for one character of
 * it, `**` for any part of a path, `[…]` for a choice of characters, `{one,other}` for a choice of texts.
 */
export function globSource(glob: string): string {
  let depth = 0
  const source = glob.replace(/\/\*\*(?=\/|$)|\*\*|\[!?\]?[^\]]*\]|\\?[^]/g, (token) => {
    if (depth > 0 && token === ',') return '|'
    switch (token) {
      case '/**':
        return '(?:/.*)?'
      case '**':
        return '.*'
      case '*':
        return '[^/]*'
      case '?':
        return '[^/]'
      case '{':
        depth++
        return '(?:'
      case '}':
        if (depth === 0) return '\\}'
        depth--
        return ')'
    }
    if (token.startsWith('[') && token.length > 1) return token.replace(/^\[!/, '[^')
    // RE2 refuses to escape anything but punctuation.
    return token.replace(/^\\(?=[^])/, '').replace(/^[!-/:-@[-`{-~]$/, '\\$&')
  })
  return `^(?:${source})$`
}

/** The matches in `text`, one after the other. Rejects with CostlyPatternError once they have taken too many steps. */
export function* matchesIn({ expression, cost }: LinearPattern, text: string): Generator<Matcher> {
  const matcher = expression.matcher(text)
  let left = mostSteps
  let end = 0
  for (;;) {
    left -= stepsOf(cost, text.length - end)
    if (left < 0)
      throw new CostlyPatternError(`${shortened(expression.pattern())} takes too long on a text of this length`)
    if (!matcher.find()) return
    yield matcher
    end = matcher.end()
  }
}

function compileWithin(left: number, source: string, timeLimit: TimeLimit, illegal: IfIllegal): Pattern {
  const cost = checkedCost(source, left)
  const linear = compiledByRE2(source)
  if (linear !== undefined) {
    return {
      cost,
      test: (text) => stepsOf(cost, text.length) > mostSteps || linear.matcher(text).find(),
      masked: (text) => maskedBy({ expression: linear, cost }, text),
    }
  }
  if (cost + guardedCost > left) throw tooCostly(source)
  try {
    return guardedPattern(source, cost + guardedCost, timeLimit)
  } catch (error) {
    if (illegal === 'refused') throw error
    return { cost, test: () => false, masked: (text) => text }
  }
}

function compiledByRE2(source: string): RE2JS | undefined {
  try {
    return RE2JS.compile(source)
  } catch {
    return undefined
  }
}

function maskedBy(pattern: LinearPattern, text: string): string {
  let masked = ''
  try {
    for (const match of matchesIn(pattern, text)) {
      masked += text.slice(masked.length, match.start()) + asterisks(match.end() - match.start())
    }
  } catch (error) {
    if (error instanceof CostlyPatternError) return masked + asterisks(text.length - masked.length)
    throw error
  }
  return masked + text.slice(masked.length)
}

function asterisks(length: number): string {
  return '*'.repeat(length)
}

/** For a reason, which is a line. */
function shortened(source: string): string {
  return source.length > 100 ? `${source.slice(0, 100)}…` : source
}

function illegal(source: string, error: unknown): GatewayError {
  const why = error instanceof Error ? error.message : 'not a regular expression'
  return new GatewayError('invalid', { reason: `${shortened(source)} is illegal: ${why}`, cause: error })
}

function tooCostly(source: string): CostlyPatternError {
  return new CostlyPatternError(
    `${shortened(source)} is illegal: too many repetitions, alone or together with other patterns`,
  )
}

/** Of the source; CostlyPatternError where it is more than `left`. */
function checkedCost(source: string, left: number): number {
  if (source.length > longestPattern) {
    throw new CostlyPatternError(`a pattern is illegal: it has more than ${longestPattern} characters`)
  }
  const cost = costOf(source)
  if (cost > left) throw tooCostly(source)
  return cost
}

/** What of a pattern is one thing for RE2; the counts of a repetition are groups. */
const tokens =
  /\\Q.*?(?:\\E|$)|\\[pP](?:\{[^}]*\}|.)|\\x\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]])*\]?|\(\?[a-zA-Z-]*\)|\((?:\?P?<\w*>|\?[a-zA-Z-]*:)?|\{(\d+)(,?)(\d*)\}\??|[*+?]\??|./gs

/** Of an open-ended or optional repetition, beside what is repeated. */
const repetitionCost = 16

/** Steps that RE2 takes for each character of a text, with counted repetitions written out; from the source alone. */
function costOf(source: string): number {
  /** Of the groups that are open, innermost last. */
  const sums = [0]
  let last = 0
  const add = (cost: number) => {
    last = cost
    sums.push((sums.pop() ?? 0) + cost)
  }
  const repeat = (cost: number) => {
    const repeated = last
    add(cost)
    last += repeated
  }
  for (const { 0: token, 1: least, 2: comma, 3: most } of source.matchAll(tokens)) {
    if (least !== undefined) {
      const min = Number(least)
      const max = most === '' ? min : Number(most)
      const optional = comma === '' ? 0 : most === '' ? 1 : Math.max(0, max - min)
      repeat(last * (Math.max(min, max, 1) - 1) + optional * repetitionCost)
    } else if (/^[*+?]/.test(token)) {
      repeat(repetitionCost)
    } else if (token === ')') {
      add((sums.pop() ?? 0) + 2)
    } else if (token.startsWith('(?') && token.endsWith(')')) {
      // Flags, such as (?i), match nothing. An escaped bracket is a character like any other.
      last = 0
    } else if (token.startsWith('(')) {
      sums.push(0)
      last = 0
    } else {
      add(sizeOf(token))
    }
  }
  return sums.reduce((sum, each) => sum + each, 0)
}

/** Tables of Unicode are the longest classes. */
function sizeOf(token: string): number {
  return token.length + (token.match(/\\[pP]/g)?.length ?? 0) * 16
}

/** Of a pattern that V8 runs, beside the cost by its source. */
const guardedCost = 500

function guardedPattern(source: string, cost: number, timeLimit: TimeLimit): Pattern {
  const ignoresCase = source.startsWith('(?i)')
  const bare = ignoresCase ? source.slice(4) : source
  const flags = ignoresCase ? 'i' : ''
  let free: RegExp
  try {
    free = new RegExp(bare, flags)
  } catch (error) {
    throw illegal(source, error)
  }
  const shortLived = isShortLived(bare)
  /** Texts that ran out of time and are not tried again. */
  const slow = new Set<string>()
  return {
    cost,
    test(text) {
      if (shortLived && text.length <= shortText) return free.test(text)
      if (slow.has(text) || timeLimit.isPausing) return true
      const result = timeLimit.run(testing, bare, flags, text)
      if (result !== undefined) return result === true
      // Hiding too much is the safe side of a pattern that never ends.
      if (slow.size < knownSlow) slow.add(text)
      return true
    },
    masked(text) {
      const result = timeLimit.run(masking, bare, `g${flags}`, text)
      return typeof result === 'string' ? result : asterisks(text.length)
    },
  }
}

const shortText = 256
const knownSlow = 1000

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

const testing = new Script('new RegExp(pattern, flags).test(text)')
const masking = new Script('text.replace(new RegExp(pattern, flags), (match) => "*".repeat(match.length))')

/** Runs the patterns of one list in V8, all of them under one limit of time. */
class TimeLimit {
  /** Milliseconds that one run may take. */
  static readonly #limit = 50
  /** Milliseconds after a run that took longer, until the next one. */
  static readonly #pause = 1000

  #context: Context | undefined
  #pausesUntil = 0

  get isPausing(): boolean {
    return performance.now() < this.#pausesUntil
  }

  /** undefined where it takes too long, and while the list pauses. */
  run(script: Script, pattern: string, flags: string, text: string): unknown {
    if (this.isPausing) return undefined
    this.#context ??= createContext({})
    Object.assign(this.#context, { pattern, flags, text })
    try {
      return script.runInContext(this.#context, { timeout: TimeLimit.#limit })
    } catch {
      this.#pausesUntil = performance.now() + TimeLimit.#pause
      return undefined
    }
  }
}
