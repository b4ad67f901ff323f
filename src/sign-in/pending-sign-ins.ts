/** Sign-ins that have begun, each of which its client completes once by a secret, and the limit of a network. */
import { tooManyAttempts } from '../accounts/errors.js'
import { digestOf, newSecret } from '../accounts/random-secrets.js'
import { put } from '../base/bounded-tables.js'
import type { SignInPurpose } from '../database/pending-sign-ins.js'
import type { Store } from '../database/tables.js'
import { networkOf } from '../net/addresses.js'

/** Beginnings of one network within `time` milliseconds, in this process. Others are refused. */
export const begunLimit = { count: 60, time: 60_000 }

/** A sign-in or another action that begins now, and is completed by a later request. */
interface Beginning {
  /** The address of the client that begins it, without port. */
  readonly address: string
  /** The data that its completion needs; plain JSON. */
  readonly data: object
  /** Milliseconds within which it can be completed. */
  readonly time: number
}

export class PendingSignIns {
  /** The number of beginnings of each network, and the time since which they are counted. */
  readonly #begun = new Map<string, { readonly since: number; readonly count: number }>()

  /** `now`: milliseconds since 1970. */
  constructor(
    private readonly table: Store['pendingSignIns'],
    private readonly now: () => number,
  ) {}

  /**
   * Counts one that the client of this address begins: the limit in front of the database. Throws `throttled` with the
   * detail `sign_in_throttled` if its network has begun too many.
   */
  count(address: string): void {
    const network = networkOf(address)
    const now = this.now()
    const known = this.#begun.get(network)
    const { since, count } = known && now - known.since < begunLimit.time ? known : { since: now, count: 0 }
    if (count >= begunLimit.count) throw tooManyAttempts((since + begunLimit.time - now) / 1000)
    put(this.#begun, network, { since, count: count + 1 })
  }

  /** Stores what has begun. Resolves to the secret that completes it, by default a new one. */
  async begin(
    purpose: SignInPurpose,
    { address, data, time }: Beginning,
    secret: string = newSecret(),
  ): Promise<string> {
    const now = this.now()
    const expires = new Date(now + time)
    const row = { id: digestOf(secret), purpose, network: networkOf(address), data, expires }
    await this.table.add(row, new Date(now))
    return secret
  }

  /**
   * Returns the data of what was begun with this secret and purpose, once; undefined if it has expired or does not
   * exist.
   */
  async take<Data extends object>(purpose: SignInPurpose, secret: string): Promise<Data | undefined> {
    const row = await this.table.take(digestOf(secret), purpose, new Date(this.now()))
    return row?.data as Data | undefined
  }
}
