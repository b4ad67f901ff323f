/** Folder rules (the API calls them metas), mirrored in memory. Paths are of the whole tree. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import type { Log } from './log.js'
import { childOf, cleanPath, deepestOf, folded, isWithin, segmentsOf, upwardFrom, type Path } from './path.js'
import { compilePatterns, patternLines, type Pattern } from './patterns.js'
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
  /** Of its `hide` lines together: see `Pattern`. */
  readonly hideCost: number
}

/** Whether a part of the rule reaches `path`: its own folder always, those below only with the part's `…Sub`. */
export function covers(rule: FolderRule, sub: boolean, path: Path): boolean {
  return rule.path === path || (sub && isWithin(rule.path, path))
}

/** The patterns of a rule's `hide` text. Rejects with `invalid` for a faulty one, and where they cost too much. */
export function hidePatterns(hide: string): readonly Pattern[] {
  return compilePatterns(patternLines(hide))
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
    private readonly log: Log | undefined,
  ) {}

  /** `foldedPath`: what all spellings of a path have in common; undefined where it has only one. */
  static async load(
    store: Store,
    foldedPath: (path: Path) => Path | undefined = () => undefined,
    log?: Log,
  ): Promise<Rules> {
    const rules = new Rules(store, foldedPath, log)
    await rules.reload()
    return rules
  }

  async reload(): Promise<void> {
    const turn = ++this.#begun
    const ruled = await this.#ready(await this.store.rules.all())
    // Of readings that overlap, the one that began last knows most.
    if (turn < this.#shown) return
    this.#shown = turn
    this.#byPath = new Map(ruled.map((rule) => [rule.path, rule]))
    this.#deepest = deepestOf(this.#byPath.keys())
    this.#byFoldedPath = new Map()
    for (const rule of ruled) {
      const key = folded(rule.path)
      this.#byFoldedPath.set(key, [...(this.#byFoldedPath.get(key) ?? []), rule])
    }
  }

  /** Compiles what is not compiled yet. Other requests get their turn between two rules. */
  async #ready(rows: readonly FolderRule[]): Promise<readonly Rule[]> {
    const compiled = new Map<string, Pick<Rule, 'hides' | 'hideCost'>>()
    for (const rule of this.#byPath.values()) compiled.set(rule.hide, rule)
    const rules: Rule[] = []
    for (const row of rows) {
      const known = compiled.get(row.hide)
      const patterns = known ?? this.#patternsOf(row)
      compiled.set(row.hide, patterns)
      rules.push({ ...patterns, ...row })
      if (known === undefined && row.hide !== '') await nextTurn()
    }
    return rules
  }

  /** A stored `hide` text that is refused today hides everything rather than nothing. */
  #patternsOf({ hide, path }: FolderRule): Pick<Rule, 'hides' | 'hideCost'> {
    try {
      const patterns = hidePatterns(hide)
      const hideCost = patterns.reduce((sum, { cost }) => sum + cost, 0)
      return { hides: (name) => patterns.some((pattern) => pattern.test(name)), hideCost }
    } catch (error) {
      const reason = toGatewayError(error).reason.slice(0, 200)
      this.log?.error({ path, reason }, 'a folder rule hides everything below its folder: its patterns are refused')
      return { hides: () => true, hideCost: 0 }
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
