/** The abort signals by which sessions are ended. */
import { setMaxListeners } from 'node:events'
import { sessionRevoked, type Revocation } from './errors.js'

/**
 * How a principal was authenticated; 'task': by an earlier request. All principals of one user and credential share a
 * signal.
 */
export type Credential =
  | 'guest'
  | 'password'
  | 'permanent'
  | 'task'
  | `token:${string}`
  | `console:${number}`
  | `key:${number}`
  | `app:${number}`

/** Milliseconds that running operations may continue after their token or console session expires. */
const gracePeriod = 24 * 3600_000

interface Session {
  readonly controller: AbortController
  readonly until: number
}

/** The signals of all principals. Aborting one ends its sessions, requests, handles and tasks. */
export class Sessions {
  readonly #users = new Map<number, Map<Credential, Session>>()

  /** The signal of a credential. `until`: when the credential expires, in milliseconds since 1970. */
  signal(userId: number, credential: Credential, until = Infinity): AbortSignal {
    const credentials = this.#users.get(userId) ?? new Map<Credential, Session>()
    this.#users.set(userId, credentials)
    const session = credentials.get(credential) ?? { controller: newController(), until }
    credentials.set(credential, session)
    return session.controller.signal
  }

  /** Aborts the sessions of the user, or those of some credentials. Later uses of a credential get a new signal. */
  end(userId: number, why: Revocation, which: (credential: Credential) => boolean = () => true): void {
    const credentials = this.#users.get(userId)
    if (credentials === undefined) return
    for (const [credential, { controller }] of credentials) {
      if (!which(credential)) continue
      credentials.delete(credential)
      controller.abort(sessionRevoked(why))
    }
    if (credentials.size === 0) this.#users.delete(userId)
  }

  /** The same for one credential of any user. */
  endCredential(credential: Credential, why: Revocation): void {
    for (const userId of [...this.#users.keys()]) this.end(userId, why, (other) => other === credential)
  }

  /** Aborts and removes the sessions of credentials that expired more than the grace period ago. */
  sweep(now: number): void {
    for (const [userId, credentials] of [...this.#users]) {
      const expired = (credential: Credential): boolean =>
        (credentials.get(credential)?.until ?? Infinity) + gracePeriod < now
      this.end(userId, { detail: 'token_expired' }, expired)
    }
  }
}

function newController(): AbortController {
  const controller = new AbortController()
  // Every request of a session adds a listener.
  setMaxListeners(0, controller.signal)
  return controller
}
