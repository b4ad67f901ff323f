/** Identities of users at providers and in directories, cached in memory. */
import type PQueue from 'p-queue'
import { GatewayError } from '../base/errors.js'
import type { IdentityRow, OpenProviderSession } from '../database/identities.js'
import type { Store } from '../database/tables.js'
import type { Settings } from '../settings/settings.js'

export type { IdentityRow } from '../database/identities.js'

/** An identity as its provider has just shown it. */
export type ShownIdentity = Pick<IdentityRow, 'kind' | 'issuer' | 'subject' | 'name'>

/** Maximum per account; bounds the memory. */
const maxPerUser = 20
/** Minimum milliseconds between two recorded sign-ins: a WebDAV client sends its password with every request. */
const touchInterval = 5 * 60_000
const day = 24 * 3600_000

type Times = Partial<Pick<IdentityRow, 'lastUsed' | 'checked'>>

interface IdentitiesOptions {
  readonly store: Pick<Store, 'identities'>
  readonly settings: Pick<Settings, 'number'>
  /** Serializes reads and changes of the cached rows. */
  readonly queue: PQueue
  /** Called for each user whose account at a provider or directory has ended, as this or another process found. */
  readonly onEnded: (userId: number) => void
  /** The time in milliseconds since 1970. */
  readonly now: () => number
}

export class Identities {
  #byId: ReadonlyMap<number, IdentityRow> = new Map()
  #byUser: ReadonlyMap<number, readonly IdentityRow[]> = new Map()
  #byKey: ReadonlyMap<string, IdentityRow> = new Map()

  constructor(private readonly options: IdentitiesOptions) {}

  /** The identities of a user, ordered by id. */
  of(userId: number): readonly IdentityRow[] {
    return this.#byUser.get(userId) ?? []
  }

  /** All identities of this kind, ordered by id. */
  list(kind: IdentityRow['kind']): readonly IdentityRow[] {
    return [...this.#byId.values()].filter((row) => row.kind === kind)
  }

  get(id: number): IdentityRow | undefined {
    return this.#byId.get(id)
  }

  find(issuer: string, subject: string): IdentityRow | undefined {
    return this.#byKey.get(keyOf({ issuer, subject }))
  }

  /** The row of an identity that is linked now; `provisioned`: its user is created with it. */
  newRow(shown: ShownIdentity, provisioned: boolean): Omit<IdentityRow, 'id' | 'userId'> {
    const { kind, issuer, subject, name } = shown
    const time = new Date(this.options.now())
    return { kind, issuer, subject, name, provisioned, linked: time, lastUsed: time, checked: time }
  }

  /**
   * Links an identity to a user. Rejects with `exists` if it is linked to any user, with `invalid` if the user has too
   * many, and with `not_found` for an unknown user.
   */
  async link(userId: number, shown: ShownIdentity): Promise<IdentityRow> {
    const { store, queue } = this.options
    return queue.add(async () => {
      const row = await store.identities.add({ ...this.newRow(shown, false), userId }, maxPerUser)
      if (row === undefined) {
        throw new GatewayError('invalid', { reason: `an account can have at most ${maxPerUser} identities` })
      }
      this.#replace([...this.#byId.values(), row])
      return row
    })
  }

  /**
   * Resolves to the sessions that began by it, which the caller ends. `not_found` if it does not exist or belongs to
   * another user.
   */
  async unlink(userId: number, id: number): Promise<readonly OpenProviderSession[]> {
    const { store, queue } = this.options
    return queue.add(async () => {
      if (this.#byId.get(id)?.userId !== userId) throw new GatewayError('not_found', { reason: 'identity not found' })
      const sessions = await store.identities.unlink(id)
      this.#replace([...this.#byId.values()].filter((row) => row.id !== id))
      return sessions
    })
  }

  /** Records a sign-in by the identity, at most once in five minutes. */
  async signedIn({ id }: IdentityRow): Promise<void> {
    const now = this.options.now()
    const row = this.#byId.get(id)
    if (row === undefined || now - Math.min(row.lastUsed.getTime(), row.checked.getTime()) < touchInterval) return
    await this.#see(row, { lastUsed: new Date(now), checked: new Date(now) })
  }

  /**
   * Records what a look-up at the provider or directory has found: the account exists there, or has ended. Then the
   * user has to sign in there before anything else can be used. `prepare` is called when this holds in this process,
   * before it is stored. If it rejects, nothing is recorded.
   */
  async lookedUp({ id }: IdentityRow, exists: boolean, prepare?: () => Promise<void>): Promise<void> {
    const row = this.#byId.get(id)
    if (row !== undefined) await this.#see(row, { checked: new Date(exists ? this.options.now() : 0) }, prepare)
  }

  /**
   * Whether the user has to sign in at a provider or directory before its other credentials can be used: that with
   * which it was created has not confirmed it within `sso_recheck_days`, whatever others say. Of a user who was not
   * created so, `all` asks whether any has; `provisioned` is false. False for a user without identities.
   */
  isDue(userId: number, which: 'all' | 'provisioned'): boolean {
    const days = this.options.settings.number('sso_recheck_days')
    const created = this.of(userId).filter(({ provisioned }) => provisioned)
    const rows = created.length > 0 || which === 'provisioned' ? created : this.of(userId)
    if (rows.length === 0) return false
    const newest = Math.max(...rows.map(({ checked }) => checked.getTime()))
    return newest === 0 || (days > 0 && newest <= this.options.now() - days * day)
  }

  /** The ids of the users who have identities. */
  userIds(): readonly number[] {
    return [...this.#byUser.keys()]
  }

  /** Removes the rows of a deleted user from memory; the database has deleted them. */
  evictUser(userId: number): void {
    if (this.#byUser.has(userId)) this.#replace([...this.#byId.values()].filter((row) => row.userId !== userId))
  }

  /** Reads the stored rows. Must be called through `queue`. */
  async reload(): Promise<void> {
    this.#replace(await this.options.store.identities.all())
  }

  async #see({ id, lastUsed, checked }: IdentityRow, times: Times, prepare?: () => Promise<void>): Promise<void> {
    const { store, queue } = this.options
    // Set before the write completes, so that concurrent sign-ins do not write it too.
    this.#set(id, times)
    try {
      await prepare?.()
      await queue.add(async () => {
        await store.identities.see(id, times)
        // The row may have been read meanwhile.
        this.#set(id, times)
      })
    } catch (error) {
      this.#set(id, { lastUsed, checked })
      throw error
    }
  }

  #set(id: number, times: Times): void {
    this.#replace([...this.#byId.values()].map((row) => (row.id === id ? { ...row, ...times } : row)))
  }

  #replace(rows: readonly IdentityRow[]): void {
    const before = this.#byId
    const byUser = new Map<number, IdentityRow[]>()
    for (const row of rows) byUser.set(row.userId, [...(byUser.get(row.userId) ?? []), row])
    this.#byId = new Map(rows.map((row) => [row.id, row]))
    this.#byUser = byUser
    this.#byKey = new Map(rows.map((row) => [keyOf(row), row]))
    for (const { id, userId, checked } of rows) {
      if (checked.getTime() === 0 && (before.get(id)?.checked.getTime() ?? 0) > 0) this.options.onEnded(userId)
    }
  }
}

function keyOf({ issuer, subject }: Pick<IdentityRow, 'issuer' | 'subject'>): string {
  return JSON.stringify([issuer, subject])
}
