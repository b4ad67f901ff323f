/** Sizes, times and durations in the language of the browser. */

const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte', 'terabyte', 'petabyte'] as const

const sizeFormats = formatsOf(units)
const speedFormats = formatsOf(units.map((unit) => `${unit}-per-second`))

function formatsOf(units: readonly string[]): readonly Intl.NumberFormat[] {
  return units.map(
    (unit) =>
      new Intl.NumberFormat(undefined, {
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

const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const preciseFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

/** A time in RFC 3339 format. Empty if it is the API's value for an unknown time. */
export function formatTime(time: string, format = timeFormat): string {
  const date = new Date(time)
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1000 ? '' : format.format(date)
}

export function formatTimeWithSeconds(time: string): string {
  return formatTime(time, preciseFormat)
}

/** A duration in seconds, rounded up, in its two largest units. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.ceil(seconds))
  const parts: [number, 'hour' | 'minute' | 'second'][] = [
    [Math.floor(total / 3600), 'hour'],
    [Math.floor(total / 60) % 60, 'minute'],
    [total % 60, 'second'],
  ]
  const first = parts.findIndex(([value]) => value > 0)
  const shown = first < 0 ? parts.slice(-1) : parts.slice(first, first + 2).filter(([value]) => value > 0)
  return shown
    .map(([value, unit]) =>
      new Intl.NumberFormat(undefined, { style: 'unit', unit, unitDisplay: 'long' }).format(value),
    )
    .join(' ')
}
