/**
 * Something that a server hands out for a while, such as a token of its object store or the URLs of the parts of an
 * upload: requested when it is needed, again before it is too old, and once more when the server does not accept it.
 */
import { untilAborted } from '../../../src/base/cancellation.js'
import { GatewayError } from '../../../src/base/errors.js'

interface LeaseOptions<Value> {
  readonly request: () => Promise<Value>
  /** A value that has already been handed out, now. */
  readonly initial?: Value
  /** Milliseconds for which a value is used. */
  readonly lifetime: number | ((value: Value) => number)
  /** Whether a use of the value has failed because it has expired. */
  readonly isExpired: (error: unknown) => boolean
}

export class Lease<Value> {
  /** `until`: of `performance.now()`; infinite until the value has arrived. */
  #current: { readonly value: Promise<Value>; until: number } | undefined

  constructor(private readonly options: LeaseOptions<Value>) {
    const { initial } = options
    if (initial !== undefined) this.#current = { value: Promise.resolve(initial), until: this.#endOf(initial) }
  }

  /**
   * Calls `work` with the value; once more, with a new one, if it has expired. One request serves all that wait for it.
   */
  async use<T>(work: (value: Value) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const used = this.#get()
    const value = await untilAborted(used, signal)
    try {
      return await work(value)
    } catch (error) {
      if (!this.options.isExpired(error)) throw error
      // Another use may have noticed it before.
      if (this.#current?.value === used) this.#current = undefined
      return work(await untilAborted(this.#get(), signal))
    }
  }

  #get(): Promise<Value> {
    if (this.#current && performance.now() < this.#current.until) return this.#current.value
    const value = this.options.request()
    const current = { value, until: Number.POSITIVE_INFINITY }
    this.#current = current
    value.then(
      (arrived) => (current.until = this.#endOf(arrived)),
      () => {
        if (this.#current === current) this.#current = undefined
      },
    )
    return value
  }

  #endOf(value: Value): number {
    const { lifetime } = this.options
    return performance.now() + (typeof lifetime === 'number' ? lifetime : lifetime(value))
  }
}

interface PartLinksOptions<Link> {
  /** Requests links for the parts with these numbers. */
  readonly request: (parts: readonly number[]) => Promise<ReadonlyMap<number, Link>>
  /** Links that have already been handed out, now. */
  readonly initial?: ReadonlyMap<number, Link>
  /** Number of parts of one request. */
  readonly batch: number
  /** Number of all parts. */
  readonly count: number
  readonly lifetime: number
  readonly isExpired: (error: unknown) => boolean
}

/** The upload URLs of parts, requested in batches, and again when they expire before their part is sent. */
export class PartLinks<Link> {
  readonly #batches = new Map<number, Lease<ReadonlyMap<number, Link>>>()

  constructor(private readonly options: PartLinksOptions<Link>) {
    const { initial, batch } = options
    for (const part of initial?.keys() ?? []) {
      // A batch that is not complete would lack the others.
      if ((part - 1) % batch === 0 && this.#numbersFrom(part).every((number) => initial?.has(number))) {
        this.#batches.set((part - 1) / batch, this.#newLease(part, initial))
      }
    }
  }

  /** Calls `work` with the link of a part; once more, with a new one, if it has expired. */
  async use<T>(part: number, work: (link: Link) => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.#batchOf(part).use(async (links) => {
      const link = links.get(part)
      if (link === undefined) throw new GatewayError('unavailable', { reason: 'the server sent no URL for a part' })
      return work(link)
    }, signal)
  }

  #batchOf(part: number): Lease<ReadonlyMap<number, Link>> {
    const { batch } = this.options
    const index = Math.floor((part - 1) / batch)
    const lease = this.#batches.get(index) ?? this.#newLease(index * batch + 1)
    this.#batches.set(index, lease)
    return lease
  }

  #newLease(first: number, initial?: ReadonlyMap<number, Link>): Lease<ReadonlyMap<number, Link>> {
    const { request, lifetime, isExpired } = this.options
    const numbers = this.#numbersFrom(first)
    return new Lease({ request: () => request(numbers), lifetime, isExpired, ...(initial && { initial }) })
  }

  /** The numbers of the batch that begins with this part. */
  #numbersFrom(first: number): readonly number[] {
    const { batch, count } = this.options
    return Array.from({ length: Math.min(batch, count - first + 1) }, (_, offset) => first + offset)
  }
}
