/** Tables whose rows are about a path of the tree. */
import type { Path } from '../../base/path.js'

/** A row that is not stored yet. */
export type New<Row> = Omit<Row, 'id'>

/** Rows that are about a path, and follow what is there. */
export interface PathRows<Row extends { readonly path: Path }> {
  all(): Promise<Row[]>
  insert(row: New<Row>): Promise<Row> // `exists` for a taken path, of grants for one that the same subject has
  update(id: number, changes: Partial<New<Row>>): Promise<Row>
  delete(id: number): Promise<boolean>
  /**
   * Moves the rows at or below `from` to `to`. A row that has the new path of a moved one, and of grants the same
   * subject, is replaced; others are unchanged.
   */
  move(from: Path, to: Path): Promise<void>
  /** After what was at `path` and below it was removed: marks the rows, or leaves them, as each table says. */
  markRemoved(path: Path): Promise<void>
}
