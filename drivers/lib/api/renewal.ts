/**
 * Renewal of a secret that expires, such as an access token: one at a time for all calls that wait for it, and stored
 * before it is used. A server may accept each refresh token once, so a new one that is lost signs the storage out.
 */
import { untilAborted } from '../../../src/contract/cancellation.js'
import { GatewayError, isGatewayError } from '../../../src/contract/errors.js'

/** Milliseconds for which no further renewal is tried after the server has refused one. */
const refusalTime = 5 * 60_000

interface RenewalOptions<Secret> {
  /** The current secret; undefined if there is none yet. */
  readonly initial: Secret | undefined
  /**
   * Requests a new secret. Rejects with `denied` if the server refuses the credentials themselves. It is not aborted by
   * the calls that wait for it.
   */
  readonly request: (current: Secret | undefined) => Promise<Secret>
  /** Resolves when the secret is stored durably. */
  readonly store: (secret: Secret) => Promise<void>
}

export class Renewal<Secret> {
  #current: Secret | undefined
  /** A new secret that could not be stored yet. It is not used before it is. */
  #unstored: Secret | undefined
  #running: Promise<Secret> | undefined
  /** Resolves when no adopted secret is being stored. */
  #adopting: Promise<void> = Promise.resolve()
  #refusal: { readonly error: GatewayError; readonly until: number } | undefined

  constructor(private readonly options: RenewalOptions<Secret>) {
    this.#current = options.initial
  }

  get current(): Secret | undefined {
    return this.#current
  }

  /** The current secret, or the first one. */
  async get(signal?: AbortSignal): Promise<Secret> {
    return this.#current ?? this.#renewed(signal)
  }

  /** The secret that replaces `rejected`. If that is not the current one any more, nothing is requested. */
  async replace(rejected: Secret, signal?: AbortSignal): Promise<Secret> {
    if (this.#current !== undefined && this.#current !== rejected) return this.#current
    return this.#renewed(signal)
  }

  /**
   * Takes over what the server has replaced without being asked. `change` returns the new secret, or undefined if nothing
   * has changed. Resolves when it is stored, and counts from then on.
   */
  adopt(change: (current: Secret | undefined) => Secret | undefined): Promise<void> {
    const adopting = this.#adopting.then(async () => {
      const secret = change(this.#current)
      if (secret === undefined) return
      await this.options.store(secret)
      this.#current = secret
    })
    this.#adopting = adopting.catch(() => undefined)
    return adopting
  }

  /** Resolves when no renewal is running. Never rejects. */
  async settled(): Promise<void> {
    await this.#running?.catch(() => undefined)
    await this.#adopting
  }

  #renewed(signal: AbortSignal | undefined): Promise<Secret> {
    if (this.#refusal && performance.now() < this.#refusal.until) return Promise.reject(this.#refusal.error)
    this.#running ??= this.#renew().finally(() => {
      this.#running = undefined
    })
    return untilAborted(this.#running, signal)
  }

  async #renew(): Promise<Secret> {
    try {
      this.#unstored ??= await this.options.request(this.#current)
    } catch (error) {
      if (isGatewayError(error, 'denied')) this.#refusal = { error, until: performance.now() + refusalTime }
      throw error
    }
    const secret = this.#unstored
    await this.options.store(secret)
    this.#unstored = undefined
    this.#refusal = undefined
    this.#current = secret
    return secret
  }
}
