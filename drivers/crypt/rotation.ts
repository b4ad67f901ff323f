/**
 * rclone's `obfuscate`: rotates each character within its range. The result starts with the sum of the code points
 * modulo 256 and a dot; that sum and the key determine the rotation.
 */

const quote = '!'

/** A range of characters: its size, the largest rotation, and the mapping between code points and indexes. */
interface CharacterRange {
  readonly count: number
  readonly maxRotation: number
  index(code: number): number
  code(index: number): number
}

const digits: CharacterRange = {
  count: 10,
  maxRotation: 9,
  index: (code) => code - 0x30,
  code: (index) => index + 0x30,
}
const letters: CharacterRange = {
  count: 52,
  maxRotation: 25,
  index: (code) => (code >= 0x61 ? code - 0x61 + 26 : code - 0x41),
  code: (index) => (index >= 26 ? index - 26 + 0x61 : index + 0x41),
}
const latin: CharacterRange = {
  count: 96,
  maxRotation: 95,
  index: (code) => code - 0xa0,
  code: (index) => index + 0xa0,
}
const further = (base: number): CharacterRange => ({
  count: 256,
  maxRotation: 127,
  index: (code) => code - base,
  code: (index) => index + base,
})

function rangeOf(code: number): CharacterRange | undefined {
  if (code >= 0x30 && code <= 0x39) return digits
  if ((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) return letters
  if (code >= 0xa0 && code <= 0xff) return latin
  return code >= 0x100 ? further(code - (code % 256)) : undefined
}

function rotatedCode(code: number, range: CharacterRange, rotation: number): number {
  return range.code((range.index(code) + rotation + range.count) % range.count)
}

function isCharacter(code: number): boolean {
  return code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
}

/** Obfuscates a name. `shift`: the part of the distance that is derived from the key. */
export function obfuscateName(name: string, shift: number): string {
  if (name === '') return ''
  let nameSum = 0
  for (const letter of name) nameSum += letter.codePointAt(0) ?? 0
  nameSum %= 256
  const distance = nameSum + shift
  let text = `${nameSum}.`
  for (const letter of name) {
    const code = letter.codePointAt(0) ?? 0
    const range = rangeOf(code)
    const to = range ? rotatedCode(code, range, (distance % range.maxRotation) + 1) : code
    if (letter === quote || !isCharacter(to)) text += quote + letter
    else text += String.fromCodePoint(to)
  }
  return text
}

/** Reverses the obfuscation. Undefined if `text` is not an obfuscated name. */
export function deobfuscateName(text: string, shift: number): string | undefined {
  const dot = text.indexOf('.')
  const number = text.slice(0, Math.max(dot, 0))
  const rest = text.slice(dot + 1)
  if (number === quote) return rest
  if (!/^[+-]?\d+$/.test(number)) return undefined
  const distance = Number(number) + shift
  let name = ''
  let quoted = false
  for (const letter of rest) {
    if (!quoted && letter === quote) {
      quoted = true
      continue
    }
    const code = letter.codePointAt(0) ?? 0
    const range = quoted ? undefined : rangeOf(code)
    quoted = false
    if (!range) {
      name += letter
      continue
    }
    const from = rotatedCode(code, range, -((distance % range.maxRotation) + 1))
    if (!isCharacter(from)) return undefined
    name += String.fromCodePoint(from)
  }
  return name
}
