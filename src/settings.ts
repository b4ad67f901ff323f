/** Settings in force, mirrored in memory: stored values over the defaults of the table. */
import { randomInt, randomUUID } from 'node:crypto'
import { GatewayError, toGatewayError } from './errors.js'
import type { Log } from './log.js'
import {
  settingFlags,
  settingGroups,
  settingsTable,
  type SettingDefinition,
  type SettingFlag,
  type SettingGroup,
} from './settings-table.js'
import type { Store } from './store/rows.js'
import { version } from './version.js'

/** A setting as an admin sees it; numbers as the wire has them. */
export interface SettingRow {
  readonly key: string
  readonly value: string
  readonly help: string
  readonly type: SettingDefinition['type']
  /** Comma-separated. */
  readonly options: string
  readonly group: number
  readonly flag: (typeof settingFlags)[SettingFlag]
  /** Position in the display. */
  readonly index: number
}

const definitions: ReadonlyMap<string, SettingDefinition> = new Map(settingsTable.map((row) => [row.key, row]))

/** Whoever has to obey a value cannot: why not is in the reason. */
export class RefusedSettingError extends GatewayError {
  constructor(key: string, cause: GatewayError) {
    super('invalid', { reason: `failed to execute hook on ${key}: ${cause.reason}`, cause })
  }

  override at(): this {
    return this
  }
}

type Guard = (value: string) => Promise<void>

export class Settings {
  /** What is stored, also under keys that this version does not know. */
  #stored: ReadonlyMap<string, string> = new Map()
  readonly #listeners = new Set<() => void>()
  readonly #guards = new Map<string, Guard>()
  #unsubscribe: () => void = () => undefined

  private constructor(private readonly store: Store) {}

  /**
   * Reads the stored settings, and makes a permanent token where there is none. A stored token that is too weak to be set today
   * stays in force, because links and scripts depend on it; `log` gets a warning.
   */
  static async open(store: Store, log?: Pick<Log, 'warn'>): Promise<Settings> {
    const settings = new Settings(store)
    await settings.#reload()
    const token = settings.get('token')
    if (token === '') await settings.resetToken()
    else if (!isStrongToken(token)) {
      log?.warn(`the permanent token is not ${strongToken}: make a new one with "tidegate admin token --reset"`)
    }
    settings.#unsubscribe = store.onForeignChange(() => settings.#reload())
    return settings
  }

  /** Changes of other processes are no longer noticed. */
  close(): void {
    this.#unsubscribe()
  }

  /** The value in force. Throws `internal` for a key that is neither in the table nor stored. */
  get(key: string): string {
    if (key === 'version') return version
    const value = this.#stored.get(key) ?? definitions.get(key)?.default
    if (value === undefined) throw new GatewayError('internal', { reason: `no such setting: ${key}` })
    return value
  }

  /** Whether somebody has set it, be it to its default. */
  isStored(key: string): boolean {
    return this.#stored.has(key)
  }

  bool(key: string): boolean {
    return ['true', '1'].includes(this.get(key))
  }

  /** Where an admin left it empty: its default. */
  number(key: string): number {
    return Number(this.get(key) || definitions.get(key)?.default)
  }

  /** Keys that everybody may read, with their values. */
  public(): Readonly<Record<string, string>> {
    const visible = settingsTable.filter(({ flag }) => flag === 'public' || flag === 'readonly')
    return Object.fromEntries(visible.map(({ key }) => [key, this.get(key)]))
  }

  /** All rows, or those of the groups, in the order of display; what is stored and unknown to this version comes last. */
  rows(groups?: readonly number[]): readonly SettingRow[] {
    const unknown = [...this.#stored.keys()].filter((key) => !definitions.has(key)).sort()
    return [...settingsTable, ...unknown.map(deprecated)]
      .map((definition, index) => rowOf(definition, this.get(definition.key), index))
      .filter(({ group }) => groups?.includes(group) ?? true)
  }

  /** The same rows with the values of a new installation; the token has none. */
  defaults(groups?: readonly number[]): readonly SettingRow[] {
    return settingsTable
      .map((definition, index) => rowOf(definition, definition.default, index))
      .filter(({ group }) => groups?.includes(group) ?? true)
  }

  /**
   * Stores all of them or none. A value that is not empty must fit its setting's type and options, a new token must be hard to
   * guess, and no value may be too long, else `invalid`. Read-only keys are passed over, an empty token is replaced by a new one,
   * unknown keys are kept as deprecated ones. Rejects with RefusedSettingError where a guard refuses a value.
   */
  async set(values: ReadonlyMap<string, string>): Promise<void> {
    const changes = new Map<string, string>()
    for (const [key, value] of values) {
      const definition = definitions.get(key)
      if (definition?.flag === 'readonly') continue
      if (key.length + value.length > longestValue) throw tooLong(key)
      // A page that saves all its rows sends back the values that it did not change.
      if (definition !== undefined && value !== this.#stored.get(key)) checkValue(definition, value)
      changes.set(key, key === 'token' && value === '' ? newToken() : value)
    }
    if (changes.size === 0) return
    for (const [key, value] of changes) await this.#assertAccepted(key, value)
    await this.store.settings.set(changes)
    this.#replace(new Map([...this.#stored, ...changes]))
  }

  /** Removes a stored key that this version does not know. `invalid` for one that it knows, `not_found` for none. */
  async delete(key: string): Promise<void> {
    if (definitions.has(key)) throw new GatewayError('invalid', { reason: `setting [${key}] is not deprecated` })
    if (!(await this.store.settings.delete(key))) throw new GatewayError('not_found', { reason: 'record not found' })
    this.#replace(new Map([...this.#stored].filter(([stored]) => stored !== key)))
  }

  /** A new permanent token; with the old one all signed links die. */
  async resetToken(): Promise<string> {
    const token = newToken()
    await this.set(new Map([['token', token]]))
    return token
  }

  async #assertAccepted(key: string, value: string): Promise<void> {
    if (value === this.#stored.get(key)) return
    try {
      await this.#guards.get(key)?.(value)
    } catch (error) {
      throw new RefusedSettingError(key, toGatewayError(error))
    }
  }

  /** Asked before a new value of the key is stored; what it rejects with keeps the old one. Returns what ends it. */
  guard(key: string, guard: Guard): () => void {
    this.#guards.set(key, guard)
    return () => this.#guards.delete(key)
  }

  /** Called after any value changed, here or in another process. Returns an unsubscriber. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async #reload(): Promise<void> {
    this.#replace(await this.store.settings.all())
  }

  #replace(stored: ReadonlyMap<string, string>): void {
    const before = this.#stored
    this.#stored = stored
    const same = before.size === stored.size && [...stored].every(([key, value]) => before.get(key) === value)
    if (!same) for (const listener of this.#listeners) listener()
  }
}

function rowOf(definition: SettingDefinition, value: string, index: number): SettingRow {
  const { key, help, type, options, group, flag } = definition
  return {
    key,
    value,
    help,
    type,
    options: options.join(','),
    group: settingGroups[group],
    flag: settingFlags[flag],
    index,
  }
}

function deprecated(key: string): SettingDefinition {
  const group: SettingGroup = 'single'
  const flag: SettingFlag = 'deprecated'
  return { key, default: '', type: 'string', options: [], group, flag, help: '' }
}

const strongToken = 'at least 32 visible ASCII characters without blanks'

/** Such a token cannot be guessed by trying, and a header carries it unchanged. */
function isStrongToken(token: string): boolean {
  return /^[\x21-\x7e]{32,}$/.test(token)
}

/** Characters of a value with its key. Others read it with many of their requests. */
const longestValue = 256 * 1024

function tooLong(key: string): GatewayError {
  const reason = `setting [${key.slice(0, 100)}] must be a text of ${longestValue} characters at most`
  return new GatewayError('invalid', { reason })
}

function checkValue({ key, type, options }: SettingDefinition, value: string): void {
  if (value === '') return
  const refuse = (expected: string): never => {
    throw new GatewayError('invalid', { reason: `setting [${key}] must be ${expected}` })
  }
  if (key === 'token' && !isStrongToken(value)) refuse(strongToken)
  if (type === 'number' && !/^-?\d{1,15}(\.\d{1,6})?$/.test(value)) refuse('a number')
  if (type === 'bool' && !['true', 'false', '1', '0'].includes(value)) refuse('true or false')
  if (type === 'select' && !options.includes(value)) refuse(`one of ${options.join(', ')}`)
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'

/** In the form that clients have seen before: a prefix, a UUID, and 64 letters and digits. */
function newToken(): string {
  const tail = Array.from({ length: 64 }, () => alphabet.charAt(randomInt(alphabet.length))).join('')
  return `tidegate-${randomUUID()}${tail}`
}
