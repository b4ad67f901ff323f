/** New names out of old ones by a pattern: RE2's flavour, in linear time, with the replacement forms of Go's `regexp`. */
import { GatewayError } from './errors.js'
import { compileLinear, longestPattern, matchesIn } from './patterns.js'

/** Characters of a replacement, and of a result. */
const longest = longestPattern

/** A piece of a replacement: a text, or a group by its number or name. */
type Piece = { readonly text: string } | { readonly group: string }

/**
 * What turns a name into its new one; undefined for a name that the pattern does not match. Every match is replaced; `$1`, `${1}`
 * and `${name}` stand for groups, unknown ones for nothing, `$$` for a dollar. The result may be no valid name. Rejects with
 * `invalid` for a faulty pattern, or one that costs too much; what it makes rejects so for a name on which it takes too long.
 */
export function compileRenaming(pattern: string, replacement: string): (name: string) => string | undefined {
  if (pattern.length > longest || replacement.length > longest) {
    throw new GatewayError('invalid', { reason: `patterns and replacements have ${longest} characters at most` })
  }
  const compiled = compileLinear(pattern)
  const pieces = piecesOf(replacement)
  const numbers = new Map(Object.entries(compiled.expression.namedGroups()))
  return (name) => {
    let result = ''
    let end = -1
    for (const matcher of matchesIn(compiled, name)) {
      // Nothing at all right behind a match is not another one.
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
      // No name is that long: it is refused, whatever else would be put in.
      if (result.length > longest) return result
    }
    return end < 0 ? undefined : result + name.slice(end)
  }
}

function piecesOf(replacement: string): readonly Piece[] {
  const pieces: Piece[] = []
  let end = 0
  // A dollar that begins none of these is a dollar.
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
