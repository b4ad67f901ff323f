/**
 * Passkeys in the JSON of the family, whose options and credentials are those of WebAuthn Level 3, and the site to
 * which a passkey is bound.
 */
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import type { PasskeyRequest, PasskeyRow, PasskeySite } from '../../../src/sign-in/passkeys.js'
import type { Refusal } from '../api/endpoint.js'
import { refused } from '../api/errors.js'
import { requiredText } from '../api/fields.js'
import type { HttpApi } from '../api/http-api.js'
import { coreRefusal } from '../api/refusals.js'
import { timestamp } from '../api/schemas.js'
import { wireTime } from './object.js'

/** Bytes in base64url without padding. */
const bytes = z
  .string()
  .max(16_384)
  .regex(/^[\w-]*$/, 'must be base64url')
const credentialId = bytes.min(1, 'must not be empty').max(1364)

const credentialFields = {
  id: credentialId.meta({ example: 'AAAA' }),
  rawId: credentialId.meta({ example: 'AAAA' }),
  type: z.literal('public-key', { error: 'must be public-key' }),
}

const clientData = bytes.meta({ example: 'e30' })

/** The answer of an authenticator to the options of a sign-in (`AuthenticationResponseJSON`). */
export const assertion = z.object({
  ...credentialFields,
  response: z
    .object({ clientDataJSON: clientData, authenticatorData: bytes, signature: bytes })
    .meta({ id: 'PasskeyAssertion', example: { clientDataJSON: 'e30', authenticatorData: 'AAAA', signature: 'AAAA' } }),
})

/** The answer of an authenticator to the options of a registration (`RegistrationResponseJSON`). */
export const attestation = z.object({
  ...credentialFields,
  response: z
    .object({
      clientDataJSON: clientData,
      attestationObject: bytes,
      transports: z.array(z.string()).nullish(),
    })
    .meta({ id: 'PasskeyAttestation', example: { clientDataJSON: 'e30', attestationObject: 'AAAA' } }),
})

/** The secret of what has begun. */
const beginning = z
  .string('session is missing')
  .regex(/^[\w-]{43}$/, 'session is not one that a beginning has returned')
  .meta({ example: 'A'.repeat(43) })

/** The secret in the header of that name. */
export const inHeader = { headers: z.object({ session: beginning }) }
export const wrongSession: Refusal = { code: 400, text: 'session is …', error: 'invalid' }

/** What completes what has begun, in one object. */
export const answerFields = z.object({
  session: beginning,
  credential: assertion.meta({ id: 'PasskeyCredential' }),
})

/** What completes what has begun, as the value of a field. */
export const answer = answerFields.meta({ id: 'PasskeyAnswer' })

export const passkeyRefused: Refusal = {
  ...coreRefusal('unauthenticated', { detail: 'passkey_refused' }),
  code: 400,
  when: 'the passkey is not known, its answer is wrong, or what has begun was completed or has expired',
}

const bytesData = z.string().describe('Bytes in base64url.')
const descriptors = z
  .array(
    z
      .object({ type: z.literal('public-key'), id: bytesData, transports: z.array(z.string()).optional() })
      .meta({ id: 'PasskeyDescriptor' }),
  )
  .readonly()
const commonOptions = {
  challenge: bytesData,
  timeout: z.int().describe('Milliseconds.'),
}
const session = z.string().describe('The secret that completes it, once, within five minutes.')

/** Clients of the family expect the options of the browser's function below `publicKey`. */
function optionsOf<Options extends z.ZodObject>(id: string, options: Options) {
  return z.object({ publicKey: options.meta({ id: `${id}JSON` }) }).meta({ id })
}

/** What begins a sign-in. */
export const requestData = z
  .object({
    options: optionsOf(
      'PasskeyRequestOptions',
      z.object({
        ...commonOptions,
        rpId: z.string(),
        userVerification: z.literal('required'),
        allowCredentials: descriptors.optional().describe('Absent: any passkey of this site.'),
      }),
    ),
    session,
  })
  .meta({ id: 'PasskeyRequest' })

/** What begins a registration. */
export const creationData = z.object({
  options: optionsOf(
    'PasskeyCreationOptions',
    z.object({
      ...commonOptions,
      rp: z.object({ id: z.string(), name: z.string() }).meta({ id: 'PasskeySite' }),
      user: z.object({ id: bytesData, name: z.string(), displayName: z.string() }).meta({ id: 'PasskeyUser' }),
      pubKeyCredParams: z
        .array(z.object({ type: z.literal('public-key'), alg: z.int() }).meta({ id: 'PasskeyAlgorithm' }))
        .readonly(),
      excludeCredentials: descriptors,
      authenticatorSelection: z
        .object({
          residentKey: z.literal('required'),
          requireResidentKey: z.literal(true),
          userVerification: z.literal('required'),
        })
        .meta({ id: 'PasskeySelection' }),
      attestation: z.literal('none'),
    }),
  ),
  session,
})

/** What has begun, as `requestData` and `creationData` have it. */
export function begunObject<Options>({ options, session }: PasskeyRequest<Options>) {
  return { options: { publicKey: options }, session }
}

export const passkeyData = z
  .object({
    id: z.string().describe('The id of the credential, in base64 with padding.'),
    fingerprint: z.string().describe('The AAGUID, which is the model of the authenticator, in hexadecimal.'),
    name: z.string(),
    created_at: timestamp,
    last_used_at: timestamp.nullable().describe('null: never.'),
  })
  .meta({ id: 'Passkey' })

/** The id of a passkey in requests. */
export const passkeyId = requiredText.max(2048).meta({ example: 'AAAA' }).describe('As in the list.')

/** That id in the form in which it is stored. */
export function credentialIdOf(id: string): string {
  return Buffer.from(id, 'base64').toString('base64url')
}

/** The name of the user's passkey of that id; undefined if there is none. */
export async function passkeyName({ gateway }: HttpApi, userId: number, id: string): Promise<string | undefined> {
  const rows = await gateway.passkeys.list(userId)
  return rows.find(({ credentialId }) => credentialId === credentialIdOf(id))?.name
}

export function passkeyObject({ credentialId: id, aaguid, ...row }: PasskeyRow): z.input<typeof passkeyData> {
  return {
    id: Buffer.from(id, 'base64url').toString('base64'),
    fingerprint: (aaguid.replaceAll('-', '').toUpperCase().match(/../g) ?? []).join(' '),
    name: row.name,
    created_at: wireTime(row.created),
    last_used_at: row.lastUsed === undefined ? null : wireTime(row.lastUsed),
  }
}

export const passkeysOff: Refusal = { code: 403, text: 'WebAuthn is not enabled', error: 'denied' }
export const noSite: Refusal = {
  code: 400,
  text: 'passkeys need the address of this site: set site_url to a URL of https in the configuration',
  error: 'invalid',
  when: '`site_url` has no host name or is of http, and the request is not one to `localhost` from this machine',
}

/**
 * The site that passkeys are bound to, from `site_url`: browsers accept a name of a host over https, and `localhost`.
 * Without a host in `site_url`, `localhost` with the port of the request is accepted from this machine: no proxy and no
 * other client can name the site. Throws a 403 if passkeys are off, and a 400 if there is no such site.
 */
export function siteOf(api: HttpApi, request: IncomingMessage): PasskeySite {
  if (!api.gateway.settings.bool('webauthn_login_enabled')) throw refused(passkeysOff)
  const site = siteIfOn(api, request)
  if (site === undefined) throw refused(noSite)
  return site
}

/** Like `siteOf`. Undefined where that throws. */
export function siteIfOn(api: HttpApi, request: IncomingMessage): PasskeySite | undefined {
  const { config, settings } = api.gateway
  if (!settings.bool('webauthn_login_enabled')) return undefined
  const url = /^https?:/i.test(config.site_url) ? new URL(config.site_url) : localUrl(api, request)
  const isLocal = url !== undefined && /^(?:.+\.)?localhost$/.test(url.hostname)
  const isName = url !== undefined && /[a-z]/.test(url.hostname) && !url.hostname.startsWith('[')
  return isLocal || (isName && url.protocol === 'https:') ? { id: url.hostname, origin: url.origin } : undefined
}

function localUrl(api: HttpApi, request: IncomingMessage): URL | undefined {
  const { address, secure } = api.clientOf(request)
  const { host = '' } = request.headers
  const isHere = /^(?:127\.|::1$)/.test(address) && /^localhost(?::\d{1,5})?$/.test(host)
  const url = `${secure ? 'https' : 'http'}://${host}`
  return isHere && URL.canParse(url) ? new URL(url) : undefined
}
