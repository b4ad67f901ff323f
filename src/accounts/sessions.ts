/** The abort signals by which sessions are ended. */
import { setMaxListeners } from 'node:events'
import { sessionRevoked, type Revocation } from './errors.js'

/**
 * The kind of credential that authenticated a principal; 'task': an earlier request did. All principals of one user and
 * credential share a signal.
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
  | `share:${string}`

/** Milliseconds that running operations may continue after their token or console session expires. */
const gracePeriod = 24 * 3600_000

/** Until when a credential is valid. */
export interface Lifetime {
  /** When a token expires, in milliseconds since 1970: running operations may continue for the grace period. */
  readonly tokenExpires?: number | undefined
  /** When the account ends: with it ends everything that runs. */
  readonly accountEnds?: Date | undefined
  /** When an app password or a share ends: with it ends everything that runs by it. */
  readonly credentialEnds?: Date | undefined
}

/** Times are in milliseconds since 1970. */
interface Session {
  readonly controller: AbortController
  readonly tokenExpires: number
  accountEnds: number
  credentialEnds: number
}

/** Maximum milliseconds between two looks at the clock, which may be set meanwhile. */
const clockInterval = 60_000

/** The signals of all principals. Aborting one ends its sessions, requests, handles and tasks. */
export class Sessions {
  readonly #users = new Map<number, Map<Credential, Session>>()
  #timer: NodeJS.Timeout | undefined
  /** The earliest end of a session, which the timer waits for. */
  #earliest = Infinity

  /** `now`: milliseconds since 1970. */
  constructor(private readonly now: () => number) {}

  /** The signal of a credential. */
  signal(userId: number, credential: Credential, lifetime: Lifetime = {}): AbortSignal {
    const { tokenExpires = Infinity, accountEnds, credentialEnds } = lifetime
    const credentials = this.#users.get(userId) ?? new Map<Credential, Session>()
    this.#users.set(userId, credentials)
    const session = credentials.get(credential) ?? newSession(tokenExpires)
    credentials.set(credential, session)
    // Whoever asks last has read the account last.
    session.accountEnds = accountEnds?.getTime() ?? Infinity
    session.credentialEnds = credentialEnds?.getTime() ?? Infinity
    if (endOf(session) < this.#earliest) this.#wakeAt(endOf(session))
    return session.controller.signal
  }

  /** Stops waiting for the ends of sessions. */
  close(): void {
    clearTimeout(this.#timer)
  }

  #wakeAt(time: number): void {
    this.#earliest = time
    clearTimeout(this.#timer)
    if (time === Infinity) return
    const wait = Math.min(Math.max(0, time - this.now()), clockInterval)
    this.#timer = setTimeout(() => this.#endDue(), wait).unref()
  }

  /** Aborts the sessions whose end has come. */
  #endDue(): void {
    const now = this.now()
    let earliest = Infinity
    for (const [userId, credentials] of [...this.#users]) {
      const isDue = (each: Credential, end: 'accountEnds' | 'credentialEnds') =>
        (credentials.get(each)?.[end] ?? Infinity) <= now
      this.end(userId, { detail: 'account_expired' }, (each) => isDue(each, 'accountEnds'))
      this.end(userId, { detail: 'credential_expired' }, (each) => isDue(each, 'credentialEnds'))
      for (const session of credentials.values()) earliest = Math.min(earliest, endOf(session))
    }
    this.#wakeAt(earliest)
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

  /** Aborts the sessions of one credential of any user. */
  endCredential(credential: Credential, why: Revocation): void {
    for (const userId of [...this.#users.keys()]) this.end(userId, why, (other) => other === credential)
  }

  /** Aborts and removes the sessions of credentials that expired more than the grace period ago. */
  sweep(now: number): void {
    for (const [userId, credentials] of [...this.#users]) {
      const isExpired = (credential: Credential): boolean =>
        (credentials.get(credential)?.tokenExpires ?? Infinity) + gracePeriod < now
      this.end(userId, { detail: 'token_expired' }, isExpired)
    }
  }
}

function endOf({ accountEnds, credentialEnds }: Session): number {
  return Math.min(accountEnds, credentialEnds)
}

function newSession(tokenExpires: number): Session {
  const controller = new AbortController()
  // Every request of a session adds a listener.
  setMaxListeners(0, controller.signal)
  return { controller, tokenExpires, accountEnds: Infinity, credentialEnds: Infinity }
}
