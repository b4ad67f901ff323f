/** Indexed names and their rows. */
import { nameOf, parentOf, type Path } from '../../base/path.js'
import { foldName } from '../../base/folding.js'

/** 'symlink to folder': a symlink to a folder. It is found as a folder; its contents are not indexed. */
export type IndexedKind = 'file' | 'folder' | 'symlink to folder'

/** One entry of the index. `parent` is a path of the whole tree; `size` is in bytes. */
export interface IndexedName {
  readonly parent: Path
  readonly name: string
  readonly kind: IndexedKind
  readonly size: number
}

export const kindNumbers: Readonly<Record<IndexedKind, number>> = { file: 0, folder: 1, 'symlink to folder': 2 }

const kinds: readonly IndexedKind[] = ['file', 'folder', 'symlink to folder']

export interface NameColumns {
  readonly parent: string
  readonly name: string
  readonly kind: number
  readonly size: number
}

/** Converts a row; its values are not validated. */
export function indexedName({ parent, name, kind, size }: NameColumns): IndexedName {
  return { parent: parent as Path, name, kind: kindOfNumber(kind) ?? 'file', size }
}

export function kindOfNumber(kind: number): IndexedKind | undefined {
  return kinds[kind]
}

/** The row of a name. Sizes that are no sizes of files are 0. */
export function nameColumns({ parent, name, kind, size }: IndexedName): NameColumns & { folded: string | null } {
  const bytes = kind === 'file' && Number.isSafeInteger(size) && size >= 0 ? size : 0
  return { parent, name, folded: foldedOf(name), kind: kindNumbers[kind], size: bytes }
}

/** The folded name; null if it equals the name, as for most names. */
export function foldedOf(name: string): string | null {
  const folded = foldName(name)
  return folded === name ? null : folded
}

/** The result of a raw query: an array with the driver of SQLite, an object with that of PostgreSQL. */
type RawResult<Row> = readonly Row[] | { readonly rows: readonly Row[] }

export function rowsOf<Row>(result: RawResult<Row>): readonly Row[] {
  return 'rows' in result ? result.rows : result
}

/** An SQL condition with its bound values. Its columns are those of `NameColumns`, in both engines. */
export interface Condition {
  readonly sql: string
  readonly values: readonly (string | number)[]
}

export const always: Condition = { sql: 'true', values: [] }

export function allOf(...conditions: readonly Condition[]): Condition {
  return {
    sql: conditions.map(({ sql }) => `(${sql})`).join(' and '),
    values: conditions.flatMap(({ values }) => values),
  }
}

export function not({ sql, values }: Condition): Condition {
  return { sql: `not (${sql})`, values }
}

/** Selects the entry at `path`. */
export function at(path: Path): Condition {
  return { sql: 'parent = ? and name = ?', values: [parentOf(path), nameOf(path)] }
}

/** Selects all descendants of `path`. */
export function below(path: Path): Condition {
  if (path === '/') return always
  const inner = belowChildren(path)
  return { sql: `parent = ? or (${inner.sql})`, values: [path, ...inner.values] }
}

/** Selects the entry at `path` and all its descendants. */
export function atOrBelow(path: Path): Condition {
  const [own, inner] = [at(path), below(path)]
  return { sql: `(${own.sql}) or ${inner.sql}`, values: [...own.values, ...inner.values] }
}

/** Selects the descendants of `path` except its children. All paths below `/a` sort from `/a/` up to `/a0`. */
export function belowChildren(path: Path): Condition {
  if (path === '/') return { sql: 'parent > ?', values: ['/'] }
  return { sql: 'parent >= ? and parent < ?', values: [`${path}/`, `${path}0`] }
}
