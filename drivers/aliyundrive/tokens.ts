/** The tokens of a storage: an access token is renewed by a refresh token, which is replaced by a new one each time. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { ApiClient, type ApiAnswer, type ApiCall, type AnswerMeaning } from '../lib/json-api/api-client.js'
import { field, textOf } from '../lib/json-api/lenient.js'
import type { RateGate } from '../lib/json-api/rate-gate.js'
import { Renewal } from '../lib/json-api/renewal.js'
import { HttpClient } from '../lib/http/http-client.js'
import { parseServerAddress } from '../lib/http/server-address.js'
import type { AliyundriveOptions } from './index.js'

export interface TokenPair {
  readonly access: string
  readonly refresh: string
}

const tokenServer = 'token server'
/** A token server that fails is asked so many times more. */
const extraTries = 3
/** Milliseconds before the first of them; doubled for each further one. */
const retryDelay = 500

/** The tokens of a storage. `close` of the client that uses them closes the renewal. */
export interface TokenSource {
  readonly renewal: Renewal<TokenPair>
  /** The client for the requests of the renewal. */
  readonly client: ApiClient
}

/** `gate`: what renewals pass. */
export async function openTokens(
  options: AliyundriveOptions,
  env: DriverEnv,
  server: RenewalServer,
  gate: RateGate,
): Promise<TokenSource> {
  const { refresh_token, client_id, client_secret, AccessToken } = options
  const { address } = server
  const http = new HttpClient({ server: tokenServer, address, verifiesCertificate: true, egress: env.egress })
  const client = new ApiClient({ server: tokenServer, http, gate, meaningOf: meaningOfRenewal })
  const renewal = await Renewal.open<TokenPair>({
    state: env.state,
    key: 'tokens',
    typed: JSON.stringify([address.origin, refresh_token, client_id, client_secret]),
    first: AccessToken === '' ? undefined : { access: AccessToken, refresh: refresh_token },
    request: (current) => renewed(client, server, current?.refresh ?? refresh_token),
  })
  return { renewal, client }
}

/** The server that renews tokens, and the form of its requests. */
export interface RenewalServer {
  readonly address: URL
  readonly call: (refreshToken: string) => Pick<ApiCall, 'url' | 'json'>
}

/**
 * Aliyundrive itself for an own application, otherwise one of the services that have an application for their users.
 * `base`: address of the API. Throws `invalid`.
 */
export function renewalServer(options: AliyundriveOptions, base: URL): RenewalServer {
  const { client_id, client_secret, use_online_api, api_url_address, alipan_type, oauth_token_url } = options
  if ((client_id === '') !== (client_secret === '')) {
    throw new GatewayError('invalid', { reason: 'client_id and client_secret are needed together' })
  }
  const isOwn = client_id !== ''
  if (!isOwn && use_online_api && api_url_address !== '') {
    const address = parseServerAddress(api_url_address, 'api_url_address')
    const call = (refreshToken: string) => {
      const url = new URL(address)
      url.searchParams.set('refresh_ui', refreshToken)
      url.searchParams.set('server_use', 'true')
      url.searchParams.set('driver_txt', alipan_type === 'alipanTV' ? 'alicloud_tv' : 'alicloud_qr')
      return { url }
    }
    return { address, call }
  }
  if (!isOwn && oauth_token_url === '') {
    throw new GatewayError('invalid', {
      reason: 'client_id and client_secret, or a service that renews tokens, are required',
    })
  }
  const address = isOwn ? new URL('oauth/access_token', base) : parseServerAddress(oauth_token_url, 'oauth_token_url')
  const call = (refreshToken: string) => ({
    url: address,
    json: { client_id, client_secret, grant_type: 'refresh_token', refresh_token: refreshToken },
  })
  return { address, call }
}

/** A new pair for the account of the refresh token. Rejects with `denied` if the token is not accepted. */
async function renewed(client: ApiClient, server: RenewalServer, refreshToken: string): Promise<TokenPair> {
  const { data } = await withRetries(() => client.call({ ...server.call(refreshToken), repeatable: false }))
  const pair = { access: textOf(field(data, 'access_token')), refresh: textOf(field(data, 'refresh_token')) }
  const subject = subjectOf(refreshToken)
  if (subject === undefined || subjectOf(pair.refresh) !== subject) {
    const reason = `the ${tokenServer} sent tokens of another account`
    throw new GatewayError('denied', { detail: 'storage_refused', reason })
  }
  return pair
}

async function withRetries(request: () => Promise<ApiAnswer>): Promise<ApiAnswer> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await request()
    } catch (error) {
      // One that says when it may be asked again has closed the gate.
      const mayPass = isGatewayError(error, 'unavailable', 'timeout') && error.retryAfter === undefined
      if (!mayPass || attempt === extraTries) throw error
      await sleep(retryDelay * 2 ** attempt)
    }
  }
}

/** Texts of the services are never shown: they may repeat the token. */
function meaningOfRenewal({ status, data }: ApiAnswer): AnswerMeaning {
  if (status < 400 && textOf(field(data, 'access_token')) !== '' && textOf(field(data, 'refresh_token')) !== '') {
    return 'ok'
  }
  const text = [field(data, 'code'), field(data, 'text'), field(data, 'message')].map(textOf).join(' ')
  if (/too ?many|too frequent|频繁/i.test(text)) return 'slow down'
  if (status >= 500) return new GatewayError('unavailable', { reason: `the ${tokenServer} has failed` })
  const reason = `the ${tokenServer} does not accept the refresh token of this storage`
  return new GatewayError('denied', { detail: 'storage_refused', reason })
}

/** The account that a token is for: the claim `sub` of a JSON Web Token (RFC 7519 §4.1.2), which is not verified. */
export function subjectOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.')
  try {
    const subject = textOf(field(JSON.parse(Buffer.from(payload, 'base64url').toString()), 'sub'))
    return subject === '' ? undefined : subject
  } catch {
    return undefined
  }
}
