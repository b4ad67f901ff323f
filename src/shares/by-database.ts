/**
 * What accounts, folder rules and grants say of a share. No backend is asked, so that it needs no running daemon. When
 * a visitor comes, `VisitorAccess` asks everything.
 */
import type { Accounts } from '../accounts/accounts.js'
import { isGatewayError, toGatewayError, type ErrorCode } from '../base/errors.js'
import { childOf, type Path } from '../base/path.js'
import type { ShareRow, ShareUse } from '../database/tables/shares.js'
import { explainAccess } from '../tree/decisions.js'
import type { Rules } from '../tree/folder-rules.js'
import type { Grants } from '../tree/grants.js'
import type { Action } from '../tree/policy/one-path.js'
import type { Shares, StoredShare } from './shares.js'
import { endedState, ownQuestion, type ShareState } from './visitor-access.js'

interface ShareSources {
  readonly accounts: Pick<Accounts, 'principals'>
  readonly rules: Rules
  readonly grants: Grants
  readonly shares: Pick<Shares, 'pseudonymOf'>
}

/** The kind of the entry at a path, as far as it is known without its backend. Undefined: not known. */
export type KnownKind = 'file' | 'folder' | 'missing' | undefined

/**
 * Returns the reason for which the creator may not share the entry at `path`, a path of the whole tree, in this mode;
 * undefined if nothing forbids it.
 */
export function refusalOfSharing(
  sources: ShareSources,
  { id, creatorId, mode }: Pick<ShareRow, 'id' | 'creatorId' | 'mode'>,
  path: Path,
  kind: KnownKind,
): string | undefined {
  try {
    const share = { id, pseudonym: sources.shares.pseudonymOf(id), mode }
    const principal = sources.accounts.principals.forShare(creatorId, share, { path, folds: false }, ownQuestion)
    for (const [action, at] of askedActions(mode, path, kind)) {
      const { refusal, decidedBy } = explainAccess(sources, principal, action, at)
      if (refusal !== undefined) {
        return reasons[refusal.code] ?? `grants and permissions do not allow "${decidedBy.right}" there`
      }
    }
    return undefined
  } catch (error) {
    if (isGatewayError(error, 'denied')) return 'it is outside the base folder'
    return toGatewayError(error).reason
  }
}

/** The state of a share whose storages answer. `kindOf`: what is at a path. `now`: milliseconds since 1970. */
export async function stateByDatabase(
  sources: ShareSources,
  share: StoredShare,
  use: ShareUse | undefined,
  kindOf: (path: Path) => Promise<KnownKind>,
  now = Date.now(),
): Promise<ShareState> {
  const ended = endedState(share, use, now)
  if (ended !== undefined) return ended
  let state: ShareState = 'missing'
  for (const { path, removed } of share.roots) {
    if (removed) continue
    const kind = await kindOf(path)
    if (refusalOfSharing(sources, share, path, kind) !== undefined) state = 'closed'
    else if (kind !== 'missing' && (share.mode === 'read' || kind !== 'file')) return 'active'
  }
  return state
}

/** Returns the actions that visitors must be allowed, as `VisitorAccess` asks for them. */
function askedActions(mode: ShareRow['mode'], path: Path, kind: KnownKind): readonly (readonly [Action, Path])[] {
  return [
    ['share', path],
    ...(mode === 'upload' ? [] : [[kind === 'file' ? 'read' : 'list', path] as const]),
    ...(mode === 'read' ? [] : [['write', childOf(path, 'any')] as const]),
  ]
}

/** Visitors do not see the entries that the creator may not share. */
const unshared = 'the user has no right "share" there, or does not see it'

/** Reasons that replace the right that is asked, by the code of the error. */
const reasons: Partial<Record<ErrorCode, string>> = {
  hidden: 'a folder rule hides it',
  not_found: unshared,
  parent_missing: unshared,
  password_required: 'a folder rule asks for a password there',
}
