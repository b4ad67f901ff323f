/** Verification of passwords and one-time codes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sharedController, untilAborted } from '../base/cancellation.js'
import { networkOf } from '../net/addresses.js'
import type { UserRow } from '../database/tables/accounts.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { afterOthers, type Settle } from './attempts.js'
import { codeRequired } from './errors.js'
import type { DirectoryLimiter } from './directory-limiter.js'
import type { FairQueue, Requester } from './fair-queue.js'
import type { CodeLimiter, SignInLimiter } from './limiter.js'
import { otpStep } from './otp.js'
import { PasswordCache, type Verified } from './password-cache.js'
import type { PasswordDirectory } from './password-directory.js'
import { spellingOf } from './spelling.js'
import { hashPassword, impossiblePassword, isImported, isPassword, isPossible, staticHash } from './passwords.js'

export interface Credentials {
  readonly username: string
  /** The plain password, or its static hash as clients send it (64 lower-case hexadecimal characters). */
  readonly password: { readonly plain: string } | { readonly hash: string }
  /** The one-time code or recovery code, if one was sent. */
  readonly code?: string | undefined
  /**
   * Proves the second step of an account with two-step verification in place of a code. Called after the password was
   * found to be right. Rejects with a `GatewayError`.
   */
  readonly secondStep?: ((user: UserRow) => Promise<void>) | undefined
  /** The client's address without port. */
  readonly address: string
  /** Aborts when the client has disconnected: what still waits for its turn then is not compared. */
  readonly signal?: AbortSignal | undefined
}

interface PasswordCheckOptions {
  readonly get: (id: number) => UserRow | undefined
  readonly byName: (username: string) => UserRow | undefined
  /** Marks the code of a time step as used: false if it was used before. */
  readonly useOtpStep: (userId: number, step: number) => Promise<boolean>
  /** Marks a recovery code as used: false if it is none, or was used before. */
  readonly useRecoveryCode: (user: UserRow, code: string) => Promise<boolean>
  /**
   * Stores `hash` in place of the password hash `old`, unless the account has another one by now. Resolves to the
   * account as it is stored; undefined if it was deleted.
   */
  readonly replaceHash: (userId: number, old: string, hash: string) => Promise<UserRow | undefined>
  readonly limiter: SignInLimiter
  readonly codeLimiter: Pick<CodeLimiter, 'countAttempt'>
  readonly directoryLimiter: Pick<DirectoryLimiter, 'begin'>
  /** The queue in which slow hashes take their turns. */
  readonly hashes: FairQueue
  /** Asked for passwords that no account here has. */
  readonly directory: () => PasswordDirectory | undefined
  readonly now: () => number
}

/** A secret of two-step verification that an account is about to use. */
export interface NewSecret {
  /** The secret in base32. */
  readonly secret: string
  /** Proves that the user's authenticator app has the secret. */
  readonly code: string
  /** A code of the secret that the account has, or a recovery code. Empty: none was sent. */
  readonly currentCode: string
  /** The client's address without port. */
  readonly address: string
}

/** Credentials in the form in which they are counted and compared. */
interface NormalizedCredentials {
  readonly network: string
  readonly name: string
  /** The name that is counted: for one that no account here has, its spelling, because a directory may know it. */
  readonly counted: string
  readonly hash: string
  readonly plain: string | undefined
  readonly digest: string
}

/** A comparison of a password that concurrent requests share. */
interface SharedCheck {
  readonly result: Promise<Verified>
  /** Aborted when all that waited for the result have disconnected. */
  readonly controller: AbortController
  waiters: number
}

/** Checks passwords and one-time codes for all protocols, and limits failed attempts. */
export class PasswordCheck {
  readonly #limiter: SignInLimiter
  readonly #cache: PasswordCache
  /** Running checks by network and digest: concurrent requests with the same credentials share one. */
  readonly #running = new Map<string, SharedCheck>()
  readonly #normalized = new WeakMap<Credentials, NormalizedCredentials>()
  /** Hash for unknown names, so that their check takes as long as any other. */
  readonly #impossible = impossiblePassword()

  constructor(private readonly options: PasswordCheckOptions) {
    this.#limiter = options.limiter
    this.#cache = new PasswordCache(options.get, options.now)
  }

  /**
   * Checks the password: here, and otherwise in the directory. Resolves to the account, which may be disabled or need a
   * one-time code. Rejects with `unauthenticated` or `throttled`, as `PasswordDirectory.check`, and with `aborted` when
   * the client has disconnected. `remembered`: accepts a cached verification.
   */
  async checkPassword(credentials: Credentials, { remembered }: { readonly remembered: boolean }): Promise<Verified> {
    const normalized = this.#normalize(credentials)
    const { network, name, counted, digest } = normalized
    this.#limiter.assertPairNotLocked(network, counted)
    // Before the lock of the address is checked, which another user may have caused. Guesses at this account are
    // refused above.
    const cached = remembered ? this.#cache.get(digest) : undefined
    if (cached !== undefined) return cached
    const delay = await this.#limiter.admit(network, counted)
    const party = (await this.#limiter.isFamiliar(network, counted)) ? { account: counted } : { network }
    // A hash of bcrypt can only be compared with the plain form.
    const form = normalized.plain === undefined ? 'hash' : 'plain'
    return this.#share(`${network} ${digest} ${form}`, credentials.signal, async (signal) => {
      const started = performance.now()
      const isAskable = name !== '' && normalized.plain !== undefined && normalized.plain !== ''
      const directory = isAskable ? this.options.directory() : undefined
      const verified = await this.#verify(normalized, { party, signal }, directory)
      if (verified !== undefined) return verified
      const left = Math.max(delay, started + (directory?.refusalTime ?? 0) - performance.now())
      // The password has been compared: the delay takes no place from those who wait for that.
      if (left > 0) await sleep(left, undefined, { ref: false, signal }).catch(() => undefined)
      throw new GatewayError('unauthenticated', { op: 'sign in', detail: 'wrong_credentials' })
    })
  }

  /** Joins or starts the check of this key, which is aborted when all who wait for it have disconnected. */
  async #share(
    key: string,
    signal: AbortSignal | undefined,
    start: (signal: AbortSignal) => Promise<Verified>,
  ): Promise<Verified> {
    let check = this.#running.get(key)
    if (check === undefined) {
      const controller = sharedController()
      check = { result: start(controller.signal), controller, waiters: 0 }
      check.result.catch(() => undefined)
      this.#running.set(key, check)
    }
    check.waiters++
    try {
      return await untilAborted(check.result, signal)
    } finally {
      // Whoever comes later must not join a check that has ended or is aborted.
      if (--check.waiters === 0 && this.#running.get(key) === check) this.#running.delete(key)
      if (check.waiters === 0) check.controller.abort()
    }
  }

  /**
   * Checks the one-time code, or recovery code, of an account with two-step verification, after the password. Rejects
   * with the detail `code_required` if the code is missing, which does not count as a failure, or if it is wrong or
   * already used, which does. Rejects with `throttled` after too many failures of the address, or too many wrong codes
   * for the account from any address.
   */
  async checkCode(user: UserRow, { code, address }: Pick<Credentials, 'code' | 'address'>): Promise<void> {
    if (code === undefined || code === '') throw codeRequired()
    const network = networkOf(address)
    const settle = await this.#limiter.begin(network, user.username)
    let hasFailed = false
    try {
      const confirm = await this.options.codeLimiter.countAttempt(user.id, network)
      hasFailed = !(await this.#useCode(user, code))
      if (hasFailed) throw codeRequired()
      await confirm()
    } finally {
      await settle(hasFailed ? 'failed' : 'not failed')
    }
  }

  /** Marks a code as used. False if it is wrong or was used before. */
  #useCode(user: UserRow, code: string): Promise<boolean> {
    const step = otpStep(user.otpSecret, code, this.options.now())
    return step === undefined ? this.options.useRecoveryCode(user, code) : this.options.useOtpStep(user.id, step)
  }

  /**
   * Whether the code is one of the new secret. Of an account that has a secret, checks `currentCode` as `checkCode`
   * does. Correct codes cannot be used again. Rejects with `throttled` after too many wrong codes for the account.
   */
  async checkNewSecret(user: UserRow, { secret, code, currentCode, address }: NewSecret): Promise<boolean> {
    const step = otpStep(secret, code, this.options.now())
    // A wrong new code must not use up the current one.
    if (step !== undefined && user.otpSecret !== '') await this.checkCode(user, { code: currentCode, address })
    const confirm = await this.options.codeLimiter.countAttempt(user.id, networkOf(address))
    if (step === undefined) return false
    await this.options.useOtpStep(user.id, step)
    await confirm()
    return true
  }

  /** Records a completed sign-in. `remember`: caches the verification, for accounts that need no one-time code. */
  recordSuccess(credentials: Credentials, verified: Verified, { remember }: { readonly remember: boolean }): void {
    const { network, counted, digest } = this.#normalize(credentials)
    void this.#limiter.recordSuccess(network, counted)
    if (remember) this.#cache.add(digest, verified)
  }

  #normalize(credentials: Credentials): NormalizedCredentials {
    const existing = this.#normalized.get(credentials)
    if (existing !== undefined) return existing
    const { username, password, address } = credentials
    // No account has a longer name, or one with a character that PostgreSQL cannot store. Keeps long texts out of the
    // tables.
    const name = username.length > 255 || username.includes('\0') ? '' : username
    const hash = 'plain' in password ? staticHash(password.plain) : password.hash
    // A malformed hash matches no account; checking the empty one takes the usual time.
    const checked = /^[0-9a-f]{64}$/.test(hash) ? hash : ''
    const digest = this.#cache.digest(name, checked)
    const plain = 'plain' in password ? password.plain : undefined
    const counted = this.options.byName(name) === undefined ? spellingOf(name) : name
    const normalized = { network: networkOf(address), name, counted, hash: checked, plain, digest }
    this.#normalized.set(credentials, normalized)
    return normalized
  }

  /** The account if the password is right, here or in the directory. Counts the attempt. */
  async #verify(
    normalized: NormalizedCredentials,
    requester: Requester,
    directory: PasswordDirectory | undefined,
  ): Promise<Verified | undefined> {
    const compare = () => this.#compare(normalized, directory !== undefined)
    const { user, settle } = await afterOthers(() => this.options.hashes.run(requester, compare), requester.signal)
    if (user !== undefined) return { user, inDirectory: false }
    if (settle === undefined || directory === undefined) return undefined
    // The directory is asked outside of `hashes`, so that a slow directory delays no comparison.
    const { name, network, counted, plain = '' } = normalized
    const account = this.options.byName(name)
    const wasCompared = account !== undefined && isPossible(account.passwordHash)
    let outcome: Parameters<Settle>[0] = 'failed'
    const guessed: { isRefused: boolean; settle?: Settle } = { isRefused: false }
    const guess = async (person = spellingOf(name)) => {
      const attempt = { network, account: counted, person, signal: requester.signal }
      try {
        guessed.settle = await this.options.directoryLimiter.begin(attempt)
      } catch (error) {
        guessed.isRefused = isGatewayError(error, 'throttled')
        throw error
      }
    }
    try {
      const found = await directory.check(name, plain, requester, guess)
      if (found !== undefined) outcome = 'not failed'
      return found && { user: found, inDirectory: true }
    } catch (error) {
      // Without an answer, the attempt is no guess, unless the account has a password here too.
      if (!wasCompared || isGatewayError(error, 'denied')) outcome = 'not failed'
      throw error
    } finally {
      await guessed.settle?.(outcome)
      await settle(outcome)
      if (guessed.isRefused) await this.#limiter.recordRefusal(network, counted)
    }
  }

  /**
   * Compares the password with that of the account. Undefined if the outcome of other attempts has to be known first.
   * `continues`: a directory is asked next. If the password is wrong here, the attempt stays pending, and the caller
   * settles it.
   */
  async #compare(
    { network, name, counted, hash, plain }: NormalizedCredentials,
    continues: boolean,
  ): Promise<{ readonly user?: UserRow | undefined; readonly settle?: Settle } | undefined> {
    // Other attempts from this address may have failed while this one was queued.
    const settle = await this.#limiter.beginNow(network, counted)
    if (settle === undefined) return undefined
    let user: UserRow | undefined
    let isPending = false
    try {
      const current = await this.#matching(name, hash, plain)
      // If the new hash cannot be stored, the imported one stays in use.
      const replaces = current !== undefined && isImported(current.passwordHash)
      user = replaces ? await this.#replaceImported(current, hash).catch(() => current) : current
      isPending = user === undefined && continues
    } finally {
      if (!isPending) await settle(user === undefined ? 'failed' : 'not failed')
    }
    return isPending ? { settle } : { user }
  }

  /** The account as it is after the comparison; undefined if the password is wrong. */
  async #matching(name: string, hash: string, plain: string | undefined): Promise<UserRow | undefined> {
    let compared = this.options.byName(name)
    for (;;) {
      const isCorrect = await isPassword(hash, compared?.passwordHash ?? this.#impossible, plain)
      // The account may have changed while the hash was computed.
      const current = this.options.byName(name)
      if (!isCorrect || compared === undefined || current === undefined) return undefined
      if (current.passwordHash === compared.passwordHash) return current
      if (!isImported(compared.passwordHash)) return undefined
      // Another process may have replaced the imported hash with one of the same password.
      compared = current
    }
  }

  /**
   * The account with a hash of the usual kind for the password; undefined if the account has another password by now.
   */
  async #replaceImported({ id, passwordHash }: UserRow, hash: string): Promise<UserRow | undefined> {
    const own = await hashPassword(hash)
    const stored = await this.options.replaceHash(id, passwordHash, own)
    if (stored === undefined || stored.passwordHash === own) return stored
    // Another process has replaced it first, or the password was changed.
    return (await isPassword(hash, stored.passwordHash)) ? stored : undefined
  }
}
