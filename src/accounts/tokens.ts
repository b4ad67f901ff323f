/** Session tokens: JSON Web Tokens that any process with the same database can verify. */
import { createSecretKey, randomBytes, randomUUID, type KeyObject } from 'node:crypto'
import jwt from 'jsonwebtoken'
import { z } from 'zod'
import type { UserRow } from '../database/rows.js'
import type { Store } from '../database/tables.js'

const claimsSchema = z.object({
  /** The account's id: names can be reused. */
  sub: z.string(),
  username: z.string(),
  /** The account's `passwordTime` when the token was issued. */
  pwd_ts: z.number(),
  jti: z.string(),
  /** Seconds since 1970: the sign-in, because no token is issued without one. */
  iat: z.number(),
  nbf: z.number(),
  exp: z.number(),
})
export type Claims = z.infer<typeof claimsSchema>

const maxTokenLength = 4096

export class SessionTokens {
  private constructor(
    private readonly key: KeyObject,
    private readonly hours: number,
    private readonly now: () => number,
  ) {}

  /** Reads the signing key from the database; stores a random one if there is none. */
  static async open(store: Store, hours: number, now: () => number): Promise<SessionTokens> {
    const secret = await store.secrets.obtain('session tokens', randomBytes(48).toString('base64url'))
    return new SessionTokens(createSecretKey(Buffer.from(secret)), hours, now)
  }

  issue(user: UserRow): string {
    const seconds = Math.floor(this.now() / 1000)
    return jwt.sign({ username: user.username, pwd_ts: user.passwordTime, iat: seconds, nbf: seconds }, this.key, {
      algorithm: 'HS256',
      subject: String(user.id),
      // Distinguishes tokens of the same second: each can be revoked on its own.
      jwtid: randomUUID(),
      expiresIn: Math.round(this.hours * 3600),
    })
  }

  /** The claims of a token with a valid signature, also of an expired one; undefined for any other text. */
  read(token: string): Claims | undefined {
    if (token.length > maxTokenLength) return undefined
    try {
      const options = { algorithms: ['HS256' as const], ignoreExpiration: true, ignoreNotBefore: true }
      return claimsSchema.safeParse(jwt.verify(token, this.key, options)).data
    } catch {
      return undefined
    }
  }
}
