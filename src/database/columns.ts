/** Maps the fields of a row to the columns of its table, in types that every SQL database has. */
import type { Path } from '../base/path.js'

type Value = string | number | boolean | Buffer | null
/** A row as the database driver returns it. */
export type StoredRow = Record<string, unknown>

interface Column<T> {
  readonly name: string
  read(value: unknown): T
  write(value: T): Value
}
export type Columns<Row> = { readonly [Field in keyof Row]-?: Column<Row[Field]> }

/** Any text, or one of a closed set. Values are not validated when they are read. */
export function text<T extends string = string>(name: string): Column<T> {
  return { name, read: (value) => value as T, write: (value) => value }
}

/** A word of a closed set. `storedAs`: the stored words of those that are stored as another word. */
export function word<T extends string>(name: string, storedAs: Readonly<Partial<Record<T, string>>>): Column<T> {
  const words = new Map(Object.entries(storedAs).map(([own, stored]) => [stored, own as T]))
  return { name, read: (value) => words.get(value) ?? (value as T), write: (value) => storedAs[value] ?? value }
}

/** A word of a closed set, stored as its index. Another number is read as the first word. */
export function numbered<T extends string>(name: string, words: readonly [T, ...T[]]): Column<T> {
  return { name, read: (value) => words[Number(value)] ?? words[0], write: (value) => words.indexOf(value) }
}

/** A path. Not validated when it is read: only clean paths are written. */
export function path(name: string): Column<Path> {
  return text<Path>(name)
}

/** An integer. Some database drivers return 64-bit columns as text. */
export function integer<T extends number = number>(name: string): Column<T> {
  return { name, read: (value) => Number(value) as T, write: (value) => value }
}

/** A boolean; 0 or 1 in databases without that type. */
export function bool(name: string): Column<boolean> {
  return { name, read: Boolean, write: (value) => value }
}

export function bytes(name: string): Column<Buffer> {
  return { name, read: (value) => value as Buffer, write: (value) => value }
}

/** A time, stored as milliseconds since 1970. */
export function time(name: string): Column<Date> {
  return { name, read: (value) => new Date(Number(value)), write: (value) => value.getTime() }
}

export function optional<T>(column: Column<T>): Column<T | undefined> {
  return {
    name: column.name,
    read: (value) => (value === null || value === undefined ? undefined : column.read(value)),
    write: (value) => (value === undefined ? null : column.write(value)),
  }
}

/** A list of words, stored as comma-separated text. */
export function wordList<T extends string = string>(name: string): Column<readonly T[]> {
  return {
    name,
    read: (value) => (value as string).split(',').filter((word): word is T => word !== ''),
    write: (value) => value.join(','),
  }
}

/** A value that is stored as JSON text. */
export function json<T = unknown>(name: string): Column<T> {
  return { name, read: (value) => JSON.parse(value as string) as T, write: (value) => JSON.stringify(value) }
}

export function readRow<Row extends object>(columns: Columns<Row>, stored: StoredRow): Row {
  const row: Partial<Row> = {}
  for (const field in columns) row[field] = columns[field].read(stored[columns[field].name])
  return row as Row
}

/** The columns of the fields that are present in `row`. */
export function writeRow<Row extends object>(columns: Columns<Row>, row: Partial<Row>): Record<string, Value> {
  const stored: Record<string, Value> = {}
  for (const field in columns) {
    const value = row[field]
    if (field in row) stored[columns[field].name] = columns[field].write(value as Row[typeof field])
  }
  return stored
}
