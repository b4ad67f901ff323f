/** Numbers, sizes, times, durations, lists and plurals in the language in use. */
import { language, locale } from './language.ts'

const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte', 'petabyte'] as const

const sizeFormats = formatsOf(units)
const speedFormats = formatsOf(units.map((unit) => `${unit}-per-second`))

function formatsOf(units: readonly string[]): readonly Intl.NumberFormat[] {
  return units.map(
    (unit) =>
      new Intl.NumberFormat(locale, {
        style: 'unit',
        unit,
        unitDisplay: unit.startsWith('byte') ? 'long' : 'short',
        maximumFractionDigits: 1,
      }),
  )
}

/** A number of bytes in the largest unit (powers of 1000) in which it is at least 1. */
export function formatSize(bytes: number): string {
  return formatBytes(bytes, sizeFormats)
}

/** A speed in bytes per second, in the same units. */
export function formatSpeed(bytesPerSecond: number): string {
  return formatBytes(bytesPerSecond, speedFormats)
}

function formatBytes(bytes: number, formats: readonly Intl.NumberFormat[]): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1)
  return formats[power]?.format(bytes / 1000 ** power) ?? String(bytes)
}

const numberFormat = new Intl.NumberFormat(locale)
const percentFormat = new Intl.NumberFormat(locale, { style: 'percent' })

export function number(value: number): string {
  return numberFormat.format(value)
}

/** `share`: 1 is all. */
export function percent(share: number): string {
  return percentFormat.format(share)
}

const pluralRules = new Intl.PluralRules(language)

type PluralForms = { readonly other: string } & Readonly<Partial<Record<Intl.LDMLPluralRule, string>>>

/** The form for this number, by the rules of the language (CLDR). Its `#` stand for the number. */
export function plural(count: number, forms: PluralForms): string {
  return (forms[pluralRules.select(count)] ?? forms.other).replaceAll('#', number(count))
}

const listFormat = new Intl.ListFormat(locale, { style: 'narrow' })

/** `ann, bob, carl`. Only the items that are texts, and not empty. */
export function list(items: readonly (string | false | null | undefined)[]): string {
  return listFormat.format(items.flatMap((item) => item || []))
}

const timeFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const preciseFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' })
const minuteFormat = new Intl.DateTimeFormat(locale, { timeStyle: 'short' })
const utcDayFormat = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' })

/** A time in RFC 3339 format. Empty if it is the API's value for an unknown time. */
export function formatTime(time: string, format = timeFormat): string {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1000 ? '' : format.format(date)
}

export function formatTimeWithSeconds(time: string): string {
  return formatTime(time, preciseFormat)
}

/** The time of a day, without the day. */
export function formatMinute(time: string): string {
  return formatTime(time, minuteFormat)
}

/** The day of the time in UTC. */
export function formatUtcDay(time: string): string {
  return formatTime(time, utcDayFormat)
}

const durationUnits = ['hour', 'minute', 'second'] as const
const durationFormats = durationUnits.map(
  (unit) => new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'long' }),
)
const partsFormat = new Intl.ListFormat(locale, { type: 'unit', style: 'narrow' })

/** A duration in seconds, rounded up, in its two largest units. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.ceil(seconds))
  const values = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60]
  const first = values.findIndex((value) => value > 0)
  const at = first < 0 ? values.length - 1 : first
  const parts = durationFormats.map((format, index) => format.format(values[index] ?? 0))
  return partsFormat.format(parts.filter((_, index) => index === at || (index === at + 1 && (values[index] ?? 0) > 0)))
}

/** Orders names as people who read the language do, with numbers by their value. */
export const byName = new Intl.Collator(locale, { numeric: true })
