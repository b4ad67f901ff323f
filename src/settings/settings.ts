/** The current settings, cached in memory: stored values, else the defaults. */
import { randomInt, randomUUID } from 'node:crypto'
import PQueue from 'p-queue'
import { GatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { version } from '../base/version.js'
import type { Store } from '../database/tables.js'
import type { SettingDefinition } from './settings-table.js'

export interface SettingRow extends SettingDefinition {
  readonly value: string
}

type Guard = (value: string) => Promise<void>

export class Settings {
  /** The stored values, including those of unknown keys. */
  #stored: ReadonlyMap<string, string> = new Map()
  /** Serializes reads and changes of the stored values. */
  readonly #queue = new PQueue({ concurrency: 1 })
  readonly #listeners = new Set<() => void>()
  readonly #guards = new Map<string, Guard>()
  readonly #overrides = new Map<string, () => string | undefined>()
  readonly #byKey: ReadonlyMap<string, SettingDefinition>
  #unsubscribe: () => void = () => undefined

  private constructor(
    private readonly store: Store,
    private readonly definitions: readonly SettingDefinition[],
  ) {
    this.#byKey = new Map(definitions.map((definition) => [definition.key, definition]))
  }

  /**
   * Reads the stored settings. Creates a permanent token if there is none. A stored token that is weaker than a new one
   * must be remains valid, because signed URLs and scripts depend on it; `log` gets a warning.
   * `definitions`: in display order.
   */
  static async open(
    store: Store,
    definitions: readonly SettingDefinition[],
    log?: Pick<Log, 'warn'>,
  ): Promise<Settings> {
    const settings = new Settings(store, definitions)
    await settings.#reload()
    const token = settings.get('token')
    if (token === '') await settings.resetToken()
    else if (!isStrongToken(token)) {
      log?.warn({}, `the permanent token is not ${strongToken}: make a new one with "tidegate admin token --reset"`)
    }
    settings.#unsubscribe = store.onForeignChange('settings', () => settings.#reload())
    return settings
  }

  /** Stops following changes of other processes. */
  close(): void {
    this.#unsubscribe()
  }

  /** The current value. Throws `internal` for a key that is neither defined nor stored. */
  get(key: string): string {
    return this.#overrides.get(key)?.() ?? this.#ownValue(key)
  }

  #ownValue(key: string): string {
    if (key === 'version') return version
    const value = this.#stored.get(key) ?? this.#byKey.get(key)?.default
    if (value === undefined) throw new GatewayError('internal', { reason: `no such setting: ${key}` })
    return value
  }

  /** Whether a value is stored, even if it equals the default. */
  isStored(key: string): boolean {
    return this.#stored.has(key)
  }

  bool(key: string): boolean {
    return isTrue(this.get(key))
  }

  /** The value as a number; the default for an empty value. */
  number(key: string): number {
    return Number(this.get(key) || this.#byKey.get(key)?.default)
  }

  /**
   * The settings as they would be with these values, which are not stored. Throws `invalid` with the detail
   * `setting_refused` for a value that `set` would reject, of which no guard is asked, and for an unknown key.
   */
  with(values: ReadonlyMap<string, string>): Pick<Settings, 'bool' | 'get' | 'number'> {
    for (const [key, value] of values) {
      const definition = this.#byKey.get(key)
      const reason = definition ? settingFault(definition, value) : 'there is no such setting'
      if (reason !== undefined) throw new GatewayError('invalid', { detail: 'setting_refused', subject: key, reason })
    }
    const get = (key: string) => values.get(key) ?? this.get(key)
    return {
      get,
      bool: (key) => isTrue(get(key)),
      number: (key) => Number(get(key) || this.#byKey.get(key)?.default),
    }
  }

  /** The values of the settings that all clients may read, by key. */
  public(): Readonly<Record<string, string>> {
    const visible = this.definitions.filter(({ flag }) => flag === 'public' || flag === 'readonly')
    return Object.fromEntries(visible.map(({ key }) => [key, this.get(key)]))
  }

  /** All settings in display order; stored values of unknown keys come last. */
  rows(): readonly SettingRow[] {
    const unknown = [...this.#stored.keys()].filter((key) => !this.#byKey.has(key)).sort()
    return [...this.definitions, ...unknown.map(deprecated)].map((definition) => ({
      ...definition,
      value: this.#ownValue(definition.key),
    }))
  }

  /** The rows with the default values, without unknown keys; the token is empty. */
  defaults(): readonly SettingRow[] {
    return this.definitions.map((definition) => ({ ...definition, value: definition.default }))
  }

  /**
   * Stores all values atomically. Rejects with `invalid` if a value that is not empty does not match the type and
   * options of its setting, a new token is too weak, or a value is too long. Read-only keys are skipped, an empty token
   * is replaced by a new one, and unknown keys are stored as deprecated ones. Rejects with the reason of the
   * guard if a guard rejects a value.
   */
  async set(values: ReadonlyMap<string, string>): Promise<void> {
    const changes = new Map<string, string>()
    for (const [key, value] of values) {
      const definition = this.#byKey.get(key)
      if (definition?.flag === 'readonly') continue
      if (key.length + value.length > maxValueLength) throw tooLong(key)
      // A client that saves a whole page also sends unchanged values, which may predate a check.
      if (definition !== undefined && value !== this.#stored.get(key)) checkValue(definition, value)
      changes.set(key, key === 'token' && value === '' ? newToken() : value)
    }
    if (changes.size === 0) return
    for (const [key, value] of changes) await this.#assertAccepted(key, value)
    await this.#queue.add(async () => {
      await this.store.settings.set(changes)
      this.#replace(new Map([...this.#stored, ...changes]))
    })
  }

  /** Removes the stored value of an unknown key. `invalid` for a known key, `not_found` if none is stored. */
  async delete(key: string): Promise<void> {
    if (this.#byKey.has(key)) throw new GatewayError('invalid', { detail: 'setting_in_use', subject: key })
    await this.#queue.add(async () => {
      if (!(await this.store.settings.delete(key)))
        throw new GatewayError('not_found', { reason: 'there is no such setting' })
      this.#replace(new Map([...this.#stored].filter(([stored]) => stored !== key)))
    })
  }

  /**
   * The stored values that `set` would reject, which another program or an older version has stored, with the reason
   * and the default.
   */
  *faults(): Iterable<{ readonly key: string; readonly reason: string; readonly fallback: string }> {
    for (const definition of this.definitions) {
      const { key, default: fallback, flag } = definition
      const value = this.#stored.get(key)
      const reason = value === undefined || flag === 'readonly' ? undefined : settingFault(definition, value)
      if (reason !== undefined) yield { key, reason, fallback }
    }
  }

  /** Creates a new permanent token. This invalidates all signed URLs. */
  async resetToken(): Promise<string> {
    const token = newToken()
    await this.set(new Map([['token', token]]))
    return token
  }

  async #assertAccepted(key: string, value: string): Promise<void> {
    if (value === this.#stored.get(key)) return
    try {
      this.#byKey.get(key)?.check?.(value)
      await this.#guards.get(key)?.(value)
    } catch (error) {
      const { reason } = toGatewayError(error)
      throw new GatewayError('invalid', { detail: 'setting_refused', subject: key, reason, cause: error })
    }
  }

  /**
   * Calls `guard` before a changed value of the key is stored; if it rejects, nothing is stored. Returns a function
   * that removes it.
   */
  guard(key: string, guard: Guard): () => void {
    this.#guards.set(key, guard)
    return () => this.#guards.delete(key)
  }

  /**
   * From now on, the value of the key is that of `value`, unless it returns undefined: then it is the stored one, which
   * the rows always have.
   */
  override(key: string, value: () => string | undefined): void {
    this.#overrides.set(key, value)
  }

  /** Calls `listener` after any value was changed by this or another process. Returns an unsubscriber. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async #reload(): Promise<void> {
    await this.#queue.add(async () => this.#replace(await this.store.settings.all()))
  }

  #replace(stored: ReadonlyMap<string, string>): void {
    const before = this.#stored
    this.#stored = stored
    const isSame = before.size === stored.size && [...stored].every(([key, value]) => before.get(key) === value)
    if (!isSame) for (const listener of this.#listeners) listener()
  }
}

function isTrue(value: string): boolean {
  return ['true', '1'].includes(value)
}

function deprecated(key: string): SettingDefinition {
  return {
    key,
    default: '',
    type: 'string',
    options: [],
    group: 'single',
    flag: 'deprecated',
    help: '',
    inForce: false,
  }
}

/** Returns the reason for which `set` would reject the value; undefined if it would accept it. */
export function settingFault(definition: SettingDefinition, value: string): string | undefined {
  if (definition.flag === 'readonly') return 'it cannot be set'
  try {
    if (definition.key.length + value.length > maxValueLength) throw tooLong(definition.key)
    checkValue(definition, value)
    if (value !== '') definition.check?.(value)
    return undefined
  } catch (error) {
    return toGatewayError(error).reason
  }
}

const strongToken = 'at least 32 visible ASCII characters without blanks'

/** Whether the token is long enough against guessing, and safe in an HTTP header. */
function isStrongToken(token: string): boolean {
  return /^[\x21-\x7e]{32,}$/.test(token)
}

/** Maximum characters of a value with its key: public settings are sent to clients frequently. */
const maxValueLength = 256 * 1024

function tooLong(key: string): GatewayError {
  const reason = `setting [${key.slice(0, 100)}] must be a text of ${maxValueLength} characters at most`
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

/** A prefix, a UUID, and 64 letters and digits: the form that clients expect. */
function newToken(): string {
  const tail = Array.from({ length: 64 }, () => alphabet.charAt(randomInt(alphabet.length))).join('')
  return `tidegate-${randomUUID()}${tail}`
}
