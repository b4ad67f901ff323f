/**
 * Rows about paths of the whole tree, mirrored in memory, which follow a folder that is moved or gets another spelling.
 * What a move does to the stored rows is written in `src/database/path-table.ts`.
 */
import { undefinedIfMissing } from '../base/errors.js'
import { childOf, isWithin, segmentsOf, selfAndAncestors, under, within, type Path } from '../base/path.js'
import type { RunningMove } from '../database/tables/moves.js'
import type { PathRows } from '../database/tables/path-rows.js'

/**
 * Identifies a move item by item in this process while it runs. The rows of the folder apply at the target too, for
 * everybody but the move itself: it was permitted as a whole, and a grant that it brings along must not refuse its next
 * item. What decides for the move has its id (`Access.forMove`).
 */
export type MoveId = symbol

/** A move of a folder, during which its rows apply at both paths. */
interface Moving {
  readonly from: Path
  readonly to: Path
  /** Undefined for a move in one step, and for one that another process makes. */
  readonly id: MoveId | undefined
  /** The folder has moved; its rows have not, as far as is known. */
  isPending: boolean
}

interface StoredRow {
  readonly id: number
  readonly path: Path
}

/** A key that all spellings of a path share; undefined for a path with only one spelling. */
export type FoldedPath = (path: Path) => Path | undefined

/** `Stored`: a row as the table has it. `Row`: the same in memory, with what is computed from it. */
export abstract class PathMirror<Stored extends StoredRow, Row extends Stored = Stored> {
  /** The rows as they are stored. */
  #stored: readonly Row[] = []
  #applying: readonly Row[] = []
  /** The moves item by item, by those rows that apply at the new path because of them. */
  #moveOf: ReadonlyMap<Row, MoveId> = new Map()
  #ownMoves: ReadonlySet<MoveId> = new Set()
  readonly #moving = new Set<Moving>()
  /** Moves that other processes make. */
  #elsewhere: readonly Moving[] = []
  /** Numbers of the last reload that was started, and of the last one that was applied. */
  #lastStarted = 0
  #lastApplied = 0

  protected constructor(
    protected readonly rows: PathRows<Stored>,
    protected readonly foldedPath: FoldedPath,
  ) {}

  /** Converts the rows that were read. */
  protected abstract compile(rows: readonly Stored[]): Promise<readonly Row[]>

  /** Called when other rows apply. */
  protected abstract index(applying: readonly Row[]): void

  /** The subject of a row: only one of the rows with the same subject may have a path. */
  protected abstract subjectOf(row: Row): string

  /** Whether two rows of one subject apply at a path while a folder with one of them is being moved to the other. */
  protected readonly canCoincide: boolean = false

  async reload(): Promise<void> {
    const number = ++this.#lastStarted
    const loaded = await this.compile(await this.rows.all())
    // The newest rows are those of the concurrent reload that started last.
    if (number < this.#lastApplied) return
    this.#lastApplied = number
    this.#stored = loaded
    this.#apply()
  }

  /** All stored rows. */
  protected get stored(): readonly Row[] {
    return this.#stored
  }

  /** The rows that apply: also those of folders that are being moved, at their new paths. */
  protected get applying(): readonly Row[] {
    return this.#applying
  }

  get isEmpty(): boolean {
    return this.#applying.length === 0
  }

  hasOneSpelling(path: Path): boolean {
    return this.foldedPath(path) === undefined
  }

  /** Whether any row is about `path` or what is below it. */
  hasWithin(path: Path): boolean {
    if (this.isEmpty) return false
    const key = this.foldedPath(path)
    return this.#applying.some((row) => {
      if (isWithin(path, row.path)) return true
      const rowKey = key === undefined ? undefined : this.foldedPath(row.path)
      return key !== undefined && rowKey !== undefined && isWithin(key, rowKey)
    })
  }

  /** The paths at and below `path` with stored rows. */
  pathsWithin(path: Path): readonly Path[] {
    return [...new Set(this.#stored.map((row) => row.path))].filter((each) => isWithin(path, each))
  }

  /**
   * From now on, the rows of the folder at `from` and below it apply at `to` too, because it may be at either path.
   * Call the returned function when the move has ended. If the folder has moved, they do so until its rows are stored
   * there. `moveId`: of a move item by item, for which `isOfOwnMove` is true.
   */
  duringMove(from: Path, to: Path, moveId?: MoveId): (hasMoved: boolean) => void {
    const moving = { from, to, id: moveId, isPending: false }
    const hasRows = () => this.#stored.some(({ path }) => isWithin(from, path))
    this.#moving.add(moving)
    // Most moves are of files and folders without rows.
    if (hasRows()) this.#apply()
    return (hasMoved) => {
      const appliesStill = hasRows()
      moving.isPending = hasMoved && appliesStill
      if (!moving.isPending) this.#moving.delete(moving)
      if (appliesStill) this.#apply()
    }
  }

  /** Other processes make these moves now, and no others: the rows apply at both paths, as of `duringMove`. */
  setMovesElsewhere(moves: readonly RunningMove[]): void {
    if (moves.length === 0 && this.#elsewhere.length === 0) return
    this.#elsewhere = moves.map(({ from, to }) => ({ from, to, id: undefined, isPending: false }))
    this.#apply()
  }

  /** Whether rows apply at their paths only because of this move. */
  protected hasOwnMove(moveId: MoveId): boolean {
    return this.#ownMoves.has(moveId)
  }

  /**
   * Whether the row applies at its path only because of this move (see `MoveId`).
   */
  protected isOfOwnMove(row: Row, moveId: MoveId): boolean {
    return this.#moveOf.get(row) === moveId
  }

  #apply(): void {
    const applying = [...this.#stored]
    const moveOf = new Map<Row, MoveId>()
    const moves = [...this.#moving, ...this.#elsewhere]
    const taken = moves.length > 0 && !this.canCoincide ? this.#taken(applying) : undefined
    for (const moving of moves) {
      const rows = this.#stored.filter(({ path }) => isWithin(moving.from, path))
      if (rows.length === 0 && moving.isPending) this.#moving.delete(moving)
      for (const row of rows) {
        const path = under(moving.to, within(moving.from, row.path) ?? row.path)
        const key = this.#keyOf(row, path)
        if (taken?.has(key) === true) continue
        taken?.add(key)
        const moved = { ...row, path }
        if (moving.id !== undefined) moveOf.set(moved, moving.id)
        applying.push(moved)
      }
    }
    this.#applying = applying
    this.#moveOf = moveOf
    this.#ownMoves = new Set(moveOf.values())
    this.index(applying)
  }

  #taken(rows: readonly Row[]): Set<string> {
    return new Set(rows.map((row) => this.#keyOf(row, row.path)))
  }

  #keyOf(row: Row, path: Path): string {
    return `${this.subjectOf(row)} ${path}`
  }

  /** Changes the stored spelling of rows at and below `path` to that of `path`, so that they move with it. */
  async updateSpelling(path: Path): Promise<void> {
    const key = this.foldedPath(path)
    if (key === undefined) return
    const others = this.#stored.filter((row) => {
      const rowKey = isWithin(path, row.path) ? undefined : this.foldedPath(row.path)
      return rowKey !== undefined && isWithin(key, rowKey)
    })
    const spelled = new Map((others.length > 0 ? this.#stored : []).map((row) => [this.#keyOf(row, row.path), row]))
    for (const row of others) {
      const respelled = segmentsOf(row.path).slice(segmentsOf(path).length).reduce(childOf, path)
      const key = this.#keyOf(row, respelled)
      const existing = spelled.get(key)
      if (existing) {
        spelled.set(key, await this.joined(existing, row))
        continue
      }
      // A row may have been deleted meanwhile, with its user or by another node.
      const changes: Partial<Omit<StoredRow, 'id'>> = { path: respelled }
      await undefinedIfMissing(this.rows.update(row.id, changes as Partial<Omit<Stored, 'id'>>))
      spelled.set(key, { ...row, path: respelled })
    }
    if (others.length > 0) await this.reload()
  }

  /**
   * Called before a move that would give two rows of one subject the same path. `row` has the spelling of the path, and
   * `other` has another spelling. Resolves to the row to store. By default this is `row`, and `other` is left.
   */
  protected async joined(row: Row, _other: Row): Promise<Row> {
    return row
  }

  /** Moves the stored rows at and below `from` to `to`. `reload` must follow. */
  async move(from: Path, to: Path): Promise<void> {
    await this.rows.move(from, to)
  }

  /**
   * What was at these paths, and below them, is removed; all of them are at or below `top`. Does to the stored rows
   * there what is written in `path-table.ts`.
   */
  async markRemoved(top: Path, removed: readonly Path[]): Promise<void> {
    if (!this.marksRemovals || !this.hasWithin(top)) return
    await this.updateSpelling(top)
    const gone = new Set(removed)
    for (const path of this.pathsWithin(top)) {
      if ([...selfAndAncestors(path)].some((each) => gone.has(each))) await this.rows.markRemoved(path)
    }
    await this.reload()
  }

  /** Whether a removal changes rows. */
  protected readonly marksRemovals: boolean = false
}
