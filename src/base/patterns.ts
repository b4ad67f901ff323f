/**
 * Compiles regular expressions from user input; no other module does. RE2 matches them in linear time. A pattern with
 * look-around or back-references is run by V8: without a limit if it is certainly fast on a name, otherwise under a
 * time limit. The cost of a pattern is limited before it is compiled, so that neither compiling nor matching can stall
 * the server.
 */
import { performance } from 'node:perf_hooks'
import { createContext, Script, type Context } from 'node:vm'
import { RE2JS, type Matcher } from 're2js'
import { GatewayError, hasDetail } from './errors.js'

export interface Pattern {
  /** Maximum number of steps for each character of a text. */
  readonly cost: number
  /** Whether the pattern matches anywhere in `text`. A match that exceeds its limit counts as one. */
  test(text: string): boolean
  /**
   * `text` with each character of each match replaced by an asterisk. If matching exceeds its limit, the unmatched rest
   * or the whole text is replaced.
   */
  masked(text: string): string
}

/** A pattern in RE2's syntax, without look-around and back-references. */
interface LinearPattern {
  readonly expression: RE2JS
  readonly cost: number
}

/** Maximum number of characters of a pattern. The compilation time is quadratic in it. */
export const maxPatternLength = 1000

/** Maximum number of characters of all patterns of one list. */
const maxTextLength = 20_000

/** Maximum cost of all patterns of one list. Compiling them takes up to 20 ms. */
const maxCost = 4000

/** Maximum number of steps to match one text, or all names of one path. They take up to 40 ms. */
export const maxSteps = 1_000_000

/** Number of steps to match one text. The start of a match costs as much as ten characters. */
export function stepsOf(cost: number, length: number): number {
  return cost * (length + 10)
}

/** The treatment of invalid regular expressions. */
type OnInvalidPattern = 'refused' | 'ignored'

/** The error for a pattern that may be valid, but exceeds a limit. */
function costlyPattern(reason: string): GatewayError {
  return new GatewayError('invalid', { detail: 'costly_pattern', reason })
}

/** Splits a text with one pattern on each line. Blank lines are skipped, and CRLF line endings are accepted. */
export function patternLines(text: string): readonly string[] {
  if (text.length > maxTextLength) {
    throw costlyPattern(`the list of patterns is illegal: it has more than ${maxTextLength} characters`)
  }
  const lines = text.split('\n').map((line) => line.replace(/(?<!\r)\r+$/, ''))
  return lines.filter((line) => line.trim() !== '')
}

/**
 * Compiles the patterns of one list, one for each source. Throws `costly_pattern`, or `invalid` with the pattern if
 * it is not a regular expression. With 'ignored', the latter matches nothing instead.
 */
export function compilePatterns(sources: readonly string[], illegal: OnInvalidPattern = 'refused'): readonly Pattern[] {
  const timeLimit = new TimeLimit()
  let remaining = maxCost
  return sources.map((source) => {
    const pattern = compileWithin(remaining, source, timeLimit, illegal)
    remaining -= pattern.cost
    return pattern
  })
}

/** Throws as `compilePatterns` does, also for a pattern that RE2 does not support. */
export function compileLinear(source: string): LinearPattern {
  const cost = checkCost(source, maxCost)
  try {
    return { expression: RE2JS.compile(source), cost }
  } catch (error) {
    throw illegalPatternError(source, error)
  }
}

/**
 * The source of a pattern that matches the same complete paths as a glob: `*` matches any part of a name, `?` one
 * character of it, `**` any part of a path, `[…]` one of the characters, `{one,other}` one of the texts.
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
    // RE2 only permits escapes of punctuation.
    return token.replace(/^\\(?=[^])/, '').replace(/^[!-/:-@[-`{-~]$/, '\\$&')
  })
  return `^(?:${source})$`
}

/** Yields the matches in `text` in order. Throws `costly_pattern` once they have taken too many steps. */
export function* findMatches({ expression, cost }: LinearPattern, text: string): Generator<Matcher> {
  const matcher = expression.matcher(text)
  let remaining = maxSteps
  let end = 0
  for (;;) {
    remaining -= stepsOf(cost, text.length - end)
    if (remaining < 0) throw costlyPattern(`${truncate(expression.pattern())} takes too long on a text of this length`)
    if (!matcher.find()) return
    yield matcher
    end = matcher.end()
  }
}

/** A pattern without metacharacters, as most names in a list are. */
const literal = /^[^\\^$.*+?()[\]{}|]+$/

function compileWithin(remaining: number, source: string, timeLimit: TimeLimit, illegal: OnInvalidPattern): Pattern {
  const isLiteral = literal.test(source)
  const cost = checkCost(source, remaining, isLiteral ? 0 : matcherCost)
  if (isLiteral) {
    return {
      cost,
      test: (text) => text.includes(source),
      masked: (text) => text.replaceAll(source, asterisks(source.length)),
    }
  }
  const linear = compileWithRE2(source)
  if (linear !== undefined) {
    return {
      cost,
      test: (text) => stepsOf(cost, text.length) > maxSteps || linear.matcher(text).find(),
      masked: (text) => maskMatches({ expression: linear, cost }, text),
    }
  }
  if (cost + guardedCost > remaining) throw tooManyRepetitions(source)
  try {
    return guardedPattern(source, cost + guardedCost, timeLimit)
  } catch (error) {
    if (illegal === 'refused') throw error
    return { cost, test: () => false, masked: (text) => text }
  }
}

function compileWithRE2(source: string): RE2JS | undefined {
  try {
    return RE2JS.compile(source)
  } catch {
    return undefined
  }
}

function maskMatches(pattern: LinearPattern, text: string): string {
  let masked = ''
  try {
    for (const match of findMatches(pattern, text)) {
      masked += text.slice(masked.length, match.start()) + asterisks(match.end() - match.start())
    }
  } catch (error) {
    if (hasDetail(error, 'costly_pattern')) return masked + asterisks(text.length - masked.length)
    throw error
  }
  return masked + text.slice(masked.length)
}

function asterisks(length: number): string {
  return '*'.repeat(length)
}

/** Truncates a pattern for an error reason. */
function truncate(source: string): string {
  return source.length > 100 ? `${source.slice(0, 100)}…` : source
}

function illegalPatternError(source: string, error: unknown): GatewayError {
  const why = error instanceof Error ? error.message : 'not a regular expression'
  return new GatewayError('invalid', { reason: `${truncate(source)} is illegal: ${why}`, cause: error })
}

function tooManyRepetitions(source: string): GatewayError {
  return costlyPattern(`${truncate(source)} is illegal: too many repetitions, alone or together with other patterns`)
}

/** Cost of compiling any pattern and of starting to match it, in addition to that of its parts. */
const matcherCost = 10

/** Returns the cost of the pattern. Throws `costly_pattern` if it exceeds `remaining`. */
function checkCost(source: string, remaining: number, additional = 0): number {
  if (source.length > maxPatternLength) {
    throw costlyPattern(`a pattern is illegal: it has more than ${maxPatternLength} characters`)
  }
  const cost = costOf(source) + additional
  if (cost > remaining) throw tooManyRepetitions(source)
  return cost
}

/** Tokens of RE2's syntax; the groups capture the counts of a repetition. */
const tokens =
  /\\Q.*?(?:\\E|$)|\\[pP](?:\{[^}]*\}|.)|\\x\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]])*\]?|\(\?[a-zA-Z-]*\)|\((?:\?P?<\w*>|\?[a-zA-Z-]*:)?|\{(\d+)(,?)(\d*)\}\??|[*+?]\??|./gs

/** Cost of an open-ended or optional repetition, in addition to what is repeated. */
const repetitionCost = 16

/**
 * Number of steps that RE2 takes for each character of a text, with counted repetitions expanded. Estimated from the
 * source alone.
 */
function costOf(source: string): number {
  /** Costs of the groups that are open, innermost last. */
  const groupCosts = [0]
  let lastCost = 0
  const add = (cost: number) => {
    lastCost = cost
    groupCosts.push((groupCosts.pop() ?? 0) + cost)
  }
  const repeat = (cost: number) => {
    const repeated = lastCost
    add(cost)
    lastCost += repeated
  }
  for (const { 0: token, 1: minDigits, 2: comma, 3: maxDigits } of source.matchAll(tokens)) {
    if (minDigits !== undefined) {
      const min = Number(minDigits)
      const max = maxDigits === '' ? min : Number(maxDigits)
      const optional = comma === '' ? 0 : maxDigits === '' ? 1 : Math.max(0, max - min)
      repeat(lastCost * (Math.max(min, max, 1) - 1) + optional * repetitionCost)
    } else if (/^[*+?]/.test(token)) {
      repeat(repetitionCost)
    } else if (token === ')') {
      add((groupCosts.pop() ?? 0) + 2)
    } else if (token.startsWith('(?') && token.endsWith(')')) {
      // Flags, such as (?i), match nothing. An escaped bracket is a character like any other.
      lastCost = 0
    } else if (token.startsWith('(')) {
      groupCosts.push(0)
      lastCost = 0
    } else {
      add(sizeOf(token))
    }
  }
  return groupCosts.reduce((sum, each) => sum + each, 0)
}

/** Unicode character tables are the longest classes. */
function sizeOf(token: string): number {
  return token.length + (token.match(/\\[pP]/g)?.length ?? 0) * 16
}

/** Additional cost of a pattern that V8 runs. */
const guardedCost = 500

function guardedPattern(source: string, cost: number, timeLimit: TimeLimit): Pattern {
  const ignoresCase = source.startsWith('(?i)')
  const bare = ignoresCase ? source.slice(4) : source
  const flags = ignoresCase ? 'i' : ''
  let expression: RegExp
  try {
    expression = new RegExp(bare, flags)
  } catch (error) {
    throw illegalPatternError(source, error)
  }
  const isBounded = hasBoundedBacktracking(bare)
  /** Texts that exceeded the time limit and are not tried again. */
  const slowTexts = new Set<string>()
  return {
    cost,
    test(text) {
      if (isBounded && text.length <= maxShortText) return expression.test(text)
      if (slowTexts.has(text) || timeLimit.isPausing) return true
      const result = timeLimit.run(testScript, bare, flags, text)
      if (result !== undefined) return result === true
      // Treating the text as a match is the safe result, because matches are hidden.
      if (slowTexts.size < maxSlowTexts) slowTexts.add(text)
      return true
    },
    masked(text) {
      const result = timeLimit.run(maskScript, bare, `g${flags}`, text)
      return typeof result === 'string' ? result : asterisks(text.length)
    },
  }
}

const maxShortText = 256
const maxSlowTexts = 1000

/**
 * Whether backtracking on a short text is limited to some million steps. Each open-ended repetition multiplies them by
 * the length of the text, each choice by two, and a repeated group by an unknown factor.
 */
function hasBoundedBacktracking(pattern: string): boolean {
  const simplified = pattern
    .replace(/\\./gs, 'x')
    .replace(/\[\^?[^\]]*\]/g, 'x')
    .replace(/\((\?(<?[=!]|:|<\w+>))?/g, '(')
  if (/\)[*+?{]/.test(simplified)) return false
  const repetitions = simplified.match(/[*+{]/g)?.length ?? 0
  const choices = simplified.match(/[|?]/g)?.length ?? 0
  return 8 * (repetitions + 1) + choices <= 20
}

const testScript = new Script('new RegExp(pattern, flags).test(text)')
const maskScript = new Script('text.replace(new RegExp(pattern, flags), (match) => "*".repeat(match.length))')

/** Runs the patterns of one list in V8 under a common time limit. */
class TimeLimit {
  /** Maximum milliseconds of one attempt, and of processor time before a further attempt of the same run. */
  static readonly #limit = 50
  /** Milliseconds without runs after one that exceeded the limit. */
  static readonly #pause = 1000

  #context: Context | undefined
  #pausesUntil = 0

  get isPausing(): boolean {
    return performance.now() < this.#pausesUntil
  }

  /** Returns undefined if the run exceeds the limit, and during a pause. */
  run(script: Script, pattern: string, flags: string, text: string): unknown {
    if (this.isPausing) return undefined
    this.#context ??= createContext({})
    Object.assign(this.#context, { pattern, flags, text })
    const end = processorTime() + TimeLimit.#limit
    do {
      try {
        return script.runInContext(this.#context, { timeout: TimeLimit.#limit })
      } catch {
        // V8 limits elapsed time, in which a busy machine may have run other programs instead.
      }
    } while (processorTime() < end)
    this.#pausesUntil = performance.now() + TimeLimit.#pause
    return undefined
  }
}

/** Processor time of all threads of this process so far, in milliseconds. */
function processorTime(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
