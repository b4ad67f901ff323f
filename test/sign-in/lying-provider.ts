/** A provider of OpenID Connect that says whatever a test wants, also what no provider may. */
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose'
import type { Test } from 'tap'
import { listen } from '../protocols/http/listen.js'
import { clientId } from '../servers/openid-provider.js'

/** Claims of a token; undefined ones are left out. */
export type Claims = Readonly<Record<string, unknown>>

interface Keys {
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly publicKey: CryptoKey
}

export class LyingProvider {
  issuer = ''
  /** Claims of the next ID token, beside the right ones, or in place of them. */
  claims: Claims = {}
  userinfo: Claims = { sub: 'ada-1' }
  /** What the discovery document says otherwise. */
  metadata: Claims = {}
  /** Signs the next ID token in place of the provider's key. */
  sign: ((payload: Claims) => Promise<string>) | undefined
  /** The status of all answers, while it is not 200. */
  status = 200
  readonly requests: string[] = []
  /** Requests whose client has left before they were answered. */
  left = 0
  /** What the client has sent to redeem the latest code. */
  redeemed = new URLSearchParams()
  /** The header `Authorization` of that request. */
  redeemedBy: string | undefined
  #nonce = ''
  #challenge = ''
  #keys: Keys

  private constructor(keys: Keys) {
    this.#keys = keys
  }

  static async start(t: Test): Promise<LyingProvider> {
    const provider = new LyingProvider(await newKeys('first'))
    provider.issuer = await listen(t, (request, response) => {
      response.on('close', () => {
        if (!response.writableEnded) provider.left++
      })
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        void provider
          .#answer(new URL(request.url ?? '', provider.issuer), Buffer.concat(chunks).toString(), request.headers)
          .then(({ location, ...body }) => {
            response.writeHead(location === undefined ? provider.status : 302, {
              'content-type': 'application/json',
              ...(typeof location === 'string' && { location }),
            })
            response.end(JSON.stringify(body))
          })
      })
    })
    return provider
  }

  /** Replaces the key: tokens are signed with another one from now on. */
  async rotate(): Promise<void> {
    this.#keys = await newKeys('second')
  }

  async #answer(url: URL, body: string, { authorization }: IncomingHttpHeaders): Promise<Claims> {
    this.requests.push(url.pathname)
    const { issuer } = this
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return {
          issuer,
          authorization_endpoint: `${issuer}/auth`,
          token_endpoint: `${issuer}/token`,
          userinfo_endpoint: `${issuer}/userinfo`,
          jwks_uri: `${issuer}/keys`,
          response_types_supported: ['code'],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
          ...this.metadata,
        }
      case '/auth': {
        const to = new URL(url.searchParams.get('redirect_uri') ?? '')
        // Several sign-ins may have begun: each code has the values of its own.
        const code = ['nonce', 'code_challenge'].map((name) => url.searchParams.get(name) ?? '')
        to.searchParams.set('code', code.join('.'))
        to.searchParams.set('state', url.searchParams.get('state') ?? '')
        return { location: to.href }
      }
      case '/token':
        this.redeemed = new URLSearchParams(body)
        this.redeemedBy = authorization
        ;[this.#nonce = '', this.#challenge = ''] = (this.redeemed.get('code') ?? '').split('.')
        return { access_token: 'access', token_type: 'Bearer', id_token: await this.#idToken() }
      case '/userinfo':
        return this.userinfo
      default:
        return { keys: [await publicJwk(this.#keys)] }
    }
  }

  /** Whether the code was redeemed with the secret to the challenge of its request (RFC 7636 §4.6). */
  get hasVerified(): boolean {
    const verifier = this.redeemed.get('code_verifier') ?? ''
    return createHash('sha256').update(verifier).digest('base64url') === this.#challenge
  }

  async #idToken(): Promise<string> {
    const seconds = Math.floor(Date.now() / 1000)
    const payload = {
      iss: this.issuer,
      sub: 'ada-1',
      aud: clientId,
      iat: seconds,
      exp: seconds + 300,
      nonce: this.#nonce,
    }
    return (this.sign ?? ((claims: Claims) => this.token(claims)))({ ...payload, ...this.claims })
  }

  /** A token that is signed with the key of the provider. */
  token(payload: Claims, header: object = {}): Promise<string> {
    const { kid, privateKey } = this.#keys
    return new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid, ...header }).sign(privateKey)
  }
}

export async function newKeys(kid: string): Promise<Keys> {
  return { kid, ...(await generateKeyPair('RS256', { extractable: true })) }
}

async function publicJwk({ kid, publicKey }: Keys): Promise<object> {
  return { ...(await exportJWK(publicKey)), kid, alg: 'RS256', use: 'sig' }
}
