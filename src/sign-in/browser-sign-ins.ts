/** What has begun at a provider, each completed once, by the browser with the cookie that it got. */
import { providerSignInExpired } from '../accounts/errors.js'
import type { ShownIdentity } from '../accounts/identities.js'
import { digestOf } from '../accounts/random-secrets.js'
import { timingSafeEqualText } from '../accounts/timing-safe-text.js'
import type { SignInPurpose } from '../database/pending-sign-ins.js'
import type { Store } from '../database/tables.js'
import { PendingSignIns } from './pending-sign-ins.js'

/**
 * What a sign-in at the provider leads to: a token, an id to link, a session of the console, a link to the user of one,
 * or the confirmation of one.
 */
export type SsoMethod = 'sso_get_token' | 'get_sso_id' | 'console' | 'link' | 'confirm'

/** The browser that signs in. */
export interface SsoBrowser {
  /** The secret that it has in a cookie; undefined if it has none. */
  readonly secret: string | undefined
  /** The address of the browser, without port. */
  readonly address: string
  readonly userAgent: string
}

/** A sign-in at the provider, until the browser comes back from there. */
export interface Begun {
  readonly method: SsoMethod
  /** The provider that it was begun at. */
  readonly issuer: string
  readonly redirectUri: string
  readonly nonce: string
  readonly verifier: string
  /** SHA-256 of the secret of the browser. */
  readonly browser: string
  /**
   * The id of the session of the console whose user links an identity, or confirms the session, or of that which a new
   * one of the browser replaces.
   */
  readonly session?: number | undefined
  /** The page of the console where the user goes on. */
  readonly after: string
}

/** A sign-in that lacks the code of the account. */
export interface AwaitingCode {
  readonly begun: Begun
  readonly identityId: number
  /** When the user has signed in at the provider, in milliseconds since 1970. */
  readonly authTime: number | undefined
  /** The reservation that opens its session in `ProviderSessions`. Undefined if it confirms a session. */
  readonly reserved?: string | undefined
}

/** An identity that a user may link to an account by sending its id back. */
export interface Linkable {
  readonly browser: string
  readonly shown: ShownIdentity
}

/** Milliseconds for which a sign-in may take, and for which an identity may be linked. */
export const pendingTime = 10 * 60_000

/** The data of each purpose, stored until the browser sends their secret. */
interface Kept {
  readonly provider: Begun
  readonly 'provider-code': AwaitingCode
  readonly 'provider-link': Linkable
}

export class BrowserSignIns {
  readonly #pending: PendingSignIns

  /** `now`: milliseconds since 1970. */
  constructor(table: Store['pendingSignIns'], now: () => number) {
    this.#pending = new PendingSignIns(table, now)
  }

  /** Counts a beginning by the network of the browser, as `PendingSignIns.count` does, and throws as it does. */
  count({ address }: SsoBrowser): void {
    this.#pending.count(address)
  }

  /** Stores what has begun. Resolves to the secret that completes it, by default a new one. */
  keep<Purpose extends keyof Kept & SignInPurpose>(
    purpose: Purpose,
    { address }: SsoBrowser,
    data: Kept[Purpose],
    secret?: string,
  ): Promise<string> {
    return this.#pending.begin(purpose, { address, data, time: pendingTime }, secret)
  }

  /**
   * Returns the stored data, once, for the browser that began it. Rejects with the detail `provider_sign_in_expired`.
   */
  async take<Purpose extends keyof Kept & SignInPurpose>(
    purpose: Purpose,
    secret: string,
    { secret: cookie = '' }: SsoBrowser,
  ): Promise<Kept[Purpose]> {
    const data = await this.#pending.take<Kept[Purpose]>(purpose, secret)
    const browser = data && ('browser' in data ? data.browser : data.begun.browser)
    if (data === undefined || browser === undefined || !timingSafeEqualText(digestOf(cookie), browser)) {
      throw providerSignInExpired()
    }
    return data
  }
}
