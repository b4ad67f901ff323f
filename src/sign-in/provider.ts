/**
 * The client of a provider: OpenID Connect Core 1.0 with PKCE (RFC 7636), and OAuth 2.0 (RFC 6749) of GitHub. What the
 * provider signs is verified with its keys.
 */
import { createRemoteJWKSet, customFetch as joseFetch, jwtVerify } from 'jose'
import * as oidc from 'openid-client'
import { joinSignals, untilAborted } from '../base/cancellation.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Egress } from '../contract/driver-env.js'
import { guardedFetch } from '../net/outgoing-request.js'
import { claimAt, isObject } from './claims.js'
import type { ProviderFacts } from './provider-facts.js'

/** Algorithms of signatures that are accepted: none with a shared secret. */
const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519']
/** Seconds that the clocks of both sides may differ. */
const clockTolerance = 60
/** Milliseconds for which the metadata of a provider are kept. */
const metadataTime = 3600_000
/** The codes by which a provider refuses a code, and those by which it refuses the client (RFC 6749 §5.2; GitHub's). */
const codeRefusals = ['invalid_grant', 'bad_verification_code']
const clientRefusals = ['invalid_client', 'unauthorized_client', 'incorrect_client_credentials']
/** Seconds for which a sign-in at the provider is recent (docs/decisions/0042). */
const recentSeconds = 600

/** The values that tie the answer of a provider to the request that began the sign-in. */
export interface SignInChecks {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

type Claims = Readonly<Record<string, unknown>>

/** The person who has signed in at the provider. */
export interface ProviderAnswer {
  readonly kind: ProviderFacts['kind']
  readonly issuer: string
  readonly subject: string
  readonly claims: Claims
  readonly idToken?: string | undefined
  /** The session at the provider. */
  readonly sid?: string | undefined
  /** When the user has sent a password or the like there. */
  readonly authTime?: Date | undefined
}

/** The sessions that a provider ends: those of a subject, or the one session `sid`. */
export interface LogoutRequest {
  readonly issuer: string
  readonly subject?: string | undefined
  readonly sid?: string | undefined
  /** The id of the token that asks for it, and when that is not accepted any more. */
  readonly tokenId: string
  readonly expires: Date
}

interface Metadata {
  readonly key: string
  readonly until: number
  readonly server: Promise<oidc.ServerMetadata>
}

export class Provider {
  readonly #fetch: ReturnType<typeof guardedFetch>
  /** The metadata of the provider that was used last. */
  #metadata: Metadata | undefined
  #keys: { readonly uri: string; readonly keys: ReturnType<typeof createRemoteJWKSet> } | undefined

  /** `now`: milliseconds since 1970. */
  constructor(
    egress: Pick<Egress, 'agentFor'>,
    private readonly now: () => number,
  ) {
    this.#fetch = guardedFetch(egress)
  }

  /**
   * The page of the provider where the user signs in. `fresh`: the user has to do so within the last ten minutes.
   * Rejects with the detail `provider_failed`, as all methods, and with `aborted`.
   */
  async signInPage(
    facts: ProviderFacts,
    redirectUri: string,
    checks: SignInChecks,
    { fresh, signal }: { readonly fresh: boolean; readonly signal?: AbortSignal | undefined },
  ): Promise<URL> {
    return asProviderError(async () => {
      const config = await this.#configuration(facts, signal)
      const { scopes_supported: supported = [] } = config.serverMetadata()
      // Providers that have this scope send groups only if it is asked for.
      const scopes = supported.includes('groups') ? [...facts.scopes, 'groups'] : facts.scopes
      return oidc.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: [...new Set(scopes)].join(' '),
        state: checks.state,
        code_challenge: await oidc.calculatePKCECodeChallenge(checks.verifier),
        code_challenge_method: 'S256',
        ...(facts.kind === 'oidc' && { nonce: checks.nonce, ...(fresh && { max_age: String(recentSeconds) }) }),
      })
    })
  }

  /** Returns the person who has signed in. `callback`: the redirect URI with the query that the provider has added. */
  async redeem(
    facts: ProviderFacts,
    callback: URL,
    checks: SignInChecks,
    signal?: AbortSignal,
  ): Promise<ProviderAnswer> {
    return asProviderError(async () => {
      const config = await this.#configuration(facts, signal)
      const isOidc = facts.kind === 'oidc'
      const tokens = await oidc.authorizationCodeGrant(config, callback, {
        pkceCodeVerifier: checks.verifier,
        expectedState: checks.state,
        ...(isOidc && { expectedNonce: checks.nonce, idTokenExpected: true }),
      })
      return isOidc ? this.#ofIdToken(config, facts, tokens) : this.#ofGitHub(config, facts, tokens.access_token)
    })
  }

  /**
   * Asks whether this is a provider that has such a client, with a code that nobody has got: a provider checks the
   * client first (RFC 6749 §4.1.3). Undefined if its answer does not tell.
   */
  async acceptsClient(facts: ProviderFacts, redirectUri: string, signal?: AbortSignal): Promise<boolean | undefined> {
    const { issuer } = await asProviderError(async () => (await this.#configuration(facts, signal)).serverMetadata())
    const [code, state, nonce] = [oidc.randomState(), oidc.randomState(), oidc.randomNonce()]
    const callback = new URL(redirectUri)
    callback.search = new URLSearchParams({ code, state, iss: issuer }).toString()
    const verifier = oidc.randomPKCECodeVerifier()
    try {
      await this.redeem(facts, callback, { state, nonce, verifier }, signal)
    } catch (error) {
      const { subject = '' } = isGatewayError(error, 'invalid') ? error : {}
      if (subject === '') throw error
      if (codeRefusals.includes(subject)) return true
      if (clientRefusals.includes(subject)) return false
    }
    return undefined
  }

  async #ofIdToken(
    config: oidc.Configuration,
    facts: ProviderFacts,
    tokens: oidc.TokenEndpointResponse & oidc.TokenEndpointResponseHelpers,
  ): Promise<ProviderAnswer> {
    const idToken = tokens.claims()
    if (idToken === undefined)
      throw new GatewayError('invalid', { detail: 'provider_failed', reason: 'no id_token found in oauth2 token' })
    const wanted = ['preferred_username', 'name', 'email', facts.groupsClaim, facts.formerIdClaim]
    const isComplete = wanted.every((name) => claimAt(idToken, name) !== undefined)
    const asksMore = !isComplete && config.serverMetadata().userinfo_endpoint !== undefined
    const more = asksMore ? await oidc.fetchUserInfo(config, tokens.access_token, idToken.sub) : {}
    const { auth_time: authTime, sid } = idToken
    const claims: Claims = { ...more, ...idToken }
    const documents: readonly Claims[] = [idToken, more]
    // The other document may say it of another address.
    const verifying = documents.find((each) => each.email === claims.email && each.email_verified !== undefined)
    return {
      kind: 'oidc',
      issuer: idToken.iss,
      subject: idToken.sub,
      claims: { ...claims, email_verified: verifying?.email_verified },
      idToken: tokens.id_token,
      sid: sessionId(sid),
      authTime: typeof authTime === 'number' ? new Date(authTime * 1000) : undefined,
    }
  }

  async #ofGitHub(config: oidc.Configuration, facts: ProviderFacts, token: string): Promise<ProviderAnswer> {
    const { issuer } = facts
    const isGitHub = new URL(issuer).hostname === 'github.com'
    const url = new URL(isGitHub ? 'https://api.github.com/user' : `${issuer.replace(/\/$/, '')}/api/v3/user`)
    const response = await oidc.fetchProtectedResource(config, token, url, 'GET')
    const claims = (await response.json().catch(() => {
      throw new GatewayError('invalid', { detail: 'provider_failed', reason: 'GitHub has sent no JSON' })
    })) as Record<string, unknown>
    const { id, login } = claims
    if (!Number.isSafeInteger(id))
      throw new GatewayError('invalid', { detail: 'provider_failed', reason: 'GitHub has sent no id' })
    return { kind: 'oauth', issuer, subject: String(id), claims: { ...claims, preferred_username: login } }
  }

  /**
   * The page of the provider that ends the session there, and then leads to `after`; undefined if it has none, or is
   * not the `issuer` of the session.
   */
  async signOutPage(
    facts: ProviderFacts,
    { issuer, idToken }: { readonly issuer: string | undefined; readonly idToken: string | undefined },
    after: string,
  ): Promise<URL | undefined> {
    return asProviderError(async () => {
      const config = await this.#configuration(facts)
      const server = config.serverMetadata()
      if (server.end_session_endpoint === undefined || server.issuer !== issuer) return undefined
      const hint = idToken === undefined ? {} : { id_token_hint: idToken }
      return oidc.buildEndSessionUrl(config, { ...hint, client_id: facts.clientId, post_logout_redirect_uri: after })
    })
  }

  /** What a logout token of OpenID Connect Back-Channel Logout 1.0 (§2.6) asks for. */
  async logoutRequest(facts: ProviderFacts, token: string): Promise<LogoutRequest> {
    return asProviderError(async () => {
      const { issuer, jwks_uri: uri = '' } = (await this.#configuration(facts)).serverMetadata()
      if (this.#keys?.uri !== uri) {
        this.#keys = { uri, keys: createRemoteJWKSet(new URL(uri), { [joseFetch]: this.#fetch }) }
      }
      const { payload } = await jwtVerify(token, this.#keys.keys, {
        ...{ issuer, audience: facts.clientId, algorithms, clockTolerance, maxTokenAge: recentSeconds },
        requiredClaims: ['iat', 'jti', 'events'],
      })
      const { events, sub: subject, sid, nonce, jti: tokenId, iat } = payload
      const isLogout = isObject(events) && isObject(events['http://schemas.openid.net/event/backchannel-logout'])
      const isNamed = subject !== undefined || sessionId(sid) !== undefined
      if (!isLogout || nonce !== undefined || !isNamed || typeof tokenId !== 'string' || iat === undefined) {
        throw new GatewayError('invalid', { detail: 'provider_failed', reason: 'this is no logout token' })
      }
      const expires = new Date((iat + recentSeconds + clockTolerance) * 1000)
      return { issuer, subject, sid: sessionId(sid), tokenId, expires }
    })
  }

  /** Made for each use, so that the keys of the provider are read anew: it may have replaced them. */
  async #configuration(facts: ProviderFacts, signal?: AbortSignal): Promise<oidc.Configuration> {
    const { clientId, clientSecret, issuer } = facts
    // A caller whose signal aborts does not end the request, because others wait for it too.
    const server = await untilAborted(this.#serverMetadata(facts), signal)
    // OpenID Connect Discovery 1.0 §3: the default is `client_secret_basic`.
    const usesPost = server.token_endpoint_auth_methods_supported?.includes('client_secret_post') === true
    const secret = usesPost ? oidc.ClientSecretPost(clientSecret) : oidc.ClientSecretBasic(clientSecret)
    const config = new oidc.Configuration(
      server,
      clientId,
      { [oidc.clockTolerance]: clockTolerance },
      clientSecret === '' ? oidc.None() : secret,
    )
    config[oidc.customFetch] = (url, options) => {
      const joined = joinSignals(options.signal, signal)
      return this.#fetch(url, { ...options, signal: joined.signal }).finally(() => joined.release())
    }
    oidc.enableNonRepudiationChecks(config)
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- only for private addresses (provider-facts.ts)
    if (issuer.startsWith('http:')) oidc.allowInsecureRequests(config)
    return config
  }

  async #serverMetadata(facts: ProviderFacts): Promise<oidc.ServerMetadata> {
    const { issuer, kind } = facts
    if (kind === 'oauth') {
      const base = issuer.replace(/\/$/, '')
      return {
        issuer,
        authorization_endpoint: `${base}/login/oauth/authorize`,
        token_endpoint: `${base}/login/oauth/access_token`,
        // The parameter that GitHub documents.
        token_endpoint_auth_methods_supported: ['client_secret_post'],
      }
    }
    if (this.#metadata?.key !== issuer || this.#metadata.until <= this.now()) {
      const server = this.#discover(issuer)
      const metadata = { key: issuer, until: this.now() + metadataTime, server }
      this.#metadata = metadata
      // The next sign-in asks again.
      server.catch(() => {
        if (this.#metadata === metadata) this.#metadata = undefined
      })
    }
    // A copy, because the library keeps keys by the object.
    return { ...(await this.#metadata.server) }
  }

  async #discover(issuer: string): Promise<oidc.ServerMetadata> {
    const found = await oidc.discovery(new URL(issuer), 'unused', undefined, oidc.None(), {
      [oidc.customFetch]: this.#fetch,
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- as in `#configuration`
      ...(issuer.startsWith('http:') && { execute: [oidc.allowInsecureRequests] }),
    })
    const server: oidc.ServerMetadata = found.serverMetadata()
    const signed = server.id_token_signing_alg_values_supported?.filter((name) => algorithms.includes(name))
    return { ...server, id_token_signing_alg_values_supported: signed ?? ['RS256'] }
  }
}

/** The id of a session of the provider, if it is one that can be stored. */
function sessionId(sid: unknown): string | undefined {
  return typeof sid === 'string' && /^[\x20-\x7e]{1,255}$/.test(sid) ? sid : undefined
}

/** Converts what the libraries throw. Texts that the provider has sent are not passed on, except codes of OAuth. */
async function asProviderError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    for (let cause = error; cause instanceof Error; cause = cause.cause) {
      if (!isGatewayError(cause)) continue
      if (cause.code === 'aborted') throw cause
      const reason = cause.detail === undefined ? `the provider cannot be used: ${cause.reason}` : cause.reason
      throw new GatewayError('invalid', {
        op: 'sign in',
        detail: cause.detail ?? 'provider_failed',
        reason,
        cause: error,
      })
    }
    const subject = answeredCode(error)
    const { message = '' } = error as { readonly message?: string }
    const why = subject === undefined ? message.slice(0, 200) : `it answers ${subject}`
    const reason = `the answer of the provider is not accepted: ${why}`
    throw new GatewayError('invalid', { op: 'sign in', detail: 'provider_failed', subject, reason, cause: error })
  }
}

/** The code by which the provider refuses (RFC 6749 §5.2), in whichever way the library passes it on. */
function answeredCode(error: unknown): string | undefined {
  // A refused client gets a challenge, which the library throws without the body.
  if (error instanceof oidc.WWWAuthenticateChallengeError && error.status === 401) return 'invalid_client'
  for (let each = error; isObject(each); each = each.cause) {
    // GitHub refuses with the status of a success.
    const code = each.error ?? (isObject(each.body) ? each.body.error : undefined)
    if (typeof code === 'string' && /^[a-z_]{1,60}$/.test(code)) return code
  }
  return undefined
}
