/** rclone's `obfuscate`: each character turned round within its kind, by a number that stands before the first dot. */

const quote = '!'

/** Characters of one kind: how many there are, by how much they turn at most, and where each stands among them. */
interface Kind {
  readonly count: number
  readonly most: number
  place(code: number): number
  code(place: number): number
}

const digits: Kind = { count: 10, most: 9, place: (code) => code - 0x30, code: (place) => place + 0x30 }
const letters: Kind = {
  count: 52,
  most: 25,
  place: (code) => (code >= 0x61 ? code - 0x61 + 26 : code - 0x41),
  code: (place) => (place >= 26 ? place - 26 + 0x61 : place + 0x41),
}
const latin: Kind = { count: 96, most: 95, place: (code) => code - 0xa0, code: (place) => place + 0xa0 }
const further = (base: number): Kind => ({
  count: 256,
  most: 127,
  place: (code) => code - base,
  code: (place) => place + base,
})

function kindOf(code: number): Kind | undefined {
  if (code >= 0x30 && code <= 0x39) return digits
  if ((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) return letters
  if (code >= 0xa0 && code <= 0xff) return latin
  return code >= 0x100 ? further(code - (code % 256)) : undefined
}

function turned(code: number, kind: Kind, turn: number): number {
  return kind.code((kind.place(code) + turn + kind.count) % kind.count)
}

function isCharacter(code: number): boolean {
  return code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
}

/** `shift`: what the key adds to every name's own number. */
export function rotated(name: string, shift: number): string {
  if (name === '') return ''
  let own = 0
  for (const letter of name) own += letter.codePointAt(0) ?? 0
  own %= 256
  const distance = own + shift
  let text = `${own}.`
  for (const letter of name) {
    const code = letter.codePointAt(0) ?? 0
    const kind = kindOf(code)
    const to = kind ? turned(code, kind, (distance % kind.most) + 1) : code
    if (letter === quote || !isCharacter(to)) text += quote + letter
    else text += String.fromCodePoint(to)
  }
  return text
}

/** Undefined for what is no such name. */
export function rotatedBack(text: string, shift: number): string | undefined {
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
    const kind = quoted ? undefined : kindOf(code)
    quoted = false
    if (!kind) {
      name += letter
      continue
    }
    const from = turned(code, kind, -((distance % kind.most) + 1))
    if (!isCharacter(from)) return undefined
    name += String.fromCodePoint(from)
  }
  return name
}
