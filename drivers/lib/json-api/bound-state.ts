/**
 * A value that a driver derives from an option, such as the token that a server returns for a refresh token, or a
 * renewed cookie. It is valid as long as the option is unchanged. It is stored as state and not in the option, because
 * a form that was opened earlier would overwrite it with an old value.
 */
import { createHash } from 'node:crypto'
import type { DriverState } from '../../../src/contract/driver-env.js'

export class BoundState<Value> {
  private constructor(
    private readonly state: DriverState,
    private readonly key: string,
    private readonly origin: string,
    private current?: Value,
  ) {}

  /**
   * Loads what is stored under `key` for `typed`, of which only a digest is stored. When the admin types something
   * else, it does not count any more. `Value` must be JSON.
   */
  static async open<Value>(state: DriverState, key: string, typed: string): Promise<BoundState<Value>> {
    const origin = createHash('sha256').update(typed).digest('hex')
    const bound = new BoundState<Value>(state, key, origin)
    await bound.reload()
    return bound
  }

  /** Reads what is stored now: another node may have changed it. */
  async reload(): Promise<Value | undefined> {
    const stored = parse(await this.state.get(this.key)) as Partial<Stored<Value>> | undefined
    this.current = stored?.origin === this.origin ? stored.value : undefined
    return this.current
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
