/**
 * Limits the wrong passwords that a directory compares, so that strangers cannot lock people out of it: directories
 * count failures too, and many lock an account after a few.
 */
import type { SignInAge } from '../database/tables/sign-ins.js'
import type { Store } from '../database/tables.js'
import { afterOthers, type Settle } from './attempts.js'
import { tooManyAttempts } from './errors.js'

/**
 * Maximum wrong passwords of one person within `time` milliseconds, from all networks together: more than one network
 * may send, and fewer than the ten after which directories are often told to lock an account.
 */
export const directoryLimit = { failures: 8, time: 15 * 60_000 }

/** A guess at the password of a person. */
interface Guess {
  readonly network: string
  /** The name that was sent, as the sign-in limiter counts it. */
  readonly account: string
  /** The subject of the person in the directory; the spelling of a name (`spellingOf`) that it does not have. */
  readonly person: string
  /** Aborted when the client has disconnected. */
  readonly signal?: AbortSignal | undefined
}

export class DirectoryLimiter {
  constructor(
    private readonly signIns: Pick<Store['signIns'], 'attempt'>,
    private readonly limiter: { isFamiliar(network: string, account: string): Promise<boolean> },
  ) {}

  /**
   * Counts a guess before the directory compares it. The result must be called with the outcome. Rejects with
   * `throttled` if the person has reached the limit and the network is not familiar to the account, and with `aborted`.
   */
  async begin({ network, account, person, signal }: Guess): Promise<Settle> {
    const isFamiliar = await this.limiter.isFamiliar(network, account)
    const attempt = await afterOthers(
      () =>
        this.signIns.attempt({ kind: 'directory', network, account: person }, async (newest) => {
          const recent = await newest({ kinds: ['directory'], account: person }, directoryLimit.failures)
          const left = directoryTime(recent)
          if (isFamiliar || left <= 0) return true
          if (recent.some(({ pending }) => pending)) return false
          throw tooManyAttempts(left / 1000)
        }),
      signal,
    )
    return async (outcome) => {
      await attempt[outcome === 'failed' ? 'fail' : 'drop']()
    }
  }
}

/** Milliseconds until another guess at a person is accepted, after these, newest first; not positive: now. */
export function directoryTime(guesses: readonly SignInAge[]): number {
  return directoryLimit.time - (guesses[directoryLimit.failures - 1]?.age ?? Infinity)
}
