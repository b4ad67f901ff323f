/** Moves that run item by item. */
import type { Path } from '../../base/path.js'
import type { New } from './path-rows.js'

/**
 * A move of a folder that a process makes item by item. Rules, grants and shares are stored at the old path until it
 * ends, and apply at both. Paths are of the whole tree.
 */
export interface RunningMove {
  readonly id: number
  readonly from: Path
  readonly to: Path
}

/** Moves item by item of what has rules, grants or shares. The other nodes learn of each before its first item. */
export interface MoveRows {
  ofOthers(): Promise<RunningMove[]>
  /** Resolves to the id. */
  begin(move: New<RunningMove>): Promise<number>
  end(id: number): Promise<void>
}
