/**
 * Fields of JSON answers, read leniently: some servers send numbers as texts, flags as numbers, and leave out what is
 * empty.
 */

/**
 * Like `JSON.parse`, but integers of more than 15 digits become texts: some servers send ids as numbers, which would
 * lose digits. Throws `SyntaxError`.
 */
export function parseJson(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text)
  const exact = text.replace(stringOrNumber, (token) => (/^-?\d{16,}$/.test(token) ? `"${token}"` : token))
  return JSON.parse(exact)
}

const stringOrNumber = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs

/** The value that the keys lead to; undefined if there is none. */
export function field(value: unknown, ...keys: readonly string[]): unknown {
  let found = value
  for (const key of keys) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Readonly<Record<string, unknown>>)[key]
  }
  return found
}

/** A text or a number as a text; otherwise the empty text. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''
}

/** A finite number, also from a text; otherwise undefined. */
export function numberOf(value: unknown): number | undefined {
  const text = textOf(value).trim()
  const number = text === '' ? Number.NaN : Number(text)
  return Number.isFinite(number) ? number : undefined
}

/** A number of bytes, also from a text; 0 for anything else. */
export function bytesOf(value: unknown): number {
  const number = numberOf(value) ?? 0
  return Number.isSafeInteger(number) && number > 0 ? number : 0
}

/** Whether it is true, a number other than 0, or the text of one of these. */
export function flagOf(value: unknown): boolean {
  return value === true || value === 'true' || (numberOf(value) ?? 0) !== 0
}

/** A list; anything else is an empty one. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/** A time: RFC 3339, or milliseconds or seconds since 1970. Undefined if it is unknown or before 1970. */
export function timeOf(value: unknown, unit: 'milliseconds' | 'seconds' = 'milliseconds'): Date | undefined {
  const number = numberOf(value)
  const time = number === undefined ? Date.parse(textOf(value)) : number * (unit === 'seconds' ? 1000 : 1)
  return time > 0 && time <= 8.64e15 ? new Date(time) : undefined
}
