/** Sessions here that began at a provider, which it can end, also on another node than the one that has opened them. */
import type { Accounts } from '../accounts/accounts.js'
import { providerSignInExpired } from '../accounts/errors.js'
import type { MadeSession } from '../accounts/proof.js'
import { digestOf, newSecret } from '../accounts/random-secrets.js'
import { GatewayError } from '../base/errors.js'
import type { OpenProviderSession, ProviderSessionRow, WhichSessions } from '../database/identities.js'
import type { Store } from '../database/tables.js'
import type { LogoutRequest, ProviderAnswer } from './provider.js'

/** Maximum characters of an ID token that are stored for the sign-out; one that is longer is not. */
const maxIdToken = 16_384

interface ProviderSessionsOptions {
  readonly accounts: Pick<Accounts, 'consoleSessions' | 'tokens'>
  readonly store: Pick<Store, 'providerSessions' | 'revokedTokens'>
}

export class ProviderSessions {
  constructor(private readonly options: ProviderSessionsOptions) {}

  /**
   * Stores what is known of a session before it is opened, so that the provider can end it from now on. Resolves to
   * what opens it. `expires`: until when it must be opened.
   */
  async reserve(identityId: number, { sid, idToken = '' }: ProviderAnswer, expires: Date): Promise<string> {
    const credential = `reserved:${newSecret()}`
    const shown = idToken === '' || idToken.length > maxIdToken ? undefined : idToken
    await this.options.store.providerSessions.insert({ identityId, credential, sid, idToken: shown, expires })
    return credential
  }

  /** Ends the session that was made, and rejects with `provider_sign_in_expired`, if the provider has ended it. */
  async open(reserved: string, userId: number, session: MadeSession): Promise<void> {
    if (await this.options.store.providerSessions.open(reserved, session)) return
    await this.#end({ ...session, userId })
    throw providerSignInExpired()
  }

  /** Ends sessions, as they are stored. Resolves to their number. */
  async end(which: WhichSessions): Promise<number> {
    const sessions = await this.options.store.providerSessions.ending(which)
    await this.endAll(sessions)
    return sessions.length
  }

  async endAll(sessions: readonly OpenProviderSession[]): Promise<void> {
    for (const session of sessions) await this.#end(session)
  }

  /** Returns the stored facts of the session with this credential, for the sign-out at the provider. */
  async ofCredential(credential: string): Promise<ProviderSessionRow | undefined> {
    return this.options.store.providerSessions.ofCredential(credential)
  }

  /** Ends what a logout token names, once. Rejects with the detail `provider_failed` if it was used before. */
  async endBy({ issuer, subject, sid, tokenId, expires }: LogoutRequest): Promise<number> {
    const { revokedTokens } = this.options.store
    const id = `logout:${digestOf(JSON.stringify([issuer, tokenId]))}`
    if (await revokedTokens.has(id)) {
      const reason = 'this logout token was used before'
      throw new GatewayError('invalid', { op: 'sign in', detail: 'provider_failed', reason })
    }
    const count = await this.end({ issuer, subject, sid })
    await revokedTokens.insert(id, expires)
    return count
  }

  async #end({ credential, userId, expires }: MadeSession & { readonly userId: number }): Promise<void> {
    const { tokens, consoleSessions } = this.options.accounts
    const [kind, id = ''] = credential.split(':')
    if (kind === 'token') await tokens.revokeId(userId, id, expires)
    else await consoleSessions.end(userId, Number(id))
  }
}
