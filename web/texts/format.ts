/** Numbers, sizes, times, durations, lists and plurals in the language in use. */
import { computed } from '@preact/signals'
import { languageInUse } from './language.ts'

const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte', 'petabyte'] as const
const durationUnits = ['hour', 'minute', 'second'] as const

function formatsOf({ locale, language }: typeof languageInUse.value) {
  const unitFormat = (unit: string, unitDisplay: 'long' | 'short') =>
    new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay, maximumFractionDigits: 1 })
  return {
    sizes: units.map((unit) => unitFormat(unit, unit === 'byte' ? 'long' : 'short')),
    speeds: units.map((unit) => unitFormat(`${unit}-per-second`, unit === 'byte' ? 'long' : 'short')),
    number: new Intl.NumberFormat(locale),
    percent: new Intl.NumberFormat(locale, { style: 'percent' }),
    plural: new Intl.PluralRules(language),
    list: new Intl.ListFormat(locale, { style: 'narrow' }),
    time: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }),
    preciseTime: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium' }),
    minute: new Intl.DateTimeFormat(locale, { timeStyle: 'short' }),
    utcDay: new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' }),
    durations: durationUnits.map((unit) => unitFormat(unit, 'long')),
    parts: new Intl.ListFormat(locale, { type: 'unit', style: 'narrow' }),
    names: new Intl.Collator(locale, { numeric: true }),
    languages: new Intl.DisplayNames(language, { type: 'language' }),
  }
}

/** Made once for each language in use: it takes longer than the formatting. */
const made = computed(() => formatsOf(languageInUse.value))

/** A number of bytes in the largest unit (powers of 1000) in which it is at least 1. */
export function formatSize(bytes: number): string {
  return formatBytes(bytes, made.value.sizes)
}

/** A speed in bytes per second, in the same units. */
export function formatSpeed(bytesPerSecond: number): string {
  return formatBytes(bytesPerSecond, made.value.speeds)
}

function formatBytes(bytes: number, formats: readonly Intl.NumberFormat[]): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1)
  return formats[power]?.format(bytes / 1000 ** power) ?? String(bytes)
}

export function number(value: number): string {
  return made.value.number.format(value)
}

/** `share`: 1 is all. */
export function percent(share: number): string {
  return made.value.percent.format(share)
}

type PluralForms = { readonly other: string } & Readonly<Partial<Record<Intl.LDMLPluralRule, string>>>

/** The form for this number, by the rules of the language (CLDR). Its `#` stand for the number. */
export function plural(count: number, forms: PluralForms): string {
  return (forms[made.value.plural.select(count)] ?? forms.other).replaceAll('#', number(count))
}

/** Texts, of which only those that are not empty are shown. */
export type Items = readonly (string | false | null | undefined)[]

/** `ann, bob, carl`: things of one kind. */
export function list(items: Items): string {
  return made.value.list.format(items.flatMap((item) => item || []))
}

/** A time in RFC 3339 format. Empty if it is the API's value for an unknown time. */
export function formatTime(time: string, format = made.value.time): string {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1000 ? '' : format.format(date)
}

export function formatTimeWithSeconds(time: string): string {
  return formatTime(time, made.value.preciseTime)
}

/** The time of a day, without the day. */
export function formatMinute(time: string): string {
  return formatTime(time, made.value.minute)
}

/** The day of the time in UTC. */
export function formatUtcDay(time: string): string {
  return formatTime(time, made.value.utcDay)
}

/** A duration in seconds, rounded up, in its two largest units. */
export function formatDuration(seconds: number): string {
  const { durations, parts } = made.value
  const total = Math.max(0, Math.ceil(seconds))
  const values = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60]
  const first = values.findIndex((value) => value > 0)
  const at = first < 0 ? values.length - 1 : first
  const texts = durations.map((format, index) => format.format(values[index] ?? 0))
  return parts.format(texts.filter((_, index) => index === at || (index === at + 1 && (values[index] ?? 0) > 0)))
}

/** The order of two names for people who read the language, with numbers by their value. */
export function compareNames(one: string, other: string): number {
  return made.value.names.compare(one, other)
}

/** The name of a language (BCP 47) in the language in use; the text itself if it is none. */
export function languageName(tag: string): string {
  try {
    return made.value.languages.of(tag) ?? tag
  } catch {
    return tag
  }
}
