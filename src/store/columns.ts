/** How the fields of a row lie in the columns of its table, in types that every SQL database has. */
import type { Path } from '../path.js'

export type Value = string | number | boolean | Buffer | null
/** A row as the database driver gives it. */
export type Stored = Record<string, unknown>

export interface Column<T> {
  readonly name: string
  read(value: unknown): T
  write(value: T): Value
}
export type Columns<Row> = { readonly [Field in keyof Row]-?: Column<Row[Field]> }

/** One of a closed set of texts, or any text. What was written is trusted to be what is read. */
export function text<T extends string = string>(name: string): Column<T> {
  return { name, read: (value) => value as T, write: (value) => value }
}

/** Only clean paths are ever written. */
export function path(name: string): Column<Path> {
  return text<Path>(name)
}

/** 64-bit columns come back as text from some databases. */
export function integer<T extends number = number>(name: string): Column<T> {
  return { name, read: (value) => Number(value) as T, write: (value) => value }
}

/** 0 and 1 in databases that have no truth values. */
export function truth(name: string): Column<boolean> {
  return { name, read: Boolean, write: (value) => value }
}

export function bytes(name: string): Column<Buffer> {
  return { name, read: (value) => value as Buffer, write: (value) => value }
}

/** Milliseconds since 1970. */
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

/** A list of some of a closed set of words, separated by commas. */
export function words<T extends string>(name: string): Column<readonly T[]> {
  return {
    name,
    read: (value) => (value as string).split(',').filter((word) => word !== '') as T[],
    write: (value) => value.join(','),
  }
}

/** A list of numbers as JSON text. */
export function numbers(name: string): Column<readonly number[]> {
  return { name, read: (value) => JSON.parse(value as string) as number[], write: (value) => JSON.stringify(value) }
}

export function readRow<Row extends object>(columns: Columns<Row>, stored: Stored): Row {
  const row: Partial<Row> = {}
  for (const field in columns) row[field] = columns[field].read(stored[columns[field].name])
  return row as Row
}

/** The columns of those fields that `row` has. */
export function writeRow<Row extends object>(columns: Columns<Row>, row: Partial<Row>): Record<string, Value> {
  const stored: Record<string, Value> = {}
  for (const field in columns) {
    const value = row[field]
    if (field in row) stored[columns[field].name] = columns[field].write(value as Row[typeof field])
  }
  return stored
}
