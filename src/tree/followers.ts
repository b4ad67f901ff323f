/**
 * All rows in memory that follow a folder which is moved or gets another spelling: folder rules, grants and shares.
 * While it is moved item by item, they apply at both paths in every process.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { untilAborted } from '../base/cancellation.js'
import type { Log } from '../base/log.js'
import type { Path } from '../base/path.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { MoveId, PathMirror } from './path-mirror.js'

/** The methods that all mirrors have. Each function here calls the method of `PathMirror` on all of them. */
type Mirror = Pick<
  PathMirror<{ readonly id: number; readonly path: Path }>,
  | 'hasWithin'
  | 'pathsWithin'
  | 'duringMove'
  | 'setMovesElsewhere'
  | 'updateSpelling'
  | 'move'
  | 'markRemoved'
  | 'reload'
>

/** The moves of other processes, and the table by which they learn of a move of this one. */
interface Others {
  readonly moves: Store['moves']
  readonly ofOthers: OfOthers
  readonly log: Pick<Log, 'warn'>
}

/** Milliseconds after which every other process has read the stored rows: twice the longest delay of a notice. */
const learningTime = 500

export class Followers implements Omit<Mirror, 'setMovesElsewhere'> {
  /** Numbers of the last reload that was started, and of the last one whose moves were applied. */
  #lastStarted = 0
  #lastApplied = 0

  /** `others`: undefined if this process has the database for itself. */
  constructor(
    private readonly mirrors: readonly Mirror[],
    private readonly others?: Others,
  ) {}

  hasWithin(path: Path): boolean {
    return this.mirrors.some((mirror) => mirror.hasWithin(path))
  }

  pathsWithin(path: Path): readonly Path[] {
    return [...new Set(this.mirrors.flatMap((mirror) => mirror.pathsWithin(path)))]
  }

  duringMove(from: Path, to: Path, moveId?: MoveId): (hasMoved: boolean) => void {
    const ends = this.mirrors.map((mirror) => mirror.duringMove(from, to, moveId))
    return (hasMoved) => {
      for (const end of ends) end(hasMoved)
    }
  }

  /**
   * Begins the move item by item `moveId`, as `duringMove` does, in the other processes too, which know of it when this
   * resolves. Rejects with `aborted`, and as the database does. No row applies at `to` then.
   */
  async duringMoveByItems(
    from: Path,
    to: Path,
    moveId: MoveId,
    signal: AbortSignal,
  ): Promise<(hasMoved: boolean) => Promise<void>> {
    await this.updateSpelling(from)
    const endElsewhere = await this.#tellOthers({ from, to })
    const endHere = this.duringMove(from, to, moveId)
    const end = async (hasMoved: boolean) => {
      endHere(hasMoved)
      // If the rows could not be stored at the new path, they apply there until this process ends.
      if (!hasMoved) await endElsewhere?.()
    }
    if (endElsewhere === undefined) return end
    try {
      await untilAborted(sleep(learningTime), signal)
      return end
    } catch (error) {
      await end(false)
      throw error
    }
  }

  /** Stores the move for other processes. Undefined without a need: most moves are of what has no rows. */
  async #tellOthers(move: Parameters<Others['moves']['begin']>[0]): Promise<(() => Promise<void>) | undefined> {
    const { others } = this
    if (others === undefined || !this.hasWithin(move.from)) return undefined
    const id = await others.ofOthers(() => others.moves.begin(move))
    if (id === undefined) return undefined
    return () =>
      others.moves
        .end(id)
        .catch((error: unknown) => others.log.warn({ err: error, path: move.from }, 'the end of a move was not stored'))
  }

  async updateSpelling(path: Path): Promise<void> {
    for (const mirror of this.mirrors) await mirror.updateSpelling(path)
  }

  async move(from: Path, to: Path): Promise<void> {
    for (const mirror of this.mirrors) await mirror.move(from, to)
  }

  async markRemoved(top: Path, removed: readonly Path[]): Promise<void> {
    for (const mirror of this.mirrors) await mirror.markRemoved(top, removed)
  }

  /** Reads all rows, and the moves of other processes. */
  async reload(): Promise<void> {
    const number = ++this.#lastStarted
    // Before the rows: those of a move that has ended since are at the new path already.
    const { others } = this
    const moves = await others?.ofOthers(() => others.moves.ofOthers())
    for (const mirror of this.mirrors) await mirror.reload()
    // As in the mirrors: the reload that started last has the newest ones.
    if (moves === undefined || number < this.#lastApplied) return
    this.#lastApplied = number
    for (const mirror of this.mirrors) mirror.setMovesElsewhere(moves)
  }
}
