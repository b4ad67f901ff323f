/** What the index knows of one name, and how it lies in its row. */
import type { Path } from '../../path.js'

/** A linked folder is shown as a folder, and nothing below it is in the index. */
export type IndexedKind = 'file' | 'folder' | 'linked folder'

/** Paths are of the whole tree. */
export interface IndexedName {
  readonly parent: Path
  readonly name: string
  readonly kind: IndexedKind
  readonly size: number
}

export const kindNumbers: Readonly<Record<IndexedKind, number>> = { file: 0, folder: 1, 'linked folder': 2 }

const kinds: readonly IndexedKind[] = ['file', 'folder', 'linked folder']

export interface NameColumns {
  readonly parent: string
  readonly name: string
  readonly kind: number
  readonly size: number
}

/** What was written is trusted to be what is read. */
export function indexedName({ parent, name, kind, size }: NameColumns): IndexedName {
  return { parent: parent as Path, name, kind: kinds[kind] ?? 'file', size }
}

/** A condition in SQL, with its values. */
export interface Condition {
  readonly sql: string
  readonly values: readonly (string | number)[]
}

export const always: Condition = { sql: '1', values: [] }

export function both(...conditions: readonly Condition[]): Condition {
  return {
    sql: conditions.map(({ sql }) => `(${sql})`).join(' and '),
    values: conditions.flatMap(({ values }) => values),
  }
}

/** Names that lie strictly below `path`, whatever is between. */
export function below(path: Path): Condition {
  if (path === '/') return always
  const inner = deeperThan(path)
  return { sql: `parent = ? or (${inner.sql})`, values: [path, ...inner.values] }
}

/** Names that lie below `path`, but not directly in it. Whatever is below `/a` sorts from `/a/` up to `/a0`. */
export function deeperThan(path: Path): Condition {
  if (path === '/') return { sql: 'parent > ?', values: ['/'] }
  return { sql: 'parent >= ? and parent < ?', values: [`${path}/`, `${path}0`] }
}
