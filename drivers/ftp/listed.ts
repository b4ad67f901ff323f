/** Parses the lines of listings: MLSD facts (RFC 3659 §7), and the unstandardized lines of LIST. */
import { parseList, type FileInfo } from 'basic-ftp'
import { refusedName } from '../../src/base/path.js'
import type { NameCharset } from './name-charset.js'

/** One entry of a listing. */
export interface ListedEntry {
  readonly name: string
  /** 'symlink': all fields are those of the symlink itself, not of its target. */
  readonly kind: 'file' | 'folder' | 'symlink'
  readonly size: number
  /** undefined: missing, or of unknown format. */
  readonly time: Date | ListTime | undefined
  readonly mode?: number
  readonly revision?: string
  /** The line has an unknown format: the entry exists, but its name is unknown, and is one that the core leaves out. */
  readonly isUnreadable?: true
}

/** A time in the format of LIST: in the server's time zone, and for older files with a precision of one day. */
interface ListTime {
  /** Milliseconds, as if the zone were UTC. */
  readonly local: number
  readonly isDay: boolean
}

export type Line = ListedEntry | 'nothing'

const kinds: Readonly<Record<string, ListedEntry['kind']>> = {
  file: 'file',
  dir: 'folder',
  cdir: 'folder',
  pdir: 'folder',
}

/** Parses a line of MLSD in wire text: `fact=value;fact=value; name`. */
export function parseMlsdLine(line: string, names: NameCharset): Line {
  if (line.trim() === '') return 'nothing'
  const end = endOfFacts(line)
  if (end < 0) return unreadable(line)
  const facts = factsOf(line.slice(0, end))
  if (facts.get('type') === 'cdir' || facts.get('type') === 'pdir') return 'nothing'
  return withName(line.slice(end + 1), names, (name) => ofFacts(name, facts))
}

/**
 * The index of the space before the name; -1 if there is none. Each fact ends with a semicolon (RFC 3659 §7.2). Their
 * values must not hold a space, but those of some servers do (`UNIX.group=Domain Users;`).
 */
function endOfFacts(line: string): number {
  const last = line.startsWith(' ') ? -1 : line.indexOf('; ')
  const end = last < 0 ? line.indexOf(' ') : last + 1
  return end > 0 && !line.slice(0, end).includes('=') ? -1 : end
}

function unreadable(line: string): ListedEntry {
  return { name: refusedName(line), kind: 'file', size: 0, time: undefined, isUnreadable: true }
}

/**
 * Parses the reply to MLST, whose facts are on a separate line that starts with a space; undefined if it has no facts.
 */
export function parseMlstReply(name: string, reply: string): ListedEntry | undefined {
  const line = reply
    .split(/\r?\n/)
    .map((each) => each.replace(/^(250-)?\s*/, ''))
    .find((each) => /^[^\s=;]+=[^;]*;/.test(each))
  if (line === undefined) return undefined
  const end = endOfFacts(line)
  return ofFacts(name, factsOf(end < 0 ? line : line.slice(0, end)))
}

function factsOf(text: string): ReadonlyMap<string, string> {
  const facts = text.split(';').flatMap((fact): [string, string][] => {
    // The value may contain further equals signs.
    const end = fact.indexOf('=')
    return end > 0 ? [[fact.slice(0, end).trim().toLowerCase(), fact.slice(end + 1)]] : []
  })
  return new Map(facts)
}

function ofFacts(name: string, facts: ReadonlyMap<string, string>): ListedEntry | undefined {
  const type = facts.get('type') ?? 'file'
  const isSymlink = /^os\.unix=(slink|symlink)/i.test(type)
  const kind = isSymlink ? 'symlink' : kinds[type.toLowerCase()]
  if (kind === undefined) return undefined // a device, a socket
  const size = Number.parseInt(facts.get('size') ?? '0', 10)
  const time = dateOf(facts.get('modify'))
  const mode = Number.parseInt(facts.get('unix.mode') ?? '', 8)
  const unique = facts.get('unique')
  return {
    name,
    kind,
    size: Number.isSafeInteger(size) && size >= 0 ? size : 0,
    time,
    ...(Number.isInteger(mode) && { mode: mode & 0o7777 }),
    // Inode numbers are reused. Together with time and size they identify a version of the file.
    ...(unique !== undefined && { revision: `${unique}-${facts.get('modify') ?? ''}-${size}` }),
  }
}

/** Parses a time value: `YYYYMMDDHHMMSS[.sss]`, in UTC (RFC 3659 §2.3); undefined if it is malformed. */
export function dateOf(text: string | undefined): Date | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,3}))?/.exec(text?.trim() ?? '')
  if (!match) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [number, ...number[]]
  const date = new Date(
    Date.UTC(year, (month ?? 1) - 1, day, hour, minute, second, Number((match[7] ?? '0').padEnd(3, '0'))),
  )
  return Number.isNaN(date.getTime()) ? undefined : date
}

/** Formats a time value, without fractions of a second. */
export function timestampOf(date: Date): string {
  return date.toISOString().replaceAll(/[-:T]|\..*$/g, '')
}

/**
 * A mode with the mark of `ls`: of an SELinux context, extended attributes, or an ACL. The library knows the last only.
 */
const markedMode = /^([\s\d]*[bcdelfmpSs-](?:[r-][w-][xsStTL-]){2}[r-][w-][xsStTL-]?)[.@+]+/

/**
 * Parses a line of LIST in wire text, in the format of Unix or Windows servers. `now` determines the year where it is
 * omitted.
 */
export function parseListLine(line: string, names: NameCharset, now: Date): Line {
  let info: FileInfo | undefined
  try {
    ;[info] = parseList(line.replace(markedMode, '$1'))
  } catch {
    // The library throws for any other format.
    return unreadable(line)
  }
  if (!info) return 'nothing'
  const { isDirectory, isSymbolicLink, isFile, size, rawModifiedAt } = info
  if (!isDirectory && !isSymbolicLink && !isFile) return 'nothing'
  return withName(info.name, names, (name) => ({
    name,
    kind: isDirectory ? 'folder' : isSymbolicLink ? 'symlink' : 'file',
    size: Number.isSafeInteger(size) ? size : 0,
    time: listTime(rawModifiedAt, now),
  }))
}

function withName(wire: string, names: NameCharset, make: (name: string) => ListedEntry | undefined): Line {
  if (wire === '' || wire === '.' || wire === '..') return 'nothing'
  return make(names.decode(wire) ?? refusedName(wire)) ?? 'nothing'
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const dayLength = 86_400_000

/** `Nov 21 10:43`, `Feb 03 2001`, `2001-02-03 04:05`, `02-03-01 04:05PM`. */
function listTime(text: string, now: Date): ListTime | undefined {
  const named = /^(\p{L}{3})\p{L}*\.?\s+(\d{1,2})\s+(?:(\d{4})|(\d{1,2}):(\d\d))$/iu.exec(text)
  if (named) {
    const [, monthName = '', day, year, hour, minute] = named
    const month = months.indexOf(monthName.toLowerCase())
    if (month < 0) return undefined
    if (year !== undefined) return { local: Date.UTC(Number(year), month, Number(day)), isDay: true }
    const inYear = (of: number) => Date.UTC(of, month, Number(day), Number(hour), Number(minute))
    const thisYear = inYear(now.getUTCFullYear())
    // Without a year, the time is within the last months. Two days of tolerance cover any time zone.
    const local = thisYear > now.getTime() + 2 * dayLength ? inYear(now.getUTCFullYear() - 1) : thisYear
    return { local, isDay: false }
  }
  const numbered = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d)/.exec(text)
  if (numbered) {
    const [year, month, day, hour, minute] = numbered.slice(1).map(Number) as [number, number, number, number, number]
    return { local: Date.UTC(year, month - 1, day, hour, minute), isDay: false }
  }
  const windows = /^(\d\d)[-/](\d\d)[-/](\d{2,4})\s+(\d{1,2}):(\d\d)\s*([AP]M)?$/i.exec(text)
  if (!windows) return undefined
  const [month, day, year, hour, minute] = windows.slice(1, 6).map(Number) as [number, number, number, number, number]
  const half = windows[6]?.toUpperCase()
  const hours = half === undefined ? hour : (hour % 12) + (half === 'PM' ? 12 : 0)
  return {
    local: Date.UTC(year < 70 ? year + 2000 : year < 100 ? year + 1900 : year, month - 1, day, hours, minute),
    isDay: false,
  }
}

/**
 * Milliseconds of age up to which LIST shows the time of day. It omits that for older files, and for times in the
 * future.
 */
const recentAge = 182 * dayLength

/** Converts the times of LIST. The time zone of the server is derived from the exact time (MDTM) of one file. */
export class ListClock {
  /** Offset of the server's time zone from UTC in milliseconds, positive to the east; undefined until known. */
  zone: number | undefined

  /** Derives the zone from one file that is listed with the time of day. An implausible result is replaced by UTC. */
  deriveZone(shown: ListTime, exact: Date): void {
    const quarter = 15 * 60_000
    const zone = Math.round((shown.local - exact.getTime()) / quarter) * quarter
    this.zone = Math.abs(zone) <= 14 * 3_600_000 ? zone : 0
  }

  dateOf(shown: ListTime): Date {
    return new Date(shown.local - (this.zone ?? 0))
  }

  /** Rounds an exact time as a listing shows it, so that `stat` and `list` return the same time. */
  asListed(exact: Date, now: Date): Date {
    const age = now.getTime() - exact.getTime()
    const step = age > recentAge || age < -dayLength ? dayLength : 60_000
    const zone = this.zone ?? 0
    return new Date(Math.floor((exact.getTime() + zone) / step) * step - zone)
  }
}
