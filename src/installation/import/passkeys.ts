/** Passkeys of the users of AList and OpenList, as rows of an installation. Nothing is read or written here. */
import { z } from 'zod'
import { GatewayError } from '../../base/errors.js'
import type { ImportedPasskey } from '../../database/installation.js'
import type { Report } from './report.js'

/** The largest number of passkeys of a user. */
const maxPasskeys = 100

const bytes = z.string().transform((text) => Buffer.from(text, 'base64'))

/** A credential as their library stores it (go-webauthn). Those of older versions have no flags. */
const credential = z.object({
  id: bytes.refine(({ length }) => length > 0 && length <= 1023, 'its id is not one of WebAuthn'),
  publicKey: bytes.refine(({ length }) => length > 0 && length <= 4096, 'its key has no size of a key'),
  transport: z.array(z.string()).nullish(),
  flags: z.object({ backupEligible: z.boolean().default(false) }).nullish(),
  authenticator: z.object({
    AAGUID: bytes.nullish(),
    signCount: z.int().min(0).max(0xffffffff).default(0),
  }),
})

/**
 * The passkeys in the column `authn` of a user, reported one by one. `taken`: the ids of the passkeys of users so far,
 * to which these are added: an id is that of one passkey.
 */
export async function passkeysOf(
  column: string,
  username: string,
  taken: Set<string>,
  report: Report,
): Promise<readonly ImportedPasskey[]> {
  if (['', '[]', 'null'].includes(column)) return []
  const list = await report.mapped('passkeys', username, () => listOf(column))
  const passkeys: ImportedPasskey[] = []
  for (const [index, each] of (list ?? []).entries()) {
    const name = `Passkey ${index + 1}`
    const passkey = await report.mapped('passkey', `${username}: ${name}`, () => passkeyOf(each, name, taken, passkeys))
    if (passkey === undefined) continue
    report.taken('passkey', `${username}: ${name}`)
    taken.add(passkey.credentialId)
    passkeys.push(passkey)
  }
  return passkeys
}

function listOf(column: string): readonly unknown[] {
  try {
    return z
      .array(z.unknown())
      .max(10 * maxPasskeys)
      .parse(JSON.parse(column))
  } catch (error) {
    throw new GatewayError('invalid', { reason: 'they are not the JSON of a list', cause: error })
  }
}

async function passkeyOf(
  value: unknown,
  name: string,
  taken: ReadonlySet<string>,
  others: readonly ImportedPasskey[],
): Promise<ImportedPasskey> {
  const parsed = credential.safeParse(value)
  if (!parsed.success) throw new GatewayError('invalid', { reason: parsed.error.issues[0]?.message ?? 'it is damaged' })
  const { id, publicKey, transport, flags, authenticator } = parsed.data
  const credentialId = id.toString('base64url')
  if (taken.has(credentialId)) throw new GatewayError('invalid', { reason: 'another passkey has its id' })
  if (others.length === maxPasskeys) {
    throw new GatewayError('invalid', { reason: `an account can have at most ${maxPasskeys} passkeys` })
  }
  await assertKey(publicKey)
  return {
    credentialId,
    publicKey,
    counter: authenticator.signCount,
    backupEligible: flags?.backupEligible ?? false,
    transports: (transport ?? []).filter((each) => /^[a-z-]{1,20}$/.test(each)),
    aaguid: uuidOf(authenticator.AAGUID ?? Buffer.alloc(16)),
    name,
    created: new Date(),
    lastUsed: undefined,
  }
}

/** Throws `invalid` unless it is a key in the form of COSE. */
async function assertKey(publicKey: Buffer): Promise<void> {
  // Loaded on demand, because few imports have passkeys.
  const { cose, decodeCredentialPublicKey } = await import('@simplewebauthn/server/helpers')
  try {
    const algorithm = decodeCredentialPublicKey(new Uint8Array(publicKey)).get(cose.COSEKEYS.alg)
    if (typeof algorithm === 'number') return
  } catch {
    // The bytes are not CBOR.
  }
  throw new GatewayError('invalid', { reason: 'its key is damaged' })
}

function uuidOf(bytes: Buffer): string {
  const digits = bytes.toString('hex').slice(0, 32).padEnd(32, '0')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
