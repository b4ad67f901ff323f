/**
 * What a server has made of a secret that an admin typed: a rotated token, or a renewed cookie. It is stored in the
 * driver's state and not in its options, because a form that was opened before would bring the old one back.
 */
import { createHash } from 'node:crypto'
import type { DriverState } from '../../../src/contract/driver-env.js'

export class StoredSecret<Value> {
  private constructor(
    private readonly state: DriverState,
    private readonly key: string,
    private readonly origin: string,
    private current: Value | undefined,
  ) {}

  /**
   * Loads what is stored under `key`. It is used only if it was made of the same `typed` secret: when the admin types
   * another, that one counts. `Value` must be JSON.
   */
  static async open<Value>(state: DriverState, key: string, typed: string): Promise<StoredSecret<Value>> {
    const origin = createHash('sha256').update(typed).digest('hex')
    const stored = parse(await state.get(key)) as Partial<Stored<Value>> | undefined
    return new StoredSecret(state, key, origin, stored?.origin === origin ? stored.value : undefined)
  }

  get value(): Value | undefined {
    return this.current
  }

  /** Resolves when it is stored. The value counts from then on. */
  async set(value: Value | undefined): Promise<void> {
    const stored = value === undefined ? undefined : JSON.stringify({ origin: this.origin, value })
    await this.state.set(this.key, stored)
    this.current = value
  }
}

interface Stored<Value> {
  readonly origin: string
  readonly value: Value
}

function parse(text: string | undefined): unknown {
  if (text === undefined) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
