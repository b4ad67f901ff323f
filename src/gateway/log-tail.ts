/** The last lines of the log, in memory, for admins. */

/** Levels of the log, lowest first, with the numbers of its lines. */
export const logLevels = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 } as const
export type LogLevel = keyof typeof logLevels

interface LoggedLine {
  /** Counts the lines of this process, from 1. */
  readonly id: number
  readonly level: LogLevel
  /** The time of the line in RFC 3339 format. */
  readonly time: string
  readonly message: string
  /** The details of the line. */
  readonly fields: Readonly<Record<string, unknown>>
}

interface HeldLine {
  readonly id: number
  readonly level: LogLevel
  /** The line as it was logged. */
  readonly text: string
}

/** Maximum lines, characters of all lines, and characters of a line whose details are held. */
const maxLines = 1000
const maxSize = 512 * 1024
const maxLineSize = 16 * 1024
/** Maximum characters of the message of a longer line. */
const maxMessageLength = 1000

/** Holds the last lines, as JSON text, because they are rarely read. */
export class LogTail {
  #lines: HeldLine[] = []
  #size = 0
  #lastId = 0

  /** The id of the latest line; 0 before the first. */
  get lastId(): number {
    return this.#lastId
  }

  /** Adds a line of the log: a JSON object with `level`, `time` and `msg`. */
  add(line: string): void {
    const text = line.length > maxLineSize ? withoutDetails(line) : line
    const level = Number(/^\{"level":(\d+)/.exec(text)?.[1])
    this.#lastId += 1
    this.#lines.push({ id: this.#lastId, level: nameOf(level), text })
    this.#size += text.length
    let dropped = 0
    while (this.#lines.length - dropped > maxLines || this.#size > maxSize) {
      this.#size -= this.#lines[dropped]?.text.length ?? 0
      dropped += 1
    }
    if (dropped > 0) this.#lines = this.#lines.slice(dropped)
  }

  /**
   * The held lines after the one with this id, of this level or a higher one, in their order. All of them if the id is
   * from an earlier process, whose lines are gone.
   */
  after(id: number, lowest: LogLevel): readonly LoggedLine[] {
    const first = id > this.#lastId ? 0 : id
    return this.#lines.filter((line) => line.id > first && logLevels[line.level] >= logLevels[lowest]).map(parsed)
  }
}

/** A line as pino writes it. */
interface JsonLine {
  readonly level: number
  readonly time: string
  /** Absent in lines without a message. */
  readonly msg?: string
}

function parsed({ id, level, text }: HeldLine): LoggedLine {
  const { level: _level, time, msg = '', ...fields } = JSON.parse(text) as JsonLine
  return { id, level, time, message: msg, fields }
}

function withoutDetails(line: string): string {
  const { level, time, msg = '' } = JSON.parse(line) as JsonLine
  return JSON.stringify({ level, time, msg: msg.slice(0, maxMessageLength) })
}

function nameOf(level: number): LogLevel {
  const names = Object.keys(logLevels) as LogLevel[]
  return names.find((name) => logLevels[name] === level) ?? 'info'
}
