/** Session tokens: JSON Web Tokens that any process with the same database can check. */
import { createSecretKey, randomBytes, randomUUID, type KeyObject } from 'node:crypto'
import jwt from 'jsonwebtoken'
import { z } from 'zod'
import type { Store, UserRow } from '../store/rows.js'

const claimsSchema = z.object({
  /** The account's id: a name may come to belong to somebody else. */
  sub: z.string(),
  username: z.string(),
  /** The account's `passwordTime` when it was issued. */
  pwd_ts: z.number(),
  jti: z.string(),
  nbf: z.number(),
  exp: z.number(),
})
export type Claims = z.infer<typeof claimsSchema>

const longestToken = 4096

export class SessionTokens {
  private constructor(
    private readonly key: KeyObject,
    private readonly hours: number,
    private readonly now: () => number,
  ) {}

  /** With the secret of the database, which is made by whoever comes first. */
  static async open(store: Store, hours: number, now: () => number): Promise<SessionTokens> {
    const secret = await store.secrets.obtain('session tokens', randomBytes(48).toString('base64url'))
    return new SessionTokens(createSecretKey(Buffer.from(secret)), hours, now)
  }

  issue(user: UserRow): string {
    const seconds = Math.floor(this.now() / 1000)
    return jwt.sign({ username: user.username, pwd_ts: user.passwordTime, iat: seconds, nbf: seconds }, this.key, {
      algorithm: 'HS256',
      subject: String(user.id),
      // Two tokens of one second are two: signing out ends one.
      jwtid: randomUUID(),
      expiresIn: Math.round(this.hours * 3600),
    })
  }

  /** The claims of a token that we signed, expired or not; undefined for any other text. */
  read(token: string): Claims | undefined {
    if (token.length > longestToken) return undefined
    try {
      const options = { algorithms: ['HS256' as const], ignoreExpiration: true, ignoreNotBefore: true }
      return claimsSchema.safeParse(jwt.verify(token, this.key, options)).data
    } catch {
      return undefined
    }
  }
}
