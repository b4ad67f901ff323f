/** The options of a share, and a pool of connections to it: opened on demand, shared by calls, closed when idle. */
import { settlesWithin } from '../../src/base/cancellation.js'
import { GatewayError } from '../../src/base/errors.js'
import type { SmbOptions } from './index.js'
import { ConnectionError } from './client/errors.js'
import type { Share, SmbShareOptions } from './client/share.js'

/**
 * Most connections of one pool. One carries any number of calls; several speed up concurrent transfers of large files.
 */
const maxShares = 4
/** Maximum number of calls on one connection before another connection is opened. */
const maxCallsPerShare = 8
/** Milliseconds without a call after which all connections are closed. */
const idleTimeout = 60_000
/**
 * Milliseconds without a message from the server after which a connection is probed before use, and the timeout of that
 * probe.
 */
const probeAfter = 10_000
const probeTimeout = 5_000

interface Member {
  readonly share: Share
  users: number
  /** Pending liveness probe. */
  check?: Promise<void> | undefined
}

/** A connection that stays open until it is released. Releasing it again does nothing. */
export interface ShareLease {
  readonly share: Share
  release(): void
}

export class SharePool {
  readonly #members = new Set<Member>()
  #opening: Promise<Member> | undefined
  #idle: NodeJS.Timeout | undefined
  /** Resolves `whenIdle`. */
  #released: () => void = () => undefined
  readonly #end = new AbortController()

  /** `connect` opens a connection that closes when its signal is aborted. */
  constructor(private readonly connect: (signal: AbortSignal) => Promise<Share>) {}

  /**
   * Runs `work` on the connection with the fewest calls. If a request of it fails because the server has ended the
   * session, runs it once more on another connection: the server has not processed that request.
   */
  async use<T>(work: (share: Share) => Promise<T>): Promise<T> {
    return this.#runWithRetry(work, (_share, error) => error instanceof ConnectionError && error.kind === 'ended')
  }

  /**
   * Like `use`, for idempotent work: also retries after a lost connection, such as an idle one that a firewall dropped.
   */
  async useIdempotent<T>(work: (share: Share) => Promise<T>): Promise<T> {
    return this.#runWithRetry(work, (share) => share.broken !== undefined)
  }

  async #runWithRetry<T>(
    work: (share: Share) => Promise<T>,
    isRetryable: (share: Share, error: unknown) => boolean,
  ): Promise<T> {
    const lease = await this.acquire()
    try {
      return await work(lease.share)
    } catch (error) {
      if (this.#end.signal.aborted || !isRetryable(lease.share, error)) throw error
    } finally {
      lease.release()
    }
    const secondLease = await this.acquire()
    try {
      return await work(secondLease.share)
    } finally {
      secondLease.release()
    }
  }

  /** Returns a connection that is alive. */
  async acquire(): Promise<ShareLease> {
    this.#assertOpen()
    clearTimeout(this.#idle)
    return this.#lease(await this.#pick())
  }

  /** Keeps the connection that `work` runs on open after `work` has returned. */
  retain(share: Share): ShareLease {
    const member = [...this.#members].find((each) => each.share === share) ?? { share, users: 0 }
    return this.#lease(member)
  }

  #lease(member: Member): ShareLease {
    member.users++
    // Another call may have released its connection and started the idle timer in the meantime.
    clearTimeout(this.#idle)
    let isReleased = false
    return {
      share: member.share,
      release: () => {
        if (isReleased) return
        isReleased = true
        member.users--
        if (this.#isInUse) return
        this.#released()
        this.#startIdleTimer()
      },
    }
  }

  /** Resolves when no connection is in use, or after `timeout` milliseconds. */
  async whenIdle(timeout: number): Promise<void> {
    const released = new Promise<void>((resolve) => (this.#released = resolve))
    if (this.#isInUse) await settlesWithin(released, timeout)
  }

  close(): void {
    this.#end.abort()
    clearTimeout(this.#idle)
    this.#members.clear()
  }

  async #pick(): Promise<Member> {
    const usable = this.#usable().sort((one, other) => one.users - other.users)
    const [least] = usable
    const isEnough = least !== undefined && (least.users < maxCallsPerShare || usable.length >= maxShares)
    const member = isEnough ? least : await this.#openOr(least)
    if (member.share.idleMilliseconds < probeAfter && member.share.broken === undefined) return member
    member.check ??= member.share.assertAlive(probeTimeout).finally(() => (member.check = undefined))
    const isAlive = await member.check.then(
      () => true,
      () => false,
    )
    return isAlive ? member : this.#openOr(undefined)
  }

  /** Opens a connection. If the server refuses and `fallback` is usable, returns `fallback` instead. */
  async #openOr(fallback: Member | undefined): Promise<Member> {
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined))
    try {
      return await this.#opening
    } catch (error) {
      if (fallback === undefined || fallback.share.broken !== undefined) throw error
      return fallback
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

  #usable(): Member[] {
    for (const member of this.#members) if (member.share.broken !== undefined) this.#members.delete(member)
    return [...this.#members]
  }

  get #isInUse(): boolean {
    return this.#usable().some(({ users }) => users > 0)
  }

  #startIdleTimer(): void {
    if (this.#end.signal.aborted) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#closeAll(), idleTimeout).unref()
  }

  #closeAll(): void {
    for (const { share } of this.#members) share.close()
    this.#members.clear()
  }
}

/**
 * Timeouts in milliseconds: to connect, for a response, and for a response that the server has announced as pending.
 */
const limits = { connect: 15_000, answer: 60_000, work: 300_000 } as const

const protections = { 'as the server asks': 'none', signed: 'signing', encrypted: 'encryption' } as const

/** Maximum length of `share_name`, including surrounding slashes. */
const maxShareName = 255

/** Converts the options of a storage. Throws `invalid` if the address or the share name is malformed. */
export function shareOptionsOf({
  address,
  username,
  password,
  share_name: share,
  protection,
}: SmbOptions): SmbShareOptions {
  const match = /^(?:smb:\/\/)?(?:\[([^\]]+)\]|([^:[\]/\\]+))(?::(\d{1,5}))?\/?$/.exec(address.trim())
  const [, bracketed, plain, port = '445'] = match ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65535) {
    throw new GatewayError('invalid', { reason: 'address must be host or host:port' })
  }
  const name = (share.length > maxShareName ? '' : share).replace(/^[\\/]+|[\\/]+$/g, '')
  if (name === '' || /[\\/]/.test(name)) {
    throw new GatewayError('invalid', { reason: 'share_name must be one name; folders of it go into root_folder_path' })
  }
  const [, domain, account] = /^([^\\]+)\\(.+)$/.exec(username) ?? []
  const kind = protections[protection as keyof typeof protections]
  return {
    host,
    port: Number(port),
    limits,
    share: `\\\\${host}\\${name}`,
    // For user@domain the server determines the domain.
    credentials: { username: account ?? username, domain: domain ?? '', password },
    protection: kind,
  }
}
