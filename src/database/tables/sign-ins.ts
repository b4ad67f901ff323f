/** Attempts to sign in, from which the sign-in limiter decides. */

/**
 * `password`: an attempt to sign in, successful ones excepted. `refused`: one that was not compared, because its
 * address was locked. `directory`: a password that a directory has compared, correct ones excepted; the account is the
 * subject of the person, or a name. `code`: a one-time code, correct ones excepted; the account is a user id.
 * `signed_in` and `code_accepted`: the last success of an account from a network.
 */
export type SignInKind = 'password' | 'refused' | 'directory' | 'code' | 'signed_in' | 'code_accepted'

export interface SignInEvent {
  readonly kind: SignInKind
  /** The network of the client, as `networkOf` returns it. */
  readonly network: string
  /** The user name that was sent, a user id, or a person of a directory. */
  readonly account: string
}

/** Absent fields match all events. */
export interface SignInFilter extends Partial<Omit<SignInEvent, 'kind'>> {
  readonly kinds: readonly SignInKind[]
}

/** The party by which events are grouped: a network, an account, or a pair of both. */
export type SignInParty = Partial<Pick<SignInEvent, 'network' | 'account'>>

export interface SignInAge {
  /** Milliseconds since the event. */
  readonly age: number
  /** Whether its outcome is not known yet. */
  readonly pending: boolean
}

export interface SignInsOf {
  readonly party: SignInParty
  readonly ages: readonly SignInAge[]
}

/** An attempt to sign in whose outcome is pending. */
export interface SignInAttempt {
  /** Marks the attempt as failed now. */
  fail(): Promise<unknown>
  /** Deletes the attempt, because it has succeeded. */
  drop(): Promise<unknown>
}

/** Attempts to sign in. Times are by the clock of the database. */
export interface SignInRows {
  /** The newest events that match, newest first. */
  newest(filter: SignInFilter, limit: number): Promise<SignInAge[]>
  /**
   * In one transaction that excludes other attempts: records an event whose outcome is pending if `check` allows it,
   * and resolves to it. `check` can read as `newest` does; an error of it rejects, and nothing is recorded.
   */
  attempt(
    event: SignInEvent,
    check: (newest: (filter: SignInFilter, limit: number) => Promise<SignInAge[]>) => Promise<boolean>,
  ): Promise<SignInAttempt | undefined>
  record(event: SignInEvent): Promise<void>
  /** Records an event, and deletes the earlier ones that are equal. */
  replace(event: SignInEvent): Promise<void>
  /**
   * The newest of the latest events of these kinds, newest first, of each party that they name by these fields. The
   * latest are a number that is limited.
   */
  newestOfEach(kinds: readonly SignInKind[], fields: readonly (keyof SignInParty)[]): Promise<SignInsOf[]>
  /**
   * Deletes the events that match. Processes that share the database read the accounts again, as after a change of
   * them.
   */
  forget(filter: SignInFilter): Promise<void>
  /** Deletes the events of these kinds that are older than `age` milliseconds. */
  sweep(kinds: readonly SignInKind[], age: number): Promise<void>
}
