/** The tokens of the account of the 115 Open double: both change at each refresh, and the old ones are void at once. */
import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { refusals } from './answers.js'

export class Account {
  readonly userId = '100012345'
  accessToken = newToken('access')
  refreshToken = newToken('refresh')
  /** Number of refreshes that were granted. */
  refreshes = 0
  /** Code of the answer to a void access token. */
  expiredCode = 40140125

  /** Makes the access token void, as it is after its lifetime. */
  expireAccess(): void {
    this.accessToken = newToken('unknown')
  }

  /** Makes both tokens void: the user has withdrawn the permission. */
  revoke(): void {
    this.expireAccess()
    this.refreshToken = newToken('unknown')
  }

  isAuthorized({ authorization }: IncomingHttpHeaders): boolean {
    return authorization === `Bearer ${this.accessToken}`
  }

  refresh(refreshToken: string | null): object {
    if (refreshToken !== this.refreshToken) throw refusals.refreshToken()
    this.refreshes++
    this.accessToken = newToken('access')
    this.refreshToken = newToken('refresh')
    return { access_token: this.accessToken, refresh_token: this.refreshToken, expires_in: 7200 }
  }
}

function newToken(kind: string): string {
  return `${kind}.${randomBytes(24).toString('hex')}`
}
