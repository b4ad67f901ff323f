/** Parses the If header (RFC 4918 §10.4) and the entity tags of RFC 9110 §13.1. The tree evaluates them. */
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { IfCondition, IfList, IfResource } from '../../src/tree/preconditions.js'

/** Maximum conditions: each may cost a call of the backend. The tokens of a client's locks are conditions too. */
const maxConditions = 200

/**
 * Parses an If header into its resources and their lists. `resolve` returns the path of a resource tag, or undefined if
 * it is not on this server. The lists of such a resource cannot match and are omitted. Throws `invalid` for a malformed
 * header, or one of more than 200 conditions, and `precondition_failed` if no resource is left.
 */
export function parseIf(text: string, resolve: (reference: string) => Path | undefined): readonly IfResource[] {
  const scanner = new Scanner(text)
  const resources: IfResource[] = []
  if (scanner.peek() === '(') {
    resources.push({ lists: parseLists(scanner) })
  } else {
    do {
      const path = resolve(scanner.angled())
      const lists = parseLists(scanner)
      if (path !== undefined) resources.push({ path, lists })
    } while (scanner.peek() === '<')
  }
  scanner.end()
  if (resources.length === 0) throw new GatewayError('precondition_failed')
  return resources
}

/** The lock tokens that an If header submits: all that are not negated by `Not`. */
export function submittedTokens(resources: readonly IfResource[]): readonly string[] {
  const tokens = new Set<string>()
  for (const { lists } of resources) {
    for (const { kind, not, value } of lists.flat()) if (kind === 'token' && !not) tokens.add(value)
  }
  return [...tokens]
}

/**
 * Parses If-Match or If-None-Match: `*`, or the entity tags with their quotes and `W/`. Throws `invalid` if malformed.
 */
export function parseEntityTags(text: string): '*' | readonly string[] {
  if (text.trim() === '*') return '*'
  if (!/^[\s,]*(W\/)?"[^"\s]*"(\s*,(\s*(W\/)?"[^"\s]*")?)*\s*$/.test(text)) {
    throw new GatewayError('invalid', { reason: 'malformed list of entity tags' })
  }
  return text.match(/(W\/)?"[^"]*"/g) ?? []
}

function parseLists(scanner: Scanner): readonly IfList[] {
  const lists: IfList[] = []
  do {
    scanner.take('(')
    const conditions: IfCondition[] = []
    do conditions.push(parseCondition(scanner))
    while (scanner.peek() !== ')')
    scanner.take(')')
    lists.push(conditions)
  } while (scanner.peek() === '(')
  return lists
}

function parseCondition(scanner: Scanner): IfCondition {
  scanner.countCondition()
  const not = scanner.takeNot()
  return scanner.peek() === '['
    ? { not, kind: 'etag', value: scanner.bracketedTag() }
    : { not, kind: 'token', value: scanner.angled() }
}

class Scanner {
  readonly #text: string
  #at = 0
  #conditions = 0

  constructor(text: string) {
    this.#text = text
  }

  /** Skips blanks and returns the next character without consuming it; empty at the end. */
  peek(): string {
    while (this.#text[this.#at] === ' ' || this.#text[this.#at] === '\t') this.#at++
    return this.#text[this.#at] ?? ''
  }

  take(character: string): void {
    if (this.peek() !== character) throw this.#malformed()
    this.#at++
  }

  /** Throws `invalid` if the header has too many conditions. */
  countCondition(): void {
    if (++this.#conditions <= maxConditions) return
    throw new GatewayError('invalid', { reason: `the If header has more than ${maxConditions} conditions` })
  }

  takeNot(): boolean {
    this.peek()
    if (this.#match(/not(?=[\s<[])/iy) === undefined) return false
    return true
  }

  /** Consumes `<...>` and returns the text between the brackets. */
  angled(): string {
    this.take('<')
    const value = this.#match(/[^<>\s]+/y)
    if (value === undefined) throw this.#malformed()
    this.take('>')
    return value
  }

  /** Consumes `[...]` and returns the entity tag between the brackets. */
  bracketedTag(): string {
    this.take('[')
    const value = this.#match(/(W\/)?"[^"]*"/y)
    if (value === undefined) throw this.#malformed()
    this.take(']')
    return value
  }

  end(): void {
    if (this.peek() !== '') throw this.#malformed()
  }

  #match(sticky: RegExp): string | undefined {
    sticky.lastIndex = this.#at
    const found = sticky.exec(this.#text)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #malformed(): GatewayError {
    return new GatewayError('invalid', { reason: `malformed If header at character ${this.#at + 1}` })
  }
}
