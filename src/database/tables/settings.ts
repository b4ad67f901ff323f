/** Settings and secrets. */

/** Stored values only; `src/settings/` defines the keys. */
export interface StoredSettings {
  all(): Promise<Map<string, string>>
  set(values: ReadonlyMap<string, string>): Promise<void> // in one transaction
  delete(key: string): Promise<boolean>
}

/** Values that no API returns. */
export interface SecretRows {
  get(name: string): Promise<string | undefined>
  /** The secret of this name. If none exists, `candidate` is stored and returned; all processes get the same one. */
  obtain(name: string, candidate: string): Promise<string>
  /** Stores all of these secrets in one transaction, in place of those of the same names. */
  replace(values: ReadonlyMap<string, string>): Promise<void>
}
