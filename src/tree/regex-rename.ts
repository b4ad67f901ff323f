/** Renaming by regular expression: RE2 syntax, matched in linear time, with the replacement syntax of Go's package regexp. */
import { GatewayError } from '../contract/errors.js'
import { compileLinear, maxPatternLength, findMatches } from '../contract/patterns.js'

/** Maximum characters of a replacement and of a result. */
const maxLength = maxPatternLength

/** A part of a replacement: literal text, or a capturing group by number or name. */
type Piece = { readonly text: string } | { readonly group: string }

/**
 * Returns a function from a name to its new name, or to undefined if the pattern does not match. Every match is
 * replaced. `$1`, `${1}` and `${name}` insert a group, unknown groups insert nothing, `$$` inserts a dollar sign. The
 * result may be an invalid name. Throws `invalid` for a malformed or too costly pattern; the function throws `invalid`
 * for a name that takes too long to match.
 */
export function compileRenaming(pattern: string, replacement: string): (name: string) => string | undefined {
  if (pattern.length > maxLength || replacement.length > maxLength) {
    throw new GatewayError('invalid', { reason: `patterns and replacements have ${maxLength} characters at most` })
  }
  const compiled = compileLinear(pattern)
  const pieces = piecesOf(replacement)
  const numbers = new Map(Object.entries(compiled.expression.namedGroups()))
  return (name) => {
    let result = ''
    let end = -1
    for (const matcher of findMatches(compiled, name)) {
      // As in Go, an empty match directly after a match is ignored.
      if (matcher.start() === matcher.end() && matcher.start() === end) continue
      result += name.slice(Math.max(end, 0), matcher.start())
      for (const piece of pieces) {
        if ('text' in piece) {
          result += piece.text
          continue
        }
        const number = /^\d{1,9}$/.test(piece.group) ? Number(piece.group) : numbers.get(piece.group)
        if (number !== undefined && number <= matcher.groupCount()) result += matcher.group(number) ?? ''
      }
      end = matcher.end()
      // Longer than any valid name: the caller rejects it, so that the rest need not be computed.
      if (result.length > maxLength) return result
    }
    return end < 0 ? undefined : result + name.slice(end)
  }
}

function piecesOf(replacement: string): readonly Piece[] {
  const pieces: Piece[] = []
  let end = 0
  // A dollar sign that starts none of these forms is literal.
  for (const match of replacement.matchAll(/\$(?:(\$)|\{(\w+)\}|(\w+))/g)) {
    const [whole, dollar, braced, plain] = match
    pieces.push({ text: replacement.slice(end, match.index) + (dollar ?? '') })
    const group = braced ?? plain
    if (group !== undefined) pieces.push({ group })
    end = match.index + whole.length
  }
  pieces.push({ text: replacement.slice(end) })
  return pieces
}
