/** The If header (RFC 4918 §10.4) and the entity tags of RFC 9110 §13.1. Parsed here, judged by the core. */
import type { IfCondition, IfList, IfResource } from '../../src/change.js'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'

/**
 * The resources of an If header with their lists. `resolve` gives the path of a resource tag, or undefined for one
 * that is not ours: nothing is known about it, so its lists hold for nothing and are left out. Rejects with `invalid`
 * where the header does not follow the grammar, with `precondition_failed` where nothing of it is about us.
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

/** Lock tokens that an If header submits: those that it names as present. */
export function submittedTokens(resources: readonly IfResource[]): readonly string[] {
  const tokens = new Set<string>()
  for (const { lists } of resources) {
    for (const { kind, not, value } of lists.flat()) if (kind === 'token' && !not) tokens.add(value)
  }
  return [...tokens]
}

/**
 * The value of If-Match or If-None-Match: `*`, or entity tags with their quotes and, where weak, their `W/`. Rejects with
 * `invalid` for anything else.
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
  const not = scanner.takeNot()
  return scanner.peek() === '['
    ? { not, kind: 'etag', value: scanner.bracketedTag() }
    : { not, kind: 'token', value: scanner.angled() }
}

class Scanner {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  /** The next character that is no blank; empty at the end. */
  peek(): string {
    while (this.#text[this.#at] === ' ' || this.#text[this.#at] === '\t') this.#at++
    return this.#text[this.#at] ?? ''
  }

  take(character: string): void {
    if (this.peek() !== character) throw this.#malformed()
    this.#at++
  }

  takeNot(): boolean {
    this.peek()
    if (this.#match(/not(?=[\s<[])/iy) === undefined) return false
    return true
  }

  /** What stands between `<` and `>`. */
  angled(): string {
    this.take('<')
    const value = this.#match(/[^<>\s]+/y)
    if (value === undefined) throw this.#malformed()
    this.take('>')
    return value
  }

  /** The entity tag between `[` and `]`. */
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
