/** Where the user has read to in books, kept in this browser. */
import { placeOf, type Place } from '../preview/messages.ts'

const stored = 'reading places'
/** Books whose places are kept: those that were read last. */
const most = 50

function read(): [string, unknown][] {
  try {
    const entries: unknown = JSON.parse(localStorage.getItem(stored) ?? '[]')
    return Array.isArray(entries)
      ? ((entries as unknown[]).filter((each) => Array.isArray(each)) as [string, unknown][])
      : []
  } catch {
    return []
  }
}

export function readingPlace(path: string): Place | undefined {
  return placeOf(read().find(([each]) => each === path)?.[1])
}

export function keepReadingPlace(path: string, place: Place): void {
  const others = read().filter(([each]) => each !== path)
  localStorage.setItem(stored, JSON.stringify([[path, place], ...others].slice(0, most)))
}
