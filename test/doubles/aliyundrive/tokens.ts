/** The tokens that the double of AliyundriveOpen issues and accepts: JSON Web Tokens, of which one pair is current. */
import { randomUUID } from 'node:crypto'

interface TokenPair {
  readonly access_token: string
  readonly refresh_token: string
}

export const account = 'a0b1c2d3e4f5'

/** Statuses and codes of refusals. */
export const refusals = {
  malformed: { status: 400, code: 'I400JD', message: 'jwt is malformed' },
  invalid: { status: 401, code: 'AccessTokenInvalid', message: 'The access token is invalid.' },
  expired: { status: 401, code: 'AccessTokenExpired', message: 'The access token has expired.' },
} as const

export class AliyunTokens {
  /** The only refresh token that is accepted. */
  refreshToken = jwt(account)
  /** Number of refreshes that have been granted. */
  refreshes = 0
  /** false: a refresh token may be used again, as with some applications. */
  rotates = true
  /** The account that the next tokens belong to. */
  subject = account
  readonly #valid = new Set<string>()
  readonly #expired = new Set<string>()

  /** A valid access token, as another client of the account may have. */
  issue(): string {
    const token = jwt(this.subject)
    this.#valid.add(token)
    return token
  }

  /** From now on, all access tokens that have been issued are refused as expired. */
  expire(): void {
    for (const token of this.#valid) this.#expired.add(token)
    this.#valid.clear()
  }

  /** From now on, all access tokens that have been issued are refused as unknown. */
  revoke(): void {
    this.#valid.clear()
    this.#expired.clear()
  }

  /** From now on, no refresh token is accepted any more, as when the user has withdrawn the consent. */
  revokeConsent(): void {
    this.revoke()
    this.refreshToken = jwt('nobody')
  }

  /** New tokens for the current refresh token; undefined for any other. */
  refresh(refreshToken: string | null | undefined): TokenPair | undefined {
    if (refreshToken !== this.refreshToken) return undefined
    this.refreshes++
    if (this.rotates) this.refreshToken = jwt(this.subject)
    return { access_token: this.issue(), refresh_token: this.refreshToken }
  }

  /** Why a request with this header is refused; undefined: it is not. */
  refusal(authorization: string | undefined): (typeof refusals)[keyof typeof refusals] | undefined {
    const token = tokenOf(authorization)
    if (token === undefined) return refusals.invalid
    if (token.split('.').length !== 3) return refusals.malformed
    if (this.#expired.has(token)) return refusals.expired
    return this.#valid.has(token) ? undefined : refusals.invalid
  }
}

/** The token of an `Authorization` header. */
export function tokenOf(authorization: string | undefined): string | undefined {
  return /^Bearer (\S+)$/.exec(authorization ?? '')?.[1]
}

function jwt(sub: string): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const exp = Math.floor(Date.now() / 1000) + 7200
  const signature = Buffer.from(randomUUID()).toString('base64url')
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part({ sub, exp, jti: randomUUID() })}.${signature}`
}
