export interface Settings {
  /** The value in force, of a key of the table below. */
  get(key: string): string
  bool(key: string): boolean
  number(key: string): number
  /** Keys of flag public and readonly with their values. */
  public(): Readonly<Record<string, string>>
  set(values: ReadonlyMap<string, string>): Promise<void>
}
