/** Numbers of cells as a spreadsheet shows them, by their formats (ECMA-376 part 1, 18.8.30 and 18.8.31). */

type Shape =
  | { readonly kind: 'plain' }
  | { readonly kind: 'date'; readonly hasDate: boolean; readonly hasTime: boolean; readonly hasSeconds: boolean }
  | { readonly kind: 'duration' }
  | {
      readonly kind: 'number'
      readonly decimals: number
      readonly isGrouped: boolean
      readonly isPercent: boolean
      readonly before: string
      readonly after: string
    }

/** The formats that have no code in the file. Those of 27 to 36 and 50 to 58 are dates of East Asia. */
const builtIn: Readonly<Record<string, string>> = Object.fromEntries(
  `1 0|2 0.00|3 #,##0|4 #,##0.00|9 0%|10 0.00%|14 yyyy-mm-dd|15 yyyy-mm-dd|16 mm-dd|17 yyyy-mm|18 h:mm|19 h:mm:ss|\
20 h:mm|21 h:mm:ss|22 yyyy-mm-dd h:mm|37 #,##0|38 #,##0|39 #,##0.00|40 #,##0.00|45 mm:ss|46 [h]:mm:ss|47 mm:ss|\
27 yyyy-mm-dd|28 mm-dd|29 mm-dd|30 mm-dd|31 yyyy-mm-dd|32 h:mm|33 h:mm:ss|34 h:mm|35 h:mm:ss|36 yyyy-mm-dd|\
50 yyyy-mm-dd|51 mm-dd|52 yyyy-mm|53 mm-dd|54 mm-dd|55 h:mm|56 h:mm:ss|57 yyyy-mm-dd|58 mm-dd`
    .split('|')
    .map((each) => [each.slice(0, each.indexOf(' ')), each.slice(each.indexOf(' ') + 1)]),
)

const day = 86_400_000
/** Days from the first day of each system to 1970. The days of 1900 begin with 1. */
const daysBefore1970 = { from1900: 25_569, from1904: 24_107 } as const
/** The last day of which a date is shown: December 31, 9999. */
const lastDay = 2_958_465
const longestCode = 255

export class NumberFormats {
  readonly #locale: string
  readonly #epoch: number
  readonly #codes: ReadonlyMap<string, string>
  /** The function that formats numbers, for each number of a format. */
  readonly #made = new Map<string, (value: number) => string>()

  /** `codes`: those of the file, by their numbers. `is1904`: days are counted from 1904. */
  constructor(codes: ReadonlyMap<string, string>, is1904: boolean, locale: string) {
    this.#codes = codes
    this.#epoch = is1904 ? daysBefore1970.from1904 : daysBefore1970.from1900
    this.#locale = locale
  }

  format(value: number, id: string): string {
    let made = this.#made.get(id)
    if (!made) {
      made = this.#formatterOf(shapeOf(this.#codes.get(id) ?? builtIn[id] ?? ''))
      this.#made.set(id, made)
    }
    return made(value)
  }

  #formatterOf(shape: Shape): (value: number) => string {
    const plain = (value: number) => String(Number(value.toPrecision(12)))
    switch (shape.kind) {
      case 'plain':
        return plain
      case 'duration':
        return durationOf
      case 'date': {
        const { hasDate, hasTime, hasSeconds } = shape
        const formatter = new Intl.DateTimeFormat(this.#locale, {
          ...(hasDate && { year: 'numeric', month: '2-digit', day: '2-digit' }),
          ...(hasTime && { hour: '2-digit', minute: '2-digit', ...(hasSeconds && { second: '2-digit' }) }),
          timeZone: 'UTC',
        })
        return (value) => (value >= 0 && value <= lastDay ? formatter.format(this.#timeOf(value)) : plain(value))
      }
      case 'number': {
        const { decimals, isGrouped, isPercent, before, after } = shape
        const formatter = new Intl.NumberFormat(this.#locale, {
          minimumFractionDigits: decimals,
          maximumFractionDigits: decimals,
          useGrouping: isGrouped,
          style: isPercent ? 'percent' : 'decimal',
        })
        return (value) => before + formatter.format(value) + after
      }
    }
  }

  /** To the second. The system of 1900 has a February 29 in that year: days before it are counted one too few. */
  #timeOf(value: number): number {
    const days = this.#epoch === daysBefore1970.from1900 && value < 60 ? value + 1 : value
    return Math.round(((days - this.#epoch) * day) / 1000) * 1000
  }
}

/** Hours above 24, minutes and seconds. */
function durationOf(value: number): string {
  const seconds = Math.round(Math.abs(value) * 86_400)
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return (value < 0 ? '-' : '') + parts.map((part) => String(part).padStart(2, '0')).join(':')
}

/** What the first section of the code says, which is that of positive numbers. */
function shapeOf(code: string): Shape {
  if (code.length > longestCode) return { kind: 'plain' }
  if (/^[^;]*\[(?:h+|m+|s+)\]/i.test(code)) return { kind: 'duration' }
  // Texts in quotes, after a backslash, or of a currency; colors, conditions, and what fills the cell.
  const literals: string[] = []
  const bare = code
    .replaceAll(/"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]/g, (_, quoted?: string, escaped?: string, currency?: string) => {
      literals.push(quoted ?? escaped ?? currency ?? '')
      return `\u0001`
    })
    .replaceAll(/\[[^\]]*\]|[_*]./g, '')
    .split(';', 1)
    .join('')
  if (bare === '' || /general|@/i.test(bare)) return { kind: 'plain' }
  if (/[ymdhs]/i.test(bare)) {
    const [hasYearOrDay, hasTime] = [/[yd]/i.test(bare), /[hs]/i.test(bare)]
    return { kind: 'date', hasDate: hasYearOrDay || !hasTime, hasTime, hasSeconds: /s/i.test(bare) }
  }
  const digits = /[0#?][0#?,. ]*/.exec(bare)
  if (!digits || /[e/]/i.test(bare)) return { kind: 'plain' }
  const literal = (text: string) => text.replaceAll(/%/g, '').replaceAll('\u0001', () => literals.shift() ?? '')
  const before = literal(bare.slice(0, digits.index))
  const [, fraction = ''] = digits[0].split('.')
  return {
    kind: 'number',
    decimals: Math.min(fraction.replaceAll(/[^0#?]/g, '').length, 20),
    isGrouped: /[0#?],[0#?]/.test(digits[0]),
    isPercent: bare.includes('%'),
    before,
    after: literal(bare.slice(digits.index + digits[0].length)),
  }
}
