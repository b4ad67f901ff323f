/** What one line of a listing tells: MLSD facts (RFC 3659 §7), or the lines for people that LIST sends. */
import { parseList, type FileInfo } from 'basic-ftp'
import { refusedName } from '../../src/path.js'
import type { NameEncoding } from './name-encoding.js'

export interface Listed {
  readonly name: string
  /** 'link': of the link itself; what it leads to is to be asked for. */
  readonly kind: 'file' | 'folder' | 'link'
  readonly size: number
  /** undefined: not told, or not in a form that is known. */
  readonly time: Date | ListTime | undefined
  readonly mode?: number
  readonly revision?: string
}

/** A time as LIST shows it: of the server's own zone, and of files that are not new only the day. */
export interface ListTime {
  /** Milliseconds, as if the zone were UTC. */
  readonly local: number
  readonly isDay: boolean
}

export type Line = Listed | 'nothing'

const kinds: Readonly<Record<string, Listed['kind']>> = { file: 'file', dir: 'folder', cdir: 'folder', pdir: 'folder' }

/** A line of MLSD in wire text: `fact=value;fact=value; name`. */
export function machineLine(line: string, names: NameEncoding): Line {
  const space = line.indexOf(' ')
  if (space < 0) return 'nothing'
  const facts = factsOf(line.slice(0, space))
  if (facts.get('type') === 'cdir' || facts.get('type') === 'pdir') return 'nothing'
  return withName(line.slice(space + 1), names, (name) => ofFacts(name, facts))
}

/** Of the answer to MLST, where facts stand on a line of their own that starts with a space; undefined where there are none. */
export function machineFacts(name: string, answer: string): Listed | undefined {
  const line = answer
    .split(/\r?\n/)
    .find((each) => /^\s*[^\s=]+=[^\s]*;/.test(each) || /^250-\s*[^\s=]+=\S*;/.test(each))
  if (line === undefined) return undefined
  return ofFacts(name, factsOf(line.replace(/^(250-)?\s*/, '').split(' ', 1)[0] ?? ''))
}

function factsOf(text: string): ReadonlyMap<string, string> {
  const facts = text.split(';').flatMap((fact): [string, string][] => {
    // Values have equals signs of their own.
    const end = fact.indexOf('=')
    return end > 0 ? [[fact.slice(0, end).trim().toLowerCase(), fact.slice(end + 1)]] : []
  })
  return new Map(facts)
}

function ofFacts(name: string, facts: ReadonlyMap<string, string>): Listed | undefined {
  const type = facts.get('type') ?? 'file'
  const isLink = /^os\.unix=(slink|symlink)/i.test(type)
  const kind = isLink ? 'link' : kinds[type.toLowerCase()]
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
    // The number of an inode comes again; with time and size, only that of a file that was there before.
    ...(unique !== undefined && { revision: `${unique}-${facts.get('modify') ?? ''}-${size}` }),
  }
}

/** `YYYYMMDDHHMMSS[.sss]`, in UTC (RFC 3659 §2.3); undefined where it is none. */
export function dateOf(text: string | undefined): Date | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,3}))?/.exec(text?.trim() ?? '')
  if (!match) return undefined
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as [number, ...number[]]
  const date = new Date(
    Date.UTC(year, (month ?? 1) - 1, day, hour, minute, second, Number((match[7] ?? '0').padEnd(3, '0'))),
  )
  return Number.isNaN(date.getTime()) ? undefined : date
}

/** The same of a moment, without parts of a second. */
export function timestampOf(date: Date): string {
  return date.toISOString().replaceAll(/[-:T]|\..*$/g, '')
}

/** A line of LIST in wire text, as servers on Unix and on Windows write it. */
export function humanLine(line: string, names: NameEncoding, now: Date): Line {
  let info: FileInfo | undefined
  try {
    ;[info] = parseList(line)
  } catch {
    // The library's word for a line that is neither: something is there, and its name is not known.
    return { name: refusedName(line), kind: 'file', size: 0, time: undefined }
  }
  if (!info) return 'nothing'
  const { isDirectory, isSymbolicLink, isFile, size, rawModifiedAt } = info
  if (!isDirectory && !isSymbolicLink && !isFile) return 'nothing'
  return withName(info.name, names, (name) => ({
    name,
    kind: isDirectory ? 'folder' : isSymbolicLink ? 'link' : 'file',
    size: Number.isSafeInteger(size) ? size : 0,
    time: listTime(rawModifiedAt, now),
  }))
}

function withName(wire: string, names: NameEncoding, make: (name: string) => Listed | undefined): Line {
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
    // Without a year it is of the last months, whatever the zone.
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

/** Older files are shown by the day alone, as are those of the future. */
const newFor = 182 * dayLength

/** Times of a server that only has LIST: its zone is what a file's exact time (MDTM) says, once there was one to ask for. */
export class ListClock {
  /** Milliseconds that the server's clock is ahead of UTC; undefined until it is known. */
  zone: number | undefined

  /** Learns the zone from one file that is shown to the minute. */
  learn(shown: ListTime, exact: Date): void {
    const quarter = 15 * 60_000
    const zone = Math.round((shown.local - exact.getTime()) / quarter) * quarter
    this.zone = Math.abs(zone) <= 14 * 3_600_000 ? zone : 0
  }

  dateOf(shown: ListTime): Date {
    return new Date(shown.local - (this.zone ?? 0))
  }

  /** An exact time as a listing would show it: whoever asks for one file has to be told the same as who lists its folder. */
  asListed(exact: Date, now: Date): Date {
    const age = now.getTime() - exact.getTime()
    const step = age > newFor || age < -dayLength ? dayLength : 60_000
    const zone = this.zone ?? 0
    return new Date(Math.floor((exact.getTime() + zone) / step) * step - zone)
  }
}
