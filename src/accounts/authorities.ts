import { setMaxListeners } from 'node:events'
import { noAuthority } from './errors.js'

/** What somebody presented; 'task': nothing, of work that was accepted before. All principals of one share a signal. */
export type Credential =
  'guest' | 'password' | 'permanent' | 'task' | `token:${string}` | `key:${number}` | `app:${number}`

/** Milliseconds for which what runs may go on after its token expired, before it ends too. */
const grace = 24 * 3600_000

interface Authority {
  readonly controller: AbortController
  readonly until: number
}

/** The signals of all principals: one that aborts ends sessions, requests, handles and tasks. */
export class Authorities {
  readonly #users = new Map<number, Map<Credential, Authority>>()

  /** `until`: milliseconds since 1970 after which the credential gives no new authority. */
  signal(userId: number, credential: Credential, until = Infinity): AbortSignal {
    const credentials = this.#users.get(userId) ?? new Map<Credential, Authority>()
    this.#users.set(userId, credentials)
    const authority = credentials.get(credential) ?? { controller: newController(), until }
    credentials.set(credential, authority)
    return authority.controller.signal
  }

  /** Ends all authority of the user, or that of some credentials. The next to present one gets a new signal. */
  end(userId: number, reason: string, which: (credential: Credential) => boolean = () => true): void {
    const credentials = this.#users.get(userId)
    if (credentials === undefined) return
    for (const [credential, { controller }] of credentials) {
      if (!which(credential)) continue
      credentials.delete(credential)
      controller.abort(noAuthority(reason))
    }
    if (credentials.size === 0) this.#users.delete(userId)
  }

  /** The same of one credential, whoever has it. */
  endCredential(credential: Credential, reason: string): void {
    for (const userId of [...this.#users.keys()]) this.end(userId, reason, (other) => other === credential)
  }

  /** Forgets expired tokens. */
  sweep(now: number): void {
    for (const [userId, credentials] of [...this.#users]) {
      const expired = (credential: Credential): boolean =>
        (credentials.get(credential)?.until ?? Infinity) + grace < now
      this.end(userId, 'token is expired', expired)
    }
  }
}

function newController(): AbortController {
  const controller = new AbortController()
  // Every request of a session listens to it.
  setMaxListeners(0, controller.signal)
  return controller
}
