/** What an authenticator is asked for, as the JSON of WebAuthn Level 3 (§5.1.8). Bytes are in base64url. */
import type { PasskeyRow } from '../database/passkeys.js'
import type { UserRow } from '../database/tables/accounts.js'

/** The site as authenticators know it: a passkey is bound to the host of its pages. */
export interface PasskeySite {
  /** The host (`rp.id`). */
  readonly id: string
  /** Scheme, host and port of the pages. */
  readonly origin: string
}

interface Descriptor {
  readonly type: 'public-key'
  readonly id: string
  readonly transports?: string[]
}

interface CommonOptions {
  readonly challenge: string
  /** Milliseconds. */
  readonly timeout: number
}

/** The options that `navigator.credentials.get` is called with. */
export interface RequestOptions extends CommonOptions {
  readonly rpId: string
  readonly userVerification: 'required'
  /** Absent: any passkey that the authenticator has for this site. */
  readonly allowCredentials?: readonly Descriptor[]
}

/** The options that `navigator.credentials.create` is called with. */
export interface CreationOptions extends CommonOptions {
  readonly rp: { readonly id: string; readonly name: string }
  readonly user: { readonly id: string; readonly name: string; readonly displayName: string }
  readonly pubKeyCredParams: readonly { readonly type: 'public-key'; readonly alg: number }[]
  readonly excludeCredentials: readonly Descriptor[]
  readonly authenticatorSelection: {
    readonly residentKey: 'required'
    readonly requireResidentKey: true
    readonly userVerification: 'required'
  }
  readonly attestation: 'none'
}

/** Milliseconds within which what has begun must be completed. */
export const passkeyTime = 5 * 60_000

/** The accepted algorithms, by their ids of COSE: Ed25519, ECDSA with P-256, RSA. */
export const algorithms: readonly number[] = [-8, -7, -257]

/** `passkeys`: those that are allowed; by default all. */
export function requestOptions(site: PasskeySite, challenge: string, passkeys?: readonly PasskeyRow[]): RequestOptions {
  const allowed = passkeys && { allowCredentials: passkeys.map(descriptorOf) }
  return { challenge, timeout: passkeyTime, rpId: site.id, userVerification: 'required', ...allowed }
}

/** `existing`: the passkeys of the user, beside which an authenticator makes no other. */
export function creationOptions(
  rp: CreationOptions['rp'],
  challenge: string,
  { id, username: name }: Pick<UserRow, 'id' | 'username'>,
  existing: readonly PasskeyRow[],
): CreationOptions {
  return {
    challenge,
    timeout: passkeyTime,
    rp,
    user: { id: userHandle(id), name, displayName: name },
    pubKeyCredParams: algorithms.map((alg) => ({ type: 'public-key', alg })),
    excludeCredentials: existing.map(descriptorOf),
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
    attestation: 'none',
  }
}

/** The id of the user as eight bytes, the lowest first, so that it outlives a change of the name. */
function userHandle(id: number): string {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(id))
  return bytes.toString('base64url')
}

function descriptorOf({ credentialId: id, transports }: PasskeyRow): Descriptor {
  return { type: 'public-key', id, ...(transports.length > 0 && { transports: [...transports] }) }
}
