/** Folder rules (the API calls them metas), mirrored in memory. Paths are of the whole tree. */
import { GatewayError, isGatewayError } from './errors.js'
import { childOf, cleanPath, deepestOf, folded, isWithin, segmentsOf, upwardFrom, type Path } from './path.js'
import { compilePattern, type Pattern } from './patterns.js'
import type { Store } from './store/rows.js'

export interface FolderRule {
  readonly id: number
  readonly path: Path
  readonly password: string
  readonly passwordSub: boolean
  /** Everybody may make folders and upload here. */
  readonly write: boolean
  readonly writeSub: boolean
  /** Lines of regular expressions, tested against base names. */
  readonly hide: string
  readonly hideSub: boolean
  readonly readme: string
  readonly readmeSub: boolean
  readonly header: string
  readonly headerSub: boolean
  /** User ids; empty: everybody. */
  readonly readUsers: readonly number[]
  readonly readUsersSub: boolean
  readonly writeUsers: readonly number[]
  readonly writeUsersSub: boolean
}

/** A rule whose patterns are ready. */
export interface Rule extends FolderRule {
  /** Whether its `hide` lines match this base name. */
  hides(name: string): boolean
}

/** Whether a part of the rule reaches `path`: its own folder always, those below only with the part's `…Sub`. */
export function covers(rule: FolderRule, sub: boolean, path: Path): boolean {
  return rule.path === path || (sub && isWithin(rule.path, path))
}

/** The patterns of a rule's `hide` text. Blank lines are none. Rejects with `invalid` for a faulty one. */
export function hidePatterns(hide: string): readonly Pattern[] {
  return hide
    .split(/\r*\n|\r+$/)
    .filter((line) => line.trim() !== '')
    .map(compilePattern)
}

export class Rules {
  #byPath = new Map<Path, Rule>()
  /** Rules whose paths differ in case or form alone, if in anything. */
  #byFoldedPath = new Map<Path, readonly Rule[]>()
  /** Segments of the longest path with a rule. */
  #deepest = 0
  #begun = 0
  #shown = 0

  private constructor(
    readonly store: Store,
    private readonly foldedPath: (path: Path) => Path | undefined,
  ) {}

  /** `foldedPath`: what all spellings of a path have in common; undefined where it has only one. */
  static async load(store: Store, foldedPath: (path: Path) => Path | undefined = () => undefined): Promise<Rules> {
    const rules = new Rules(store, foldedPath)
    await rules.reload()
    return rules
  }

  async reload(): Promise<void> {
    const turn = ++this.#begun
    const rows = await this.store.rules.all()
    // Of readings that overlap, the one that began last knows most.
    if (turn < this.#shown) return
    this.#shown = turn
    const ruled = rows.map(ready)
    this.#byPath = new Map(ruled.map((rule) => [rule.path, rule]))
    this.#deepest = deepestOf(this.#byPath.keys())
    this.#byFoldedPath = new Map()
    for (const rule of ruled) {
      const key = folded(rule.path)
      this.#byFoldedPath.set(key, [...(this.#byFoldedPath.get(key) ?? []), rule])
    }
  }

  /** By id. */
  list(): readonly FolderRule[] {
    return [...this.#byPath.values()].sort((one, other) => one.id - other.id)
  }

  /** The rule that decides for `path`: its own, else that of the nearest folder above it. */
  nearest(path: Path): Rule | undefined {
    if (this.#byPath.size === 0) return undefined
    for (const folder of upwardFrom(path, this.#deepest)) {
      const rule = this.of(folder)
      if (rule) return rule
    }
    return undefined
  }

  get isEmpty(): boolean {
    return this.#byPath.size === 0
  }

  /** The folder's own rule, its path in the spelling of `folder`. */
  of(folder: Path): Rule | undefined {
    const rule = this.#byPath.get(folder)
    if (rule || this.#byPath.size === 0) return rule
    const key = this.foldedPath(folder)
    if (key === undefined) return undefined
    const other = this.#byFoldedPath.get(folded(folder))?.find((each) => this.foldedPath(each.path) === key)
    return other && { ...other, path: folder }
  }

  hasOneSpelling(path: Path): boolean {
    return this.foldedPath(path) === undefined
  }

  /** Rules of folders below `path`, not its own. Their paths are in their own spelling. */
  below(path: Path): readonly Rule[] {
    if (this.#byPath.size === 0) return []
    const key = this.foldedPath(path)
    return [...this.#byPath.values()].filter((rule) => {
      if (isWithin(path, rule.path)) return rule.path !== path
      const ruled = key === undefined ? undefined : this.foldedPath(rule.path)
      return key !== undefined && ruled !== undefined && ruled !== key && isWithin(key, ruled)
    })
  }

  /** Gives rules at and below `path` its spelling, so that they go along when it is moved. */
  async respell(path: Path): Promise<void> {
    const key = this.foldedPath(path)
    if (key === undefined) return
    const others = [...this.#byPath.values()].filter((rule) => {
      const ruled = isWithin(path, rule.path) ? undefined : this.foldedPath(rule.path)
      return ruled !== undefined && isWithin(key, ruled)
    })
    for (const { id, path: ruled } of others) {
      const respelled = segmentsOf(ruled).slice(segmentsOf(path).length).reduce(childOf, path)
      // Where the admin ruled both spellings, this one is the right one already.
      if (!this.#byPath.has(respelled)) await this.store.rules.update(id, { path: respelled })
    }
    if (others.length > 0) await this.reload()
  }

  /** Rejects with `exists` where the folder has a rule, with `invalid` for a faulty pattern. */
  async create(rule: Omit<FolderRule, 'id'>): Promise<FolderRule> {
    hidePatterns(rule.hide)
    return this.#stored(() => this.store.rules.insert({ ...rule, path: cleanPath(rule.path) }))
  }

  /** Rejects as `create` does, and with `not_found`. */
  async update(id: number, rule: Omit<FolderRule, 'id'>): Promise<FolderRule> {
    hidePatterns(rule.hide)
    return this.#stored(() => this.store.rules.update(id, { ...rule, path: cleanPath(rule.path) }))
  }

  async #stored(change: () => Promise<FolderRule>): Promise<FolderRule> {
    try {
      const row = await change()
      await this.reload()
      return row
    } catch (error) {
      if (!isGatewayError(error, 'exists')) throw error
      throw new GatewayError('exists', { reason: 'this folder has a rule already', cause: error })
    }
  }

  async delete(id: number): Promise<void> {
    if (!(await this.store.rules.delete(id))) throw new GatewayError('not_found', { reason: 'rule not found' })
    await this.reload()
  }
}

function ready(row: FolderRule): Rule {
  let patterns: readonly Pattern[]
  try {
    patterns = hidePatterns(row.hide)
  } catch {
    // A stored pattern that no longer compiles hides everything rather than nothing.
    patterns = [{ test: () => true }]
  }
  return { ...row, hides: (name) => patterns.some((pattern) => pattern.test(name)) }
}
