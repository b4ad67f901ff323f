/** The few connections of one storage for one purpose: made when they are needed, shared by all calls, closed when nobody needs them. */
import { GatewayError } from '../../src/errors.js'
import type { Share } from './client/share.js'

/** One carries any number of calls; more of them help large files that are read and written side by side. */
const sharesAtMost = 4
/** Calls that share one before another is made. */
const callsEnough = 8
/** Milliseconds without a call. */
const idleLimit = 60_000
/** Milliseconds after which a silent connection is asked whether it still stands, and for its answer. */
const silenceLimit = 10_000
const aliveLimit = 5_000

interface Member {
  readonly share: Share
  users: number
  /** Under way while it is asked whether it still stands. */
  check?: Promise<void> | undefined
}

/** A connection that is kept until `give`, which may be called again. */
export interface Held {
  readonly share: Share
  give(): void
}

export class Shares {
  readonly #members = new Set<Member>()
  #opening: Promise<Member> | undefined
  #idle: NodeJS.Timeout | undefined
  readonly #end = new AbortController()

  /** `connect` makes one that ends with the signal. */
  constructor(private readonly connect: (signal: AbortSignal) => Promise<Share>) {}

  /** Does the work on the connection with the fewest calls; again on another one where the session turned out to be over, and nothing was done. */
  async use<T>(work: (share: Share) => Promise<T>): Promise<T> {
    return this.#retried(work, (share) => share.broken?.kind === 'ended')
  }

  /** The same for work that may be done twice: also where the connection was lost, as happens to idle ones behind firewalls. */
  async useAgain<T>(work: (share: Share) => Promise<T>): Promise<T> {
    return this.#retried(work, (share) => share.broken !== undefined)
  }

  async #retried<T>(work: (share: Share) => Promise<T>, isWorthIt: (share: Share) => boolean): Promise<T> {
    const held = await this.hold()
    try {
      return await work(held.share)
    } catch (error) {
      if (this.#end.signal.aborted || !isWorthIt(held.share)) throw error
    } finally {
      held.give()
    }
    const other = await this.hold()
    try {
      return await work(other.share)
    } finally {
      other.give()
    }
  }

  /** One that surely stands. */
  async hold(): Promise<Held> {
    this.#assertOpen()
    clearTimeout(this.#idle)
    return this.#held(await this.#pick())
  }

  /** Holds the one that work is done on beyond the end of that work. */
  keep(share: Share): Held {
    const member = [...this.#members].find((each) => each.share === share) ?? { share, users: 0 }
    return this.#held(member)
  }

  #held(member: Member): Held {
    member.users++
    // One that was given back while this one was found may have begun to wait for the end.
    clearTimeout(this.#idle)
    let isHeld = true
    return {
      share: member.share,
      give: () => {
        if (!isHeld) return
        isHeld = false
        member.users--
        this.#rest()
      },
    }
  }

  close(): void {
    this.#end.abort()
    clearTimeout(this.#idle)
    this.#members.clear()
  }

  async #pick(): Promise<Member> {
    const standing = this.#standing().sort((one, other) => one.users - other.users)
    const [least] = standing
    const isEnough = least !== undefined && (least.users < callsEnough || standing.length >= sharesAtMost)
    const member = isEnough ? least : await this.#another(least)
    if (member.share.silence < silenceLimit && member.share.broken === undefined) return member
    member.check ??= member.share.assertAlive(aliveLimit).finally(() => (member.check = undefined))
    const stands = await member.check.then(
      () => true,
      () => false,
    )
    return stands ? member : this.#another(undefined)
  }

  /** A server may not want more connections than there are: then those are shared. */
  async #another(standing: Member | undefined): Promise<Member> {
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined))
    try {
      return await this.#opening
    } catch (error) {
      if (standing === undefined || standing.share.broken !== undefined) throw error
      return standing
    }
  }

  async #open(): Promise<Member> {
    const share = await this.connect(this.#end.signal)
    this.#assertOpen()
    const member: Member = { share, users: 0 }
    this.#members.add(member)
    return member
  }

  #assertOpen(): void {
    if (this.#end.signal.aborted) throw new GatewayError('aborted', { reason: 'the storage was stopped' })
  }

  #standing(): Member[] {
    for (const member of this.#members) if (member.share.broken !== undefined) this.#members.delete(member)
    return [...this.#members]
  }

  #rest(): void {
    if (this.#end.signal.aborted || this.#standing().some(({ users }) => users > 0)) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#closeAll(), idleLimit).unref()
  }

  #closeAll(): void {
    for (const { share } of this.#members) share.close()
    this.#members.clear()
  }
}
