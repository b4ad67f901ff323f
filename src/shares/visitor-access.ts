/** How visitors open shares, and which can be opened. What may be seen in one is decided in `src/tree/policy/`. */
import type { Audit } from '../audit/audit.js'
import { outcomeOf } from '../audit/event.js'
import { createHash } from 'node:crypto'
import { lockout } from '../accounts/limiter.js'
import type { Accounts } from '../accounts/accounts.js'
import type { Principal, ProtocolFacts } from '../accounts/principal.js'
import { random } from '../accounts/random-secrets.js'
import { timingSafeEqualText } from '../accounts/timing-safe-text.js'
import { WrongGuesses } from '../accounts/wrong-guesses.js'
import { GatewayError, hasDetail, isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { nameOf, root, type Path } from '../base/path.js'
import type { ShareMode } from '../base/rights.js'
import type { ShareRow, ShareUse } from '../database/tables/shares.js'
import type { Store } from '../database/tables.js'
import { isWithinNetworks, networkOf } from '../net/addresses.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import { OpenShare, type OpenRoot } from './open-share.js'
import { isExpired, type StoredShare, type Shares } from './shares.js'
import { refusedToCreator } from './visitor-errors.js'

/**
 * Whether visitors can open a share, for its creator. `missing`: nothing of it is there any more. `closed`: its creator
 * may not share any of it now.
 */
export const shareStates = ['active', 'expired', 'used_up', 'missing', 'closed', 'disabled'] as const
export type ShareState = (typeof shareStates)[number]

/** A request of a visitor. */
export interface VisitorRequest {
  readonly protocol: ProtocolFacts
  /** The address of the visitor without port. */
  readonly address: string
  readonly userAgent: string
  /** The code of the share as the visitor sends it; empty if none was sent. */
  readonly code: string
  /** The value of the visitor's cookie. */
  readonly cookie: string | undefined
  /** Whether it begins a visit, unless it is of one. One that asks about headers only does not. */
  readonly begins: boolean
  /** Whether it uses the share as a drive, which each share has to permit. */
  readonly asDrive?: boolean
  /** If the visitor is refused, the server asks for an account instead, and the refusal is not recorded. */
  readonly mayBeAccount?: boolean
  readonly signal?: AbortSignal | undefined
}

interface VisitorAccessOptions {
  readonly shares: Shares
  readonly accounts: Pick<Accounts, 'principals'>
  readonly visits: Store['shareVisits']
  readonly as: (principal: Principal) => VirtualFs
  readonly log: Pick<Log, 'warn'>
  /** Gets each visit that begins, and each that is refused. Absent: nothing is recorded. */
  readonly audit?: Pick<Audit, 'record'>
  /** The time in milliseconds since 1970. */
  readonly now?: () => number
}

/** Milliseconds after which a visit has ended, and the next request begins another one. */
export const visitTime = 24 * 3600_000

/** Different wrong codes of one network for one share after which all are refused, and the milliseconds until then. */
export const codeLimit = { failures: 8, time: lockout.time }

/** The form of the cookies. Others are ignored, so that a visitor cannot choose what is stored. */
const cookieLength = 32
const cookiePattern = /^[a-z2-9]{32}$/

/** The code that is compared where there is no share. Nobody has sent it. */
const noCode = random(32)

/** The protocol of questions about a share that no visitor asks. */
export const ownQuestion: ProtocolFacts = { name: 'share', appPasswords: false }

/** Milliseconds between two removals of visits that have ended. */
const sweepInterval = 3600_000

export class VisitorAccess {
  readonly #guesses = new WrongGuesses(codeLimit)
  readonly #now: () => number
  readonly #sweeper: NodeJS.Timeout

  constructor(private readonly options: VisitorAccessOptions) {
    this.#now = options.now ?? Date.now
    // Visits that have ended only take space until the next time.
    const sweep = () =>
      options.visits.sweep(visitTime).catch((error: unknown) => {
        options.log.warn({ err: error }, 'failed to remove the visits that have ended')
      })
    this.#sweeper = setInterval(() => void sweep(), sweepInterval).unref()
  }

  close(): void {
    clearInterval(this.#sweeper)
  }

  /**
   * Opens a share for a visitor. Records a refusal in the audit, except where the visitor has still to be asked for the
   * code.
   */
  async open(id: string, request: VisitorRequest): Promise<OpenShare> {
    try {
      return await this.#open(id, request)
    } catch (error) {
      const { audit, shares } = this.options
      const needsCode =
        hasDetail(error, 'share_id_missing') || (hasDetail(error, 'share_code_wrong') && request.code === '')
      if (audit && isGatewayError(error) && !needsCode && request.mayBeAccount !== true) {
        // An id that does not exist may be a mistyped secret one: it is not recorded.
        const subject = shares.get(id) && shares.pseudonymOf(id)
        const name = subject === undefined ? 'guest' : `share:${subject}`
        const actor = { name, protocol: request.protocol.name, address: request.address }
        await audit.record({ kind: 'share.opened', actor, subject, ...outcomeOf(error) })
      }
      throw error
    }
  }

  /**
   * Opens a share for a visitor, and begins a visit unless the request is of one. Rejects with the detail
   * `share_id_missing`, `share_missing` (also for a network that may not visit the share, and for a drive if the share
   * is none), `share_ended` or `share_code_wrong`, and with `throttled` after too many wrong codes. Without the code
   * visitors learn whether somebody or its date has ended it. Nothing else is asked before the code, and no storage.
   */
  async #open(id: string, request: VisitorRequest): Promise<OpenShare> {
    if (id === '') throw new GatewayError('invalid', { detail: 'share_id_missing' })
    const share = this.options.shares.get(id)
    if (share === undefined || !isKnownTo(share, request)) {
      // A drive answers as to a wrong code, which must not take another time, or be limited otherwise.
      if (request.asDrive === true) this.#checkCode({ id, code: noCode }, request)
      throw shareMissing()
    }
    if (share.disabled || isExpired(share, this.#now())) throw shareEnded()
    this.#checkCode(share, request)
    const roots = await this.#openRoots(share, request)
    return new OpenShare(share, roots, await this.#enter(share, roots, request))
  }

  /** The roots that the creator may share now. Rejects with `share_ended` if there is none. */
  async #openRoots(share: StoredShare, { protocol, address, signal }: VisitorRequest): Promise<readonly OpenRoot[]> {
    const roots: OpenRoot[] = []
    for (const { path, removed } of share.roots) {
      if (removed) continue
      const fs = await allowed(() => this.#tree(share, path, protocol, address), signal)
      if (fs !== undefined) roots.push({ name: nameOf(path), fs })
    }
    if (roots.length === 0) throw shareEnded()
    return roots
  }

  /** Throws `unauthenticated` if the account of the creator cannot be used, and `denied` outside its base folder. */
  #tree(
    { id, creatorId, mode, expires: end }: Pick<ShareRow, 'id' | 'creatorId' | 'mode' | 'expires'>,
    path: Path,
    protocol: ProtocolFacts,
    address?: string,
  ): VirtualFs {
    const { accounts, shares, as } = this.options
    const folds = !shares.hasOneSpelling(path)
    const share = { id, pseudonym: shares.pseudonymOf(id), mode }
    return as(accounts.principals.forShare(creatorId, share, { path, folds, end }, protocol, address))
  }

  #checkCode(
    { id, code: own, creatorId }: Pick<ShareRow, 'id' | 'code'> & Partial<Pick<ShareRow, 'creatorId'>>,
    { code, address, protocol }: VisitorRequest,
  ): void {
    if (own === '') return
    const network = networkOf(address)
    const key = `${network} ${id}`
    this.#guesses.assertNotLocked(key, 'too many wrong codes for this share, try again later')
    if (timingSafeEqualText(code, own)) return
    const isLocked = code !== '' && this.#guesses.count(key, code)
    if (isLocked && creatorId !== undefined) {
      this.options.log.warn(
        { protocol: protocol.name, network, share: this.options.shares.pseudonymOf(id), user: creatorId },
        'too many wrong codes for a share: its codes are refused for five minutes',
      )
    }
    throw new GatewayError('password_required', { detail: 'share_code_wrong' })
  }

  /** Resolves to the secret of the visit that has begun. Rejects with `share_ended` if there may not be another one. */
  async #enter(
    share: StoredShare,
    roots: readonly OpenRoot[],
    { protocol, address, userAgent, cookie, begins, signal }: VisitorRequest,
  ): Promise<string | undefined> {
    const { visits, shares } = this.options
    const known = cookie !== undefined && cookiePattern.test(cookie) ? cookie : undefined
    const secret = known ?? random(cookieLength)
    const client = digestOf(`${networkOf(address)} ${userAgent}`)
    const visitor = { cookie: known && digestOf(known), issued: digestOf(secret), client }
    // Most requests are of a visit that has begun: they lock nothing.
    if (await visits.isIn(share.id, visitor, visitTime)) return undefined
    // A share without an existing file or folder gets no visit.
    if (!(await isAnyThere(roots, signal))) throw shareEnded()
    if (!begins) {
      if (isUsedUp(share, (await shares.use([share.id])).get(share.id))) throw shareEnded()
      return undefined
    }
    const entered = await visits.enter(share.id, visitor, visitTime)
    if (entered === undefined) throw shareEnded()
    if (entered !== 'begun') return undefined
    const subject = shares.pseudonymOf(share.id)
    const actor = { name: `share:${subject}`, protocol: protocol.name, address }
    await this.options.audit?.record({ kind: 'share.opened', actor, subject, result: 'done' })
    return secret
  }

  /** `use`: that of the share, if it was used. */
  async state(share: StoredShare, use: ShareUse | undefined): Promise<ShareState> {
    const ended = endedState(share, use, this.#now())
    if (ended !== undefined) return ended
    let state: ShareState = 'missing'
    for (const { path, removed } of share.roots) {
      if (removed) continue
      try {
        const fs = await allowed(() => this.#tree(share, path, ownQuestion))
        if (fs === undefined) throw new GatewayError('denied')
        await assertUsable(fs, share.mode)
        return 'active'
      } catch (error) {
        const { code } = toGatewayError(error)
        if (closing.has(code)) state = 'closed'
        // A storage that does not answer has what it had.
        else if (code !== 'not_found' && code !== 'not_folder') return 'active'
      }
    }
    return state
  }

  /** Returns the tree of the share, as `#tree` does. Throws `denied` for an account that cannot be used. */
  #treeOfCreator(...[share, path]: Parameters<VisitorAccess['assertMayShare']>): VirtualFs {
    try {
      return this.#tree(share, path, ownQuestion)
    } catch (error) {
      throw isGatewayError(error, 'unauthenticated') ? new GatewayError('denied', { cause: error }) : error
    }
  }

  /**
   * Rejects if the creator may not share what is at `path`, of the whole tree, in this mode: with `denied` if its
   * account may share nothing, with the detail `share_refused` otherwise, and as a look at the path does.
   */
  async assertMayShare(share: Pick<ShareRow, 'id' | 'creatorId' | 'mode' | 'expires'>, path: Path): Promise<void> {
    const fs = this.#treeOfCreator(share, path)
    try {
      await fs.assertAllowed('share', root)
      await assertUsable(fs, share.mode)
    } catch (error) {
      const { code } = toGatewayError(error)
      const isRefused = closing.has(code)
      if ((isRefused || code === 'not_found') && !fs.principal.mayShare)
        throw new GatewayError('denied', { cause: error })
      if (isRefused) throw new GatewayError('denied', { detail: 'share_refused', subject: path, cause: error })
      throw error
    }
  }
}

/** Whether the visitor may know that there is this share. */
function isKnownTo(share: StoredShare, { address, asDrive }: VisitorRequest): boolean {
  const isInNetworks = share.networks === undefined || isWithinNetworks(share.networks, address)
  return isInNetworks && (asDrive !== true || isDrive(share))
}

/** Whether visitors may use a share as a drive. One to upload to shows nothing: an older version stored such drives. */
function isDrive({ webdav, mode }: ShareRow): boolean {
  return webdav && mode !== 'upload'
}

/** Errors by which the creator may not share something. */
const closing: ReadonlySet<string> = new Set([...refusedToCreator, 'unauthenticated'])

/** Rejects unless a root exists, and visitors may do with it what the mode is for. */
async function assertUsable(fs: VirtualFs, mode: ShareMode): Promise<void> {
  const { kind } = await fs.stat(root)
  if (kind === 'symlink') throw new GatewayError('not_found')
  if (mode !== 'upload') await fs.assertAllowed(kind === 'folder' ? 'list' : 'read', root)
  if (mode === 'read') return
  if (kind === 'file') throw new GatewayError('not_folder')
  await fs.checkMayChange('write', root)
}

/** The tree below a root; undefined if the creator may not share the root now. */
async function allowed(tree: () => VirtualFs, signal?: AbortSignal): Promise<VirtualFs | undefined> {
  try {
    const fs = tree()
    await fs.assertAllowed('share', root, { signal })
    return fs
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'unauthenticated', ...refusedToCreator)) return undefined
    throw error
  }
}

/** Whether one of them exists, or may exist on a storage that does not answer. */
async function isAnyThere(roots: readonly OpenRoot[], signal: AbortSignal | undefined): Promise<boolean> {
  for (const { fs } of roots) {
    try {
      await fs.stat(root, { signal })
      return true
    } catch (error) {
      if (!isGatewayError(error, 'not_found', 'parent_missing', ...refusedToCreator)) return true
    }
  }
  return false
}

/** The state of a share that has ended by itself, whatever it shares. `now`: milliseconds since 1970. */
export function endedState(share: StoredShare, use: ShareUse | undefined, now: number): ShareState | undefined {
  if (share.disabled) return 'disabled'
  if (isExpired(share, now)) return 'expired'
  return isUsedUp(share, use) ? 'used_up' : undefined
}

function isUsedUp({ maxVisits }: ShareRow, use: ShareUse | undefined): boolean {
  return maxVisits > 0 && (use?.visits ?? 0) >= maxVisits
}

function shareMissing(): GatewayError {
  return new GatewayError('not_found', { detail: 'share_missing' })
}

function shareEnded(): GatewayError {
  return new GatewayError('not_found', { detail: 'share_ended' })
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
