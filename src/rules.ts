/** Folder rules (the API calls them metas), mirrored in memory. Paths are of the whole tree. */
import { GatewayError, isGatewayError } from './errors.js'
import { cleanPath, isWithin, upwardFrom, type Path } from './path.js'
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
  #begun = 0
  #shown = 0

  private constructor(readonly store: Store) {}

  static async load(store: Store): Promise<Rules> {
    const rules = new Rules(store)
    await rules.reload()
    return rules
  }

  async reload(): Promise<void> {
    const turn = ++this.#begun
    const rows = await this.store.rules.all()
    // Of readings that overlap, the one that began last knows most.
    if (turn < this.#shown) return
    this.#shown = turn
    this.#byPath = new Map(rows.map((row) => [row.path, ready(row)]))
  }

  /** By id. */
  list(): readonly FolderRule[] {
    return [...this.#byPath.values()].sort((one, other) => one.id - other.id)
  }

  /** The rule that decides for `path`: its own, else that of the nearest folder above it. */
  nearest(path: Path): Rule | undefined {
    if (this.#byPath.size === 0) return undefined
    for (const folder of upwardFrom(path)) {
      const rule = this.#byPath.get(folder)
      if (rule) return rule
    }
    return undefined
  }

  get isEmpty(): boolean {
    return this.#byPath.size === 0
  }

  /** Rules of folders below `path`, not its own. */
  below(path: Path): readonly Rule[] {
    if (this.#byPath.size === 0) return []
    return [...this.#byPath.values()].filter((rule) => rule.path !== path && isWithin(path, rule.path))
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
