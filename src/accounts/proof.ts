/** Proofs of who somebody is that are not a password, an app password or an SSH key of this server. */
import type { IdentityRow } from '../database/identities.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { Credentials } from './password-check.js'

/** An attempt to sign in by a provider, a directory or a passkey. */
export interface SignInProof extends Pick<Credentials, 'code' | 'address' | 'signal'> {
  readonly kind: IdentityRow['kind'] | 'passkey'
  /** The name of the account if it is known before the proof; otherwise empty. */
  readonly username: string
  /**
   * Proves it, and records that in `Identities`. Called once. Rejects with a `GatewayError`, which is recorded as that
   * of a refused sign-in.
   */
  prove(): Promise<Proved>
}

export interface Proved {
  readonly user: UserRow
  /** Whether the proof counts as two-step verification: no code of the account is asked. */
  readonly hasTwoStep: boolean
  /**
   * When the user last sent a password or the like at the provider, which asks for none while its own session goes on;
   * 1970 if the provider does not say. Undefined: now.
   */
  readonly at?: Date | undefined
  /** Called with the session that was made, before its client has it; for what has to be stored with it. */
  readonly onSession?: ((session: MadeSession) => Promise<void>) | undefined
}

export interface MadeSession {
  readonly credential: `token:${string}` | `console:${number}`
  /** When it ends, at the latest. */
  readonly expires: Date
}
