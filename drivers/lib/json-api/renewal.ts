/**
 * Renewal of a secret that expires, such as an access token: one at a time for all calls that wait for it, and stored
 * before it is used. A server may accept each refresh token once, so a new one that is lost signs the storage out. For
 * that reason storages of this process for which the same was typed share the renewal, and one node at a time renews:
 * it first takes over what another one has stored.
 */
import { createHash } from 'node:crypto'
import { untilAborted } from '../../../src/base/cancellation.js'
import type { DriverState } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { BoundState } from './bound-state.js'

/** Milliseconds for which no further renewal is tried after the server has refused one. */
const refusalTime = 5 * 60_000

interface RenewalOptions<Secret> {
  /** The current secret; undefined if there is none yet. */
  readonly initial: Secret | undefined
  /**
   * Requests a new secret. Rejects with `denied` if the server refuses the credentials themselves. It is not aborted by
   * the calls that wait for it.
   */
  readonly request: (current: Secret | undefined) => Promise<Secret>
  /** Resolves when the secret is stored durably. `issued`: see `StoredSecret`. */
  readonly store: (secret: Secret, issued: number) => Promise<void>
  /** Reads what is stored now, maybe by another node. Absent: only this process stores anything. */
  readonly stored?: () => Promise<StoredSecret<Secret> | undefined>
  /** Like `DriverState.exclusively`. Absent: no other node renews. */
  readonly exclusively?: (work: () => Promise<Secret>) => Promise<Secret>
  /** Stores that the server has refused a renewal; undefined: it has not. */
  readonly storeRefusal?: ((refusal: RefusedRenewal | undefined) => Promise<void>) | undefined
}

interface StoredRenewalOptions<Secret> extends Pick<RenewalOptions<Secret>, 'request'> {
  readonly state: DriverState
  /** The key of the secret in the state. */
  readonly key: string
  /**
   * The server, the account and the secret that an admin has typed: what is stored counts for these only, and storages
   * with the same share one renewal.
   */
  readonly typed: string
  /** The secret until the first renewal, such as a typed token. */
  readonly first?: Secret | undefined
}

/** The renewal that the server has refused. */
interface RefusedRenewal {
  readonly reason: string
  /** Until when the refusal counts, in milliseconds since the epoch. */
  readonly until: number
}

interface StoredSecret<Secret> {
  readonly secret: Secret
  /**
   * When it was issued, in milliseconds since the epoch. Larger than that of the secret before, whatever the clocks
   * say.
   */
  readonly issued: number
}

/** The renewals of the process that are in use, by key and what was typed. */
const accounts = new Map<string, unknown>()

export class Renewal<Secret> {
  private readonly account: Account<Secret>

  /** A renewal that no other storage shares. */
  constructor(
    private readonly options: RenewalOptions<Secret>,
    account?: Account<Secret>,
    private readonly release: () => void = () => undefined,
  ) {
    this.account = account ?? new Account(options.initial)
    this.account.members.add(this)
  }

  /** A renewal whose secrets and refusals are stored, and which storages with the same typed secret share. */
  static async open<Secret>(options: StoredRenewalOptions<Secret>): Promise<Renewal<Secret>> {
    const { state, key, typed, first, request } = options
    const stored = await BoundState.open<StoredSecret<Secret>>(state, key, typed)
    const refused = await BoundState.open<RefusedRenewal>(state, `${key} refused`, typed)
    const name = createHash('sha256')
      .update(JSON.stringify([key, typed]))
      .digest('hex')
    const account = (accounts.get(name) as Account<Secret> | undefined) ?? new Account<Secret>(first)
    accounts.set(name, account)
    const renewal = new Renewal<Secret>(
      {
        initial: first,
        request,
        store: (secret, issued) => stored.set({ secret, issued }),
        stored: () => stored.reload(),
        exclusively: (work) => state.exclusively(`renewal ${name}`, work),
        storeRefusal: (refusal) => refused.set(refusal),
      },
      account,
      () => account.members.size === 0 && accounts.delete(name),
    )
    await account.adopt(stored.value, refused.value, (newest) => stored.set(newest))
    return renewal
  }

  get current(): Secret | undefined {
    return this.account.current
  }

  /** Whether another node has renewed the current secret: it may have expired since. */
  get isTaken(): boolean {
    return this.account.isTaken
  }

  /**
   * The current secret, or the first one. Rejects at once for some minutes after the server has refused a renewal: the
   * current one is not accepted either then.
   */
  async get(signal?: AbortSignal): Promise<Secret> {
    this.account.assertNotRefused()
    return this.account.current ?? this.#renewed(signal)
  }

  /** The secret that replaces `rejected`. If that is not the current one any more, nothing is requested. */
  async replace(rejected: Secret, signal?: AbortSignal): Promise<Secret> {
    const { current } = this.account
    if (current !== undefined && current !== rejected) return current
    return this.#renewed(signal)
  }

  /**
   * Takes over what the server has replaced without being asked. `change` returns the new secret, or undefined if
   * nothing has changed. Resolves when it is stored, and counts from then on.
   */
  takeOver(change: (current: Secret | undefined) => Secret | undefined): Promise<void> {
    return this.account.takeOver(change)
  }

  /** Resolves when this storage runs no renewal, and nothing is being taken over. Never rejects. */
  async settled(): Promise<void> {
    const { running, takingOver } = this.account
    if (running?.by === this) await running.promise.catch(() => undefined)
    await takingOver
  }

  /** Leaves the renewal to the other storages. The last call of this object. */
  close(): void {
    this.account.members.delete(this)
    this.release()
  }

  async #renewed(signal: AbortSignal | undefined): Promise<Secret> {
    const { account } = this
    account.assertNotRefused()
    const running = (account.running ??= { by: this, promise: account.renew(this.options) })
    try {
      return await untilAborted(running.promise, signal)
    } catch (error) {
      // The storage that renewed it was closed.
      const isOthers = running.by !== this && isGatewayError(error, 'aborted') && signal?.aborted !== true
      if (!isOthers || !account.members.has(this)) throw error
      return account.current ?? this.#renewed(signal)
    }
  }

  /** Stores what another storage has renewed. */
  storeSecret(secret: Secret, issued: number): Promise<void> {
    return this.options.store(secret, issued)
  }

  async stored(): Promise<StoredSecret<Secret> | undefined> {
    return this.options.stored?.()
  }

  async storeRefusal(refusal: RefusedRenewal | undefined): Promise<void> {
    await this.options.storeRefusal?.(refusal)
  }
}

/** The state that storages share whose admin typed the same secret. */
class Account<Secret> {
  readonly members = new Set<Renewal<Secret>>()
  running: { readonly by: Renewal<Secret>; readonly promise: Promise<Secret> } | undefined
  /** Resolves when no secret is being taken over. Never rejects. */
  takingOver: Promise<void> = Promise.resolve()
  isTaken = false
  /** When the current secret was issued, in milliseconds since the epoch. */
  #issued = 0
  /** A new secret that could not be stored yet. It is not used before it is. */
  #unstored: Secret | undefined
  #refusal: RefusedRenewal | undefined

  constructor(public current: Secret | undefined) {}

  /** Takes what a storage has stored, if it is newer; otherwise the storage stores what is newer. */
  async adopt(
    stored: StoredSecret<Secret> | undefined,
    refusal: RefusedRenewal | undefined,
    store: (newest: StoredSecret<Secret>) => Promise<void>,
  ): Promise<void> {
    if (stored && stored.issued > this.#issued) {
      this.current = stored.secret
      this.#issued = stored.issued
    } else if (this.#issued > (stored?.issued ?? 0) && this.current !== undefined) {
      await store({ secret: this.current, issued: this.#issued })
    }
    const isPlausible = refusal !== undefined && refusal.until - Date.now() <= refusalTime
    if (isPlausible && refusal.until > (this.#refusal?.until ?? 0)) this.#refusal = refusal
    // It concerned an older secret.
    if (this.#refusal && this.#refusal.until - refusalTime < this.#issued) this.#refusal = undefined
  }

  assertNotRefused(): void {
    if (this.#refusal && Date.now() < this.#refusal.until) {
      throw new GatewayError('denied', { detail: 'storage_refused', reason: this.#refusal.reason })
    }
  }

  async renew(options: Pick<RenewalOptions<Secret>, 'request' | 'exclusively'>): Promise<Secret> {
    const { request, exclusively } = options
    const work = async () => {
      const newer = this.#unstored === undefined ? await this.#takeNewer() : undefined
      return newer ? newer.secret : this.#renewed(request)
    }
    try {
      return await (exclusively ? exclusively(work) : work())
    } finally {
      this.running = undefined
    }
  }

  async #renewed(request: RenewalOptions<Secret>['request']): Promise<Secret> {
    this.#unstored ??= await this.#requested(request)
    const secret = this.#unstored
    await this.#use(secret)
    this.#unstored = undefined
    await this.#refuse(undefined)
    return secret
  }

  /** Takes the newest secret that another node has stored for one of the storages; undefined if there is none. */
  async #takeNewer(): Promise<StoredSecret<Secret> | undefined> {
    const stored = await Promise.all([...this.members].map((member) => member.stored()))
    const [newest] = stored.flatMap((each) => each ?? []).sort((one, other) => other.issued - one.issued)
    if (newest === undefined || newest.issued <= this.#issued) return undefined
    this.current = newest.secret
    this.#issued = newest.issued
    this.isTaken = true
    return newest
  }

  /** See `Renewal`. One after the other: each changes what the last one has left. */
  takeOver(change: (current: Secret | undefined) => Secret | undefined): Promise<void> {
    const taken = this.takingOver.then(async () => {
      const secret = change(this.current)
      if (secret !== undefined) await this.#use(secret)
    })
    this.takingOver = taken.catch(() => undefined)
    return taken
  }

  /** Lets a new secret count, once all storages have stored it. */
  async #use(secret: Secret): Promise<void> {
    const issued = Math.max(Date.now(), this.#issued + 1)
    await Promise.all([...this.members].map((member) => member.storeSecret(secret, issued)))
    this.#issued = issued
    this.isTaken = false
    this.current = secret
  }

  async #requested(request: RenewalOptions<Secret>['request']): Promise<Secret> {
    try {
      return await request(this.current)
    } catch (error) {
      // If the connection to the database was lost, another node may have used up the secret and stored its successor.
      const isRefused = isGatewayError(error, 'denied') && !(await this.#takeNewer().catch(() => undefined))
      if (isRefused) {
        await this.#refuse({ reason: error.reason, until: Date.now() + refusalTime })
      }
      throw error
    }
  }

  async #refuse(refusal: RefusedRenewal | undefined): Promise<void> {
    if (refusal === undefined && this.#refusal === undefined) return
    this.#refusal = refusal
    await Promise.all([...this.members].map((member) => member.storeRefusal(refusal)))
  }
}
