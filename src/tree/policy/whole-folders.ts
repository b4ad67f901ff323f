/**
 * Decisions on whole folders: what grants below one refuse, and to where something may be moved or copied. Pure
 * functions, as those of `one-path.ts`. `…Refusal` returns why something is refused, and undefined if it is not.
 */
import type { Principal } from '../../accounts/principal.js'
import { isWithin, root, segmentsOf, within, type Path } from '../../base/path.js'
import type { Right } from '../../base/rights.js'
import { covers } from '../folder-rules.js'
import type { GrantedPath } from '../grant-trie.js'
import { grantsContent, hidesNames, isSeen } from './names.js'
import { askedRights, grantsRight, refusedBelow, type Action, type PolicyRefusal, type RuledPath } from './one-path.js'

/**
 * Whether nothing at or below `top` can be refused to a principal that may read `top`, so that the targets of symlinks
 * to there need no decision. `hasRules`: whether the tree has folder rules, or grants apply to the principal.
 */
export function readsAll({ base }: Principal, top: Path, hasRules: boolean): boolean {
  return !hasRules && isWithin(base, top)
}

/**
 * Whether a folder may be moved without a decision on the targets of the symlinks in it. `mountPoint`: that of its
 * storage.
 */
export function movesAnySymlink(principal: Principal, mountPoint: Path, hasRules: boolean): boolean {
  return principal.role === 'admin' || readsAll(principal, mountPoint, hasRules)
}

/**
 * Refuses actions on a whole folder that a grant below it denies, whether or not anything exists there: with `remove`
 * denied at /a/b, /a cannot be removed. A copy leaves out what the principal does not see.
 */
export function treeRefusal(
  principal: Principal,
  actions: readonly Action[],
  granted: GrantedPath | undefined,
): PolicyRefusal | undefined {
  return refusedAt(principal, actions, granted) === undefined ? undefined : refusedBelow
}

/** The path below a folder at which a grant refuses these actions on the whole folder. */
export function refusedAt(
  principal: Principal,
  actions: readonly Action[],
  granted: GrantedPath | undefined,
): Path | undefined {
  if (granted?.hasBelow !== true) return undefined
  const denied = deniedOf(actions)
  for (const below of granted.below()) {
    const isRefused = actions.includes('copy')
      ? isSeen(principal, below.path, below) && !isCopied(principal, below)
      : below.deniesHere(denied)
    if (isRefused) return below.path
  }
  return undefined
}

/** The rights whose denial below a folder refuses the actions on all of it. A move also takes the entries away. */
function deniedOf(actions: readonly Action[]): readonly Right[] {
  const asked = actions.map((action) => askedRights[action])
  return actions.includes('move') ? [...asked, 'remove', 'see'] : [...asked, 'see']
}

/** Whether the grants, or else the permission, let the principal copy what is at a path. */
function isCopied(principal: Principal, granted: GrantedPath): boolean {
  return grantsContent(granted) && (grantsRight('copy', granted, false) ?? principal.hasPermission('copy'))
}

/** Refuses to copy what the grants do not let the principal copy. */
export function copyRefusal(principal: Principal, granted: GrantedPath | undefined): PolicyRefusal | undefined {
  return granted === undefined || isCopied(principal, granted) ? undefined : refusedBelow
}

/** The paths below a folder that the principal sees and whose content the grants do not let it read. */
export function unreadableBelow(principal: Principal, granted: GrantedPath | undefined): readonly Path[] {
  if (granted?.hasBelow !== true) return []
  const unreadable = [...granted.below()].filter(
    (below) => isSeen(principal, below.path, below) && !grantsContent(below),
  )
  return unreadable.map(({ path }) => path)
}

/**
 * Refuses a rename or move after which the principal could read what it cannot read now: with `read` denied at /a and
 * allowed at /b, /a/x must not become /b/x. `actions`: 'rename', 'move', or both. `isFolder`: everything below moves
 * too.
 */
export function readableByMoveRefusal(
  actions: readonly Action[],
  { granted: source }: RuledPath,
  { path, granted: target }: RuledPath,
  isFolder: boolean,
): PolicyRefusal | undefined {
  if (source === undefined || target === undefined) return undefined
  if (grantsContent(target) && !grantsContent(source)) return { code: 'denied' }
  if (!isFolder || !target.hasBelow) return undefined
  const denied: readonly Right[] = [...actions.map((action) => askedRights[action]), 'write', 'see']
  for (const below of target.below()) {
    const from = memberAt(source, path, below.path)
    if (below.deniesHere(denied) || (grantsContent(below) && !grantsContent(from))) return refusedBelow
  }
  return undefined
}

/**
 * Refuses to move a folder item by item if the principal could read what is copied, and cannot read it now. If such a
 * move ends half way, the copies stay without the grants that restrict the folder: with `read` denied at /a/secret and
 * allowed at /b, /a cannot be moved to /b/a.
 */
export function readableByItemsRefusal(
  principal: Principal,
  { path, granted: source }: RuledPath,
  { granted: target }: RuledPath,
): PolicyRefusal | undefined {
  if (target === undefined) return undefined
  const becomesReadable = unreadableBelow(principal, source).some((below) =>
    grantsContent(memberAt(target, path, below)),
  )
  return becomesReadable ? refusedBelow : undefined
}

/** The member that is at the same place in `folder` as `below` is in the folder at `top`. */
function memberAt(folder: GrantedPath, top: Path, below: Path): GrantedPath {
  return segmentsOf(within(top, below) ?? root).reduce((at, name) => at.child(name), folder)
}

/**
 * Refuses a move of a folder that would show the principal names in it. A rule at a folder above hides them, and such a
 * rule does not move: with a rule at /a that hides `*.key` in all folders below, /a/b must not become /c.
 */
export function revealingRefusal(
  principal: Principal,
  source: RuledPath,
  target: RuledPath,
): PolicyRefusal | undefined {
  if (!revealsNames(principal, source, target)) return undefined
  return { code: 'denied', reason: 'a folder rule hides things here that would be seen there' }
}

export function revealsNames(principal: Principal, { path, atPath: rule }: RuledPath, target: RuledPath): boolean {
  if (!hidesNames(principal, rule) || rule.path === path || !rule.hideSub) return false
  const { atParent } = target
  return atParent?.hide !== rule.hide || !covers(atParent, atParent.hideSub, target.path)
}

/** Refuses to move or remove a mount point, a folder above one, and the principal's base folder: `isFixed`. */
export function fixedFolderRefusal(
  isFixed: boolean,
  detail: 'mount_moved' | 'mount_removed',
): PolicyRefusal | undefined {
  return isFixed ? { code: 'denied', detail } : undefined
}

/**
 * Refuses a move or copy to itself, to a folder that it is in, and to a mount point. `isFolder`: the source is one.
 * `isMountFolder`: the target is one.
 */
export function replacementRefusal(
  source: Path,
  target: Path,
  isFolder: boolean,
  isMountFolder: boolean,
): PolicyRefusal | undefined {
  if (isFolder && isWithin(source, target)) return { code: 'invalid', detail: 'into_itself' }
  if (isWithin(target, source)) return { code: 'invalid', reason: 'a folder cannot be replaced by what is in it' }
  return isMountFolder ? { code: 'denied', reason: 'a mount point cannot be replaced' } : undefined
}
