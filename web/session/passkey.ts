/** Passkeys: what the browser has an authenticator of the user do. */
import { useQuery } from '@tanstack/preact-query'
import { get, post, type Data } from '../api/client.ts'
import { publicSettings } from '../api/queries.ts'
import type { components } from '../api/schema.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('session')

/** What has begun, and waits for the answer of an authenticator. */
type PasskeyRequest = Data<'/api/authn/webauthn_begin_login'>

/** What completes it. */
export type PasskeyAnswer = components['schemas']['PasskeyAnswer']

type NewPasskey = components['schemas']['AuthnWebauthnFinishRegistrationFields']

/** Whether the server accepts passkeys, and the browser can use them at this address. */
export function usePasskeysOn(): boolean {
  const { data } = useQuery(publicSettings)
  return data?.webauthn_login_enabled === 'true' && canUsePasskeys()
}

/** Browsers offer them over https and at their own machine only, and older ones cannot read the options. */
function canUsePasskeys(): boolean {
  return 'PublicKeyCredential' in globalThis && 'parseRequestOptionsFromJSON' in PublicKeyCredential
}

/** Whether the server offers a passkey as the second step, with what it has refused. */
export function offeredPasskey(data: unknown): PasskeyRequest | undefined {
  return canUsePasskeys() ? (data as { readonly passkey?: PasskeyRequest } | null)?.passkey : undefined
}

/** The answer of an authenticator. Rejects with a text for the user. */
export async function answerOf({ options, session }: PasskeyRequest): Promise<PasskeyAnswer> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey)
  return { session, credential: await jsonOf(navigator.credentials.get({ publicKey })) }
}

/** Signs in to the console with any passkey that the user chooses. */
export async function openSessionByPasskey(remember: boolean): Promise<void> {
  const answer = await answerOf(await get('/api/authn/webauthn_begin_login'))
  await post('/api/auth/session/passkey', { ...answer, remember })
}

/** Confirms the session with a passkey of its user. */
export async function confirmByPasskey(): Promise<void> {
  await post('/api/auth/session/confirm/passkey', await answerOf(await get('/api/auth/session/confirm/passkey/begin')))
}

/**
 * Makes a passkey and registers it under this name. Rejects as `answerOf`, and with `ApiError`. `code`: one of two-step
 * verification, or empty.
 */
export async function registerPasskey(name: string, code: string): Promise<void> {
  const begin = { query: { name }, headers: { 'otp-code': code } }
  const { options, session } = await get('/api/authn/webauthn_begin_registration', begin)
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey)
  const credential = await jsonOf<NewPasskey>(navigator.credentials.create({ publicKey }))
  await post('/api/authn/webauthn_finish_registration', credential, { headers: { session } })
}

async function jsonOf<Json>(asked: Promise<Credential | null>): Promise<Json> {
  try {
    const credential = (await asked) as PublicKeyCredential
    return credential.toJSON() as Json
  } catch (error) {
    throw new Error(textOf(error), { cause: error })
  }
}

/** The failures of authenticators have names (Web Authentication Level 3), and texts that say nothing to users. */
function textOf(error: unknown): string {
  switch (error instanceof DOMException ? error.name : undefined) {
    case 'NotAllowedError':
      return texts.session.passkeyCanceled
    case 'InvalidStateError':
      return texts.session.passkeyExists
    case 'SecurityError':
      return texts.session.passkeyElsewhere
    default:
      return String(error)
  }
}
