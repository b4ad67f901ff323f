/** The rules of File Browser: what they deny, as grants and as patterns of hidden names. Nothing is read here. */
import { posix } from 'node:path'
import { compileLinear } from '../../base/patterns.js'
import { cleanPath, root, selfAndAncestors, type Path } from '../../base/path.js'

/** `path` is relative to the folder of each user, as are the paths that `regexp` is matched with. */
export interface FileBrowserRule {
  readonly regex: boolean
  readonly allow: boolean
  readonly path: string
  readonly regexp?: { readonly raw: string } | null | undefined
}

/**
 * What a list of rules without regular expressions says of paths, of which the last that matches decides. Versions
 * since 2026 compare whole names and earlier ones compare prefixes, so a rule denies what it denies in any version, and
 * allows only what it allows in all of them.
 */
export class PathRules {
  /** The place of the last rule in the list, by what it matches. */
  readonly #denied = new Map<Path, number>()
  readonly #allowed = new Map<Path, number>()
  readonly #deniedPrefixes = new Map<Path, number>()
  readonly #prefixLengths = new Set<number>()
  /** What rules permit that is no path, such as one with a slash at its end: nothing is permitted by these. */
  readonly unusable: readonly string[]

  /** Throws `invalid` for a path that cannot be one. */
  constructor(rules: readonly FileBrowserRule[]) {
    const unusable: string[] = []
    for (const [place, { regex, allow, path: text }] of rules.entries()) {
      if (regex) continue
      const path = cleanPath(posix.join('/', text))
      if (!allow) this.#denied.set(path, place)
      // Any other text matches no path, or not this one itself.
      const isExact = text === path
      if (!allow && isExact) {
        this.#deniedPrefixes.set(path, place)
        this.#prefixLengths.add(path.length)
      } else if (allow && isExact) {
        this.#allowed.set(path, place)
      } else if (allow) {
        unusable.push(text)
      }
    }
    this.unusable = unusable
  }

  /** The paths that deny what begins with them in earlier versions. */
  get prefixes(): readonly Path[] {
    return [...this.#deniedPrefixes.keys()].filter((path) => path !== root)
  }

  /** The paths of the rules. */
  get paths(): readonly Path[] {
    return [...new Set([...this.#denied.keys(), ...this.#allowed.keys()])]
  }

  allows(path: Path): boolean {
    let [denied, allowed] = [-1, -1]
    for (const above of selfAndAncestors(path)) {
      denied = Math.max(denied, this.#denied.get(above) ?? -1)
      allowed = Math.max(allowed, this.#allowed.get(above) ?? -1)
    }
    for (const length of this.#prefixLengths) {
      if (length > path.length) continue
      denied = Math.max(denied, this.#deniedPrefixes.get(path.slice(0, length) as Path) ?? -1)
    }
    return allowed >= denied
  }
}

/** Names that begin with a dot. */
export const dotNames = '^\\.'

/**
 * Patterns of names that hide, in each folder, all that a rule with this regular expression denies, and maybe more.
 * Undefined if this is not certain: the expression is matched with paths, and could match more than one name.
 */
export function namePatterns(expression: string): readonly string[] | undefined {
  const [, flags = '', rest = ''] = /^(\(\?i\))?(.*)$/s.exec(expression) ?? []
  const tokens = tokensOf(rest)
  if (tokens === undefined) return undefined
  const patterns: string[] = []
  for (const alternative of alternativesOf(tokens)) {
    const pattern = namePattern(alternative)
    // Blank lines of patterns are skipped.
    if (pattern === undefined || pattern.trim() === '' || !isLinear(flags + pattern)) return undefined
    patterns.push(flags + pattern)
  }
  return patterns
}

/** A set of letters, digits and a few signs, among which is no slash. */
const set = /^\[(?:[A-Z]-[A-Z]|[a-z]-[a-z]|\d-\d|[\w. ])+\]/
const token = new RegExp(
  String.raw`${set.source}|^\\[dws]|^\\[^\w\s]|^\{\d{1,3}(?:,\d{0,3})?\}|^\(\?:|^[^\\[\]{}(\r\n]|^\((?!\?)`,
  'u',
)

/** Undefined if one of them is not known here. */
function tokensOf(text: string): readonly string[] | undefined {
  const tokens: string[] = []
  for (let rest = text; rest !== '';) {
    const [found] = token.exec(rest) ?? []
    if (found === undefined) return undefined
    tokens.push(found)
    rest = rest.slice(found.length)
  }
  return tokens
}

/** Splits at each `|` that is in no group. */
function alternativesOf(tokens: readonly string[]): readonly (readonly string[])[] {
  const alternatives: string[][] = [[]]
  let depth = 0
  for (const each of tokens) {
    if (each.startsWith('(')) depth++
    if (each === ')') depth--
    if (each === '|' && depth === 0) alternatives.push([])
    else alternatives.at(-1)?.push(each)
  }
  return alternatives
}

const slashes: ReadonlySet<string> = new Set(['/', '\\/'])

/** Undefined if a token, besides those at the ends, could match a slash or another place than one in a name. */
function namePattern(tokens: readonly string[]): string | undefined {
  let [start, end, before, after] = [0, tokens.length, '', '']
  const at = (index: number) => tokens[index] ?? ''
  const isAny = (index: number) => at(index) === '.' && ['*', '+'].includes(at(index + 1))
  const isAnchored = at(start) === '^'
  if (isAnchored) start++
  if (isAny(start)) start += 2
  // Without a slash, no path would match.
  else if (isAnchored && !slashes.has(at(start))) return undefined
  if (at(end - 1) === '$') [end, after] = [end - 1, '$']
  if (end - 2 >= start && isAny(end - 2)) [end, after] = [end - 2, '']
  if (slashes.has(at(start)) && start < end) [start, before] = [start + 1, '^']
  if (before !== '' && isAny(start)) [start, before] = [start + 2, '']
  if (slashes.has(at(end - 1)) && start < end) [end, after] = [end - 1, '$']
  const middle = tokens.slice(start, end)
  if (middle.some((each) => slashes.has(each) || ['.', '^', '$'].includes(each))) return undefined
  // A quantifier of what was removed.
  if (['*', '+', '?'].includes(middle[0] ?? '') || middle[0]?.startsWith('{') === true) return undefined
  const text = middle.join('')
  // It matches every path.
  return text === '' ? '^' : `${before}${text}${after}`
}

function isLinear(pattern: string): boolean {
  try {
    compileLinear(pattern)
    return true
  } catch {
    return false
  }
}
