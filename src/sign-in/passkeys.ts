/**
 * Passkeys: keys of authenticators, by which users sign in (WebAuthn Level 3). The authenticator has verified its user
 * itself, by a PIN or a finger, so that a passkey counts as two-step verification (docs/decisions/0049).
 */
import type { Users } from '../accounts/users.js'
import { newSecret } from '../accounts/random-secrets.js'
import type { SignInProof } from '../accounts/proof.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { PasskeyRow } from '../database/passkeys.js'
import type { SignInPurpose } from '../database/pending-sign-ins.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import {
  algorithms,
  creationOptions,
  passkeyTime,
  requestOptions,
  type CreationOptions,
  type RequestOptions,
  type PasskeySite,
} from './passkey-options.js'
import { PendingSignIns } from './pending-sign-ins.js'

export type { PasskeyRow } from '../database/passkeys.js'
export type { CreationOptions, RequestOptions, PasskeySite } from './passkey-options.js'

/**
 * A sign-in or registration that has begun: the options for the client's authenticator, and the secret that completes
 * it.
 */
export interface PasskeyRequest<Options> {
  readonly options: Options
  readonly session: string
}

/**
 * The completion of a sign-in or registration: the output of `PublicKeyCredential.toJSON()` in a browser. Bytes are in
 * base64url.
 */
export interface PasskeyAnswer<Response> {
  readonly session: string
  readonly credential: {
    readonly id: string
    readonly rawId: string
    readonly type: 'public-key'
    readonly response: Response
  }
}

/** The signature of a challenge. */
interface Assertion {
  readonly clientDataJSON: string
  readonly authenticatorData: string
  readonly signature: string
}

/** A new passkey. */
interface Attestation {
  readonly clientDataJSON: string
  readonly attestationObject: string
  readonly transports?: readonly string[] | null | undefined
}

/** Maximum per account. */
const maxPerUser = 100
const maxNameLength = 255
const defaultName = 'Passkey'

/** The transports by which clients reach an authenticator (WebAuthn §5.8.4). */
const knownTransports: readonly string[] = ['usb', 'nfc', 'ble', 'smart-card', 'hybrid', 'internal', 'cable']

/** The stored part of a sign-in or registration that has begun. */
interface Begun {
  readonly challenge: string
  readonly site: PasskeySite
  /** The only user whose passkeys are accepted. Absent: those of all users are. */
  readonly userId?: number
  /** The name of a new passkey. */
  readonly name?: string
}

interface PasskeysOptions {
  readonly store: Pick<Store, 'passkeys' | 'pendingSignIns'>
  readonly users: Pick<Users, 'byUniqueRole' | 'get'>
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

export class Passkeys {
  readonly #pending: PendingSignIns
  readonly #users: PasskeysOptions['users']
  readonly #store: PasskeysOptions['store']
  readonly #now: () => number

  constructor({ store, users, now = Date.now }: PasskeysOptions) {
    this.#users = users
    this.#store = store
    this.#now = now
    this.#pending = new PendingSignIns(store.pendingSignIns, now)
  }

  /**
   * Begins a sign-in by any passkey of this site, whoever has it: nothing depends on the name of an account. Rejects
   * with `throttled` if the network has begun too many. `address`: the client's.
   */
  async beginSignIn(site: PasskeySite, address: string): Promise<PasskeyRequest<RequestOptions>> {
    const { challenge, session } = await this.#begin('passkey', address, { site })
    return { options: requestOptions(site, challenge), session }
  }

  /**
   * Begins the confirmation of a session, or the second step of a sign-in, by a passkey of this user, which the browser
   * need not store by itself. Undefined if the user has none. Rejects as `beginSignIn`.
   */
  async beginOf(
    site: PasskeySite,
    userId: number,
    address: string,
  ): Promise<PasskeyRequest<RequestOptions> | undefined> {
    const passkeys = await this.list(userId)
    if (passkeys.length === 0) return undefined
    const { challenge, session } = await this.#begin('passkey', address, { site, userId })
    return { options: requestOptions(site, challenge, passkeys), session }
  }

  /**
   * The proof that an answer is. Of what `beginOf` has begun, `userId` says for whom. `username`: whose passkey the
   * client says it is; empty for anybody's. `prove` rejects with `unauthenticated` and the detail `passkey_refused`.
   */
  async proof(
    answer: PasskeyAnswer<Assertion>,
    {
      address,
      userId,
      username = '',
    }: Pick<SignInProof, 'address'> & { readonly userId?: number; readonly username?: string },
  ): Promise<SignInProof> {
    const row = await this.#store.passkeys.withCredentialId(answer.credential.id)
    const owner = row && this.#users.get(row.userId)
    return {
      kind: 'passkey',
      username: owner?.username ?? '',
      address,
      prove: async () => {
        const user = await this.#verify(answer, userId)
        if (username !== '' && username !== user.username) throw refusal('it is the passkey of another user')
        return { user, hasTwoStep: true }
      },
    }
  }

  /** Returns what checks an answer as the second step of a sign-in. It rejects as `prove` of `proof` does. */
  secondStep(answer: PasskeyAnswer<Assertion>): (user: UserRow) => Promise<void> {
    return async ({ id }) => {
      await this.#verify(answer, id)
    }
  }

  /**
   * Begins the registration of a passkey. `name`: by which the user tells it from others. `siteName`: what the
   * authenticator shows. Rejects as `beginSignIn`, and with `invalid` for a name that is too long.
   */
  async beginRegistration(
    site: PasskeySite,
    user: Pick<UserRow, 'id' | 'username'>,
    { address, name, siteName }: { readonly address: string; readonly name: string; readonly siteName: string },
  ): Promise<PasskeyRequest<CreationOptions>> {
    const facts = { site, userId: user.id, name: checkName(name === '' ? defaultName : name) }
    const { challenge, session } = await this.#begin('passkey-registration', address, facts)
    const rp = { id: site.id, name: siteName }
    return { options: creationOptions(rp, challenge, user, await this.list(user.id)), session }
  }

  /**
   * Stores the passkey that the user's authenticator has made. Rejects with `unauthenticated` and the detail
   * `passkey_refused`, with `exists` if anybody has registered it before, and with `too_large` if the user has too
   * many.
   */
  async register(userId: number, { session, credential }: PasskeyAnswer<Attestation>): Promise<void> {
    const begun = await this.#take('passkey-registration', session)
    if (begun.userId !== userId) throw refusal('another user has begun this registration')
    const { response } = credential
    const { clientDataJSON, attestationObject } = response
    const { registrationInfo: made } = await verifying(async (webauthn) => {
      await assertPlainAttestation(response)
      return webauthn.verifyRegistrationResponse({
        response: { ...credential, response: { clientDataJSON, attestationObject }, clientExtensionResults: {} },
        expectedChallenge: begun.challenge,
        expectedOrigin: begun.site.origin,
        expectedRPID: begun.site.id,
        supportedAlgorithmIDs: [...algorithms],
      })
    })
    if (made === undefined) throw refusal('its attestation is wrong')
    const { id, publicKey, counter } = made.credential
    const row = {
      userId,
      credentialId: id,
      publicKey: Buffer.from(publicKey),
      counter,
      backupEligible: made.credentialDeviceType === 'multiDevice',
      transports: knownTransports.filter((each) => response.transports?.includes(each)),
      aaguid: made.aaguid,
      name: begun.name ?? defaultName,
      created: new Date(this.#now()),
      lastUsed: undefined,
    }
    if ((await this.#store.passkeys.add(row, maxPerUser)) !== undefined) return
    throw new GatewayError('too_large', { reason: `an account can have at most ${maxPerUser} passkeys` })
  }

  /** The passkeys of the user, in the order in which they were registered. */
  list(userId: number): Promise<readonly PasskeyRow[]> {
    return this.#store.passkeys.of(userId)
  }

  /** Rejects with `not_found` if the user has no such passkey, and with `invalid` for an empty or too long name. */
  async rename(userId: number, credentialId: string, name: string): Promise<void> {
    const checked = checkName(name)
    const row = await this.#ofUser(userId, credentialId)
    if (row === undefined) throw new GatewayError('not_found', { reason: 'there is no such passkey' })
    await this.#store.passkeys.update(row.id, { name: checked })
  }

  /** Removes a passkey of the user. Does nothing if there is none. Sessions that it has opened continue. */
  async delete(userId: number, credentialId: string): Promise<void> {
    const row = await this.#ofUser(userId, credentialId)
    if (row !== undefined) await this.#store.passkeys.delete(row.id)
  }

  async #ofUser(userId: number, credentialId: string): Promise<PasskeyRow | undefined> {
    const row = await this.#store.passkeys.withCredentialId(credentialId)
    return row?.userId === userId ? row : undefined
  }

  async #begin(
    purpose: SignInPurpose,
    address: string,
    facts: Omit<Begun, 'challenge'>,
  ): Promise<{ readonly challenge: string; readonly session: string }> {
    this.#pending.count(address)
    const challenge = newSecret()
    const data = { ...facts, challenge } satisfies Begun
    return { challenge, session: await this.#pending.begin(purpose, { address, data, time: passkeyTime }) }
  }

  /**
   * Returns what was begun with this secret, once. Throws a refusal if it was not begun here, has expired, or was
   * completed before.
   */
  async #take(purpose: SignInPurpose, session: string): Promise<Begun> {
    const begun = await this.#pending.take<Begun>(purpose, session)
    if (begun === undefined) throw refusal('it was not begun here, has taken too long, or was completed before')
    return begun
  }

  /** The user whose passkey has signed the challenge. `userId`: that of `beginOf`. */
  async #verify({ session, credential }: PasskeyAnswer<Assertion>, userId?: number): Promise<UserRow> {
    const begun = await this.#take('passkey', session)
    const { passkeys } = this.#store
    const row = await passkeys.withCredentialId(credential.id)
    const user = row && this.#users.get(row.userId)
    if (row === undefined || user === undefined || user === this.#users.byUniqueRole('guest'))
      throw refusal('it is not registered')
    if (begun.userId !== userId || (userId !== undefined && userId !== user.id)) {
      throw refusal('it was begun for something else')
    }
    const { verified, authenticationInfo: shown } = await verifying(({ verifyAuthenticationResponse }) =>
      verifyAuthenticationResponse({
        response: { ...credential, clientExtensionResults: {} },
        expectedChallenge: begun.challenge,
        expectedOrigin: begun.site.origin,
        expectedRPID: begun.site.id,
        // The rule for counters is below, and the library's is stricter.
        credential: { id: row.credentialId, publicKey: new Uint8Array(row.publicKey), counter: 0 },
      }),
    )
    if (!verified) throw refusal('its signature is wrong')
    const { newCounter: counter } = shown
    // Devices that share a passkey do not share a counter. Whether they may, a copy must not say of itself.
    if (row.counter > 0 && counter <= row.counter && !row.backupEligible) {
      throw refusal('its signature counter did not advance: it may have been copied')
    }
    const used = await passkeys.use(row, { counter, lastUsed: new Date(this.#now()) })
    if (!used) throw refusal('it was used elsewhere at the same time')
    return user
  }
}

type WebAuthn = typeof import('@simplewebauthn/server')

/** Runs a verification, all of whose errors are refusals of what the client has sent. */
async function verifying<T>(verify: (webauthn: WebAuthn) => Promise<T>): Promise<T> {
  // Loaded on demand, because it is large.
  const webauthn = await import('@simplewebauthn/server')
  try {
    return await verify(webauthn)
  } catch (error) {
    throw isGatewayError(error) ? error : refusal((error as Error).message.slice(0, 200))
  }
}

/**
 * Refuses statements of manufacturers, which were not asked for: the library would check their certificates, for some
 * formats by addresses in them. Browsers pass on that of an authenticator about itself (`packed`).
 */
async function assertPlainAttestation({ attestationObject }: Attestation): Promise<void> {
  const { decodeAttestationObject, isoBase64URL } = await import('@simplewebauthn/server/helpers')
  const statement = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject))
  const format = statement.get('fmt')
  if (format !== 'none' && format !== 'packed') throw refusal('its attestation was not asked for')
}

function checkName(name: string): string {
  if (name !== '' && Buffer.byteLength(name) <= maxNameLength && name.isWellFormed()) return name
  throw new GatewayError('invalid', { reason: `a passkey needs a name of at most ${maxNameLength} bytes` })
}

/** The error for a refused passkey. `reason` is for the log and the audit. Clients get the detail only. */
function refusal(reason: string): GatewayError {
  return new GatewayError('unauthenticated', {
    op: 'sign in',
    detail: 'passkey_refused',
    reason: `the passkey: ${reason}`,
  })
}
