/**
 * Folder rules, mirrored in memory, and the limit of wrong folder passwords. Paths are of the whole tree.
 */
import { lockout } from '../accounts/limiter.js'
import { WrongGuesses } from '../accounts/wrong-guesses.js'
import type { Principal } from '../accounts/principal.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { cleanPath, maxDepthOf, foldCase, isWithin, selfAndAncestors, type Path } from '../base/path.js'
import { compilePatterns, patternLines, type Pattern } from '../base/patterns.js'
import { ownTurn } from '../base/pauses.js'
import type { FolderRule } from '../database/tables/rules.js'
import type { Store } from '../database/tables.js'
import { PathMirror, type FoldedPath } from './path-mirror.js'

export type { FolderRule } from '../database/tables/rules.js'

/** A rule with compiled patterns. */
export interface Rule extends FolderRule {
  /** Whether its `hide` lines match this base name. */
  hides(name: string): boolean
  /** The sum of the costs of its `hide` patterns: see `Pattern`. */
  readonly hideCost: number
}

/**
 * Whether a part of the rule applies to `path`: always to the rule's own folder, below it only if the part's `…Sub`
 * flag is set.
 */
export function covers(rule: FolderRule, sub: boolean, path: Path): boolean {
  return rule.path === path || (sub && isWithin(rule.path, path))
}

/** Compiles a rule's `hide` text. Throws `invalid` for a malformed pattern, and if the patterns cost too much. */
export function hidePatterns(hide: string): readonly Pattern[] {
  return compilePatterns(patternLines(hide))
}

export class Rules extends PathMirror<FolderRule, Rule> {
  #byPath = new Map<Path, Rule>()
  /** Rules by folded path: paths that differ only in case or Unicode normalization share a key. */
  #byFoldedPath = new Map<Path, readonly Rule[]>()
  /** Number of segments of the deepest path with a rule. */
  #deepest = 0
  /** Wrong passwords for the rules. */
  readonly guesses: PasswordGuesses

  private constructor(
    store: Pick<Store, 'rules'>,
    foldedPath: FoldedPath,
    private readonly log: Log | undefined,
  ) {
    super(store.rules, foldedPath)
    this.guesses = new PasswordGuesses(log)
  }

  static async load(store: Store, foldedPath: FoldedPath = () => undefined, log?: Log): Promise<Rules> {
    const rules = new Rules(store, foldedPath, log)
    await rules.reload()
    return rules
  }

  protected override index(applying: readonly Rule[]): void {
    this.#byPath = new Map(applying.map((rule) => [rule.path, rule]))
    this.#deepest = maxDepthOf(this.#byPath.keys())
    this.#byFoldedPath = new Map()
    for (const rule of applying) {
      const key = foldCase(rule.path)
      this.#byFoldedPath.set(key, [...(this.#byFoldedPath.get(key) ?? []), rule])
    }
  }

  /** A folder has one rule. */
  protected override subjectOf(): string {
    return ''
  }

  /** Compiles the patterns that are not compiled yet. Yields to the event loop between two rules. */
  protected override async compile(rows: readonly FolderRule[]): Promise<readonly Rule[]> {
    const compiled = new Map<string, Pick<Rule, 'hides' | 'hideCost'>>()
    for (const rule of this.#byPath.values()) compiled.set(rule.hide, rule)
    const rules: Rule[] = []
    for (const row of rows) {
      const existing = compiled.get(row.hide)
      const patterns = existing ?? this.#patternsOf(row)
      compiled.set(row.hide, patterns)
      rules.push({ ...patterns, ...row })
      if (existing === undefined && row.hide !== '') await ownTurn()
    }
    return rules
  }

  /** A stored `hide` text that no longer compiles hides everything, so that nothing is disclosed. */
  #patternsOf({ hide, path }: FolderRule): Pick<Rule, 'hides' | 'hideCost'> {
    try {
      const patterns = hidePatterns(hide)
      const hideCost = patterns.reduce((sum, { cost }) => sum + cost, 0)
      return { hides: (name) => patterns.some((pattern) => pattern.test(name)), hideCost }
    } catch (error) {
      const reason = toGatewayError(error).reason.slice(0, 200)
      this.log?.error({ path, reason }, 'invalid patterns in folder rule: all entries are hidden')
      return { hides: () => true, hideCost: 0 }
    }
  }

  /** All rules, ordered by id. */
  list(): readonly FolderRule[] {
    return [...this.stored].sort((one, other) => one.id - other.id)
  }

  /** The rule that applies to `path`: its own, else that of the nearest folder above it. */
  nearest(path: Path): Rule | undefined {
    if (this.#byPath.size === 0) return undefined
    for (const folder of selfAndAncestors(path, this.#deepest)) {
      const rule = this.ruleOf(folder)
      if (rule) return rule
    }
    return undefined
  }

  /** Whether it is the password of any rule. */
  hasPassword(password: string): boolean {
    return this.stored.some((rule) => rule.password === password)
  }

  /** The folder's own rule. Its path has the spelling of `folder`. */
  ruleOf(folder: Path): Rule | undefined {
    const rule = this.#byPath.get(folder)
    if (rule || this.#byPath.size === 0) return rule
    const key = this.foldedPath(folder)
    if (key === undefined) return undefined
    const other = this.#byFoldedPath.get(foldCase(folder))?.find((each) => this.foldedPath(each.path) === key)
    return other && { ...other, path: folder }
  }

  /** Rules of folders below `path`, without its own. Their paths have the stored spelling. */
  below(path: Path): readonly Rule[] {
    if (this.#byPath.size === 0) return []
    const key = this.foldedPath(path)
    return [...this.#byPath.values()].filter((rule) => {
      if (isWithin(path, rule.path)) return rule.path !== path
      const ruleKey = key === undefined ? undefined : this.foldedPath(rule.path)
      return key !== undefined && ruleKey !== undefined && ruleKey !== key && isWithin(key, ruleKey)
    })
  }

  /** Rejects with `exists` if the folder already has a rule, and as `hidePatterns`. */
  async create(rule: Omit<FolderRule, 'id'>): Promise<FolderRule> {
    hidePatterns(rule.hide)
    return this.#applyChange(() => this.rows.insert({ ...rule, path: cleanPath(rule.path) }))
  }

  /** Rejects as `create`, and with `not_found`. */
  async update(id: number, rule: Omit<FolderRule, 'id'>): Promise<FolderRule> {
    hidePatterns(rule.hide)
    return this.#applyChange(() => this.rows.update(id, { ...rule, path: cleanPath(rule.path) }))
  }

  async #applyChange(change: () => Promise<FolderRule>): Promise<FolderRule> {
    try {
      const row = await change()
      await this.reload()
      return row
    } catch (error) {
      if (!isGatewayError(error, 'exists')) throw error
      throw new GatewayError('exists', { reason: 'this folder has a rule already', cause: error })
    }
  }

  /** Rejects with `not_found`. */
  async delete(id: number): Promise<void> {
    if (!(await this.rows.delete(id))) throw new GatewayError('not_found', { reason: 'rule not found' })
    await this.reload()
  }
}

/** The rule whose password is asked for. */
interface ProtectingRule {
  readonly id: number
  readonly path: string
}

/**
 * Limits wrong folder passwords as sign-ins are limited: locks the passwords of a rule for a network after
 * `lockout.failures` different wrong ones, for `lockout.time` after the last one. A client sends the same password with
 * every request. Without a network, as in tasks, the user's are counted. Each process counts for itself, and forgets
 * the counts when it restarts.
 */
export class PasswordGuesses {
  readonly #wrong: WrongGuesses

  /** `now`: milliseconds. */
  constructor(
    private readonly log: Pick<Log, 'warn'> | undefined,
    now: () => number = () => performance.now(),
  ) {
    this.#wrong = new WrongGuesses(lockout, now)
  }

  /** Throws `throttled` if the client has sent too many wrong passwords for the rule. */
  assertNotLocked(rule: ProtectingRule, principal: Principal): void {
    this.#wrong.assertNotLocked(keyOf(rule, principal), 'too many wrong passwords for this folder, try again later')
  }

  /**
   * Counts a wrong password, unless this client has sent it before. Logs one line when the rule is locked for the
   * client.
   */
  countWrong(rule: ProtectingRule, principal: Principal, password: string): void {
    if (!this.#wrong.count(keyOf(rule, principal), password)) return
    const { username, protocol, network } = principal
    this.log?.warn(
      { protocol: protocol.name, user: username, network, folder: rule.path },
      'too many wrong passwords for a folder: its passwords are refused for five minutes',
    )
  }
}

function keyOf({ id }: ProtectingRule, { userId, network }: Principal): string {
  return `${network ?? `user ${userId}`} ${id}`
}
