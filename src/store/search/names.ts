/** Indexed names and their rows. */
import type { Path } from '../../contract/path.js'

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
  return { parent: parent as Path, name, kind: kinds[kind] ?? 'file', size }
}

/** An SQL condition with its bound values. */
export interface Condition {
  readonly sql: string
  readonly values: readonly (string | number)[]
}

export const always: Condition = { sql: '1', values: [] }

export function allOf(...conditions: readonly Condition[]): Condition {
  return {
    sql: conditions.map(({ sql }) => `(${sql})`).join(' and '),
    values: conditions.flatMap(({ values }) => values),
  }
}

/** Selects all descendants of `path`. */
export function below(path: Path): Condition {
  if (path === '/') return always
  const inner = belowChildren(path)
  return { sql: `parent = ? or (${inner.sql})`, values: [path, ...inner.values] }
}

/** Selects the descendants of `path` except its children. All paths below `/a` sort from `/a/` up to `/a0`. */
export function belowChildren(path: Path): Condition {
  if (path === '/') return { sql: 'parent > ?', values: ['/'] }
  return { sql: 'parent >= ? and parent < ?', values: [`${path}/`, `${path}0`] }
}
