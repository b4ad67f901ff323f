/**
 * Which names a principal sees, by the grants and by the hidden names of folder rules. Pure functions, as those of
 * `one-path.ts`.
 */
import type { Principal } from '../../accounts/principal.js'
import { childOf, isWithin, root, segmentsOf, within, type Path } from '../../base/path.js'
import { maxSteps, stepsOf } from '../../base/patterns.js'
import type { Entry } from '../../contract/entry.js'
import { covers, type Rule } from '../folder-rules.js'
import type { GrantedPath, NamesWithGrants } from '../grant-trie.js'

/**
 * Whether the grants let the principal know that the path exists. The base folder of a user who is granted only is
 * always seen, without its members; one that the user has narrowed is seen as any other folder.
 */
export function isSeen(principal: Principal, path: Path, granted: GrantedPath | undefined): boolean {
  if (!isShared(principal, granted)) return granted?.opensBelow === true && isAnySharedBelow(principal, granted)
  if (granted === undefined || isGranted('see', granted) || granted.opensBelow) return true
  return granted.grantedOnly && principal.folder === root && path === principal.baseIn(path)
}

/**
 * Whether a path may be seen through a share: visitors do not see entries that the creator may not share. True for
 * every principal that is not a visitor.
 */
export function isShared(principal: Principal, granted: GrantedPath | undefined): boolean {
  if (principal.share === undefined) return true
  if (granted === undefined) return principal.hasPermission('share')
  if (!isGranted('see', granted)) return false
  return granted.says('share') ?? (!granted.grantedOnly && principal.hasPermission('share'))
}

/** Whether a visitor sees a folder that leads to a grant: only if something below the folder is shared. */
function isAnySharedBelow(principal: Principal, granted: GrantedPath): boolean {
  for (const below of granted.below()) if (isShared(principal, below)) return true
  return false
}

/** Whether the grants allow a right that needs no permission where no grant mentions it. */
export function isGranted(right: 'see' | 'read', granted: GrantedPath): boolean {
  return granted.says(right) ?? !granted.grantedOnly
}

/** Whether the grants let the principal read the content. */
export function grantsContent(granted: GrantedPath | undefined): boolean {
  return granted === undefined || (isGranted('see', granted) && isGranted('read', granted))
}

/** Whether listings show the principal how much space the storages have. */
export function seesMountUsages({ role, share }: Principal): boolean {
  return role !== 'guest' && share === undefined
}

/** Whether a rule hides names from the principal, in its own folder or below. */
export function hidesNames(principal: Principal, rule: Rule | undefined): rule is Rule {
  return rule !== undefined && rule.hide !== '' && !principal.hasPermission('seeHidden')
}

/** The members of one folder that its listings show. */
export interface MemberFilter {
  readonly showsAll: boolean
  /** Names are matched against patterns, which may take long. */
  readonly hasPatterns: boolean
  /** Whether those members are seen that no rule and no grant is about; undefined if each name must be asked. */
  readonly others: { readonly withGrants: NamesWithGrants; readonly areSeen: boolean } | undefined
  shows(name: string): boolean
}

/**
 * The filter for listings of `folder`, which the principal may list. `rule`: the rule that applies to the folder.
 * `ruleOf`: the own rule of a folder; undefined if no folder below has one. `granted`: what the grants say at the
 * folder.
 */
export function memberFilter(
  principal: Principal,
  folder: Path,
  rule: Rule | undefined,
  ruleOf: ((member: Path) => Rule | undefined) | undefined,
  granted?: GrantedPath,
): MemberFilter {
  const hiding = hidesNames(principal, rule) && covers(rule, rule.hideSub, folder) ? rule : undefined
  const asksMembers =
    granted !== undefined && (granted.hasBelow || !isGranted('see', granted.rest) || principal.share !== undefined)
  const showsAll = hiding === undefined && ruleOf === undefined && !asksMembers
  const others =
    hiding === undefined && ruleOf === undefined && granted !== undefined
      ? { withGrants: granted.withGrants, areSeen: isSeen(principal, childOf(folder, 'any'), granted.rest) }
      : undefined
  return {
    showsAll,
    hasPatterns: hiding !== undefined,
    others,
    shows(name) {
      if (showsAll) return true
      if (others?.withGrants.has(name) === false) return others.areSeen
      const member = childOf(folder, name)
      return !isOmitted(principal, member, hiding, ruleOf?.(member), asksMembers ? granted.child(name) : undefined)
    },
  }
}

/**
 * Whether listings of the parent folder omit `path`. `folder`: the rule that applies to the parent folder. `own`: the
 * rule of `path` itself, not one that applies to it from above. `granted`: what the grants say at `path`.
 */
export function isOmitted(
  principal: Principal,
  path: Path,
  folder: Rule | undefined,
  own: Rule | undefined,
  granted?: GrantedPath,
): boolean {
  if (!isSeen(principal, path, granted)) return true
  return (own !== undefined && excludes(own.readUsers, principal)) || isHidden(principal, path, folder)
}

/**
 * Whether the principal may have what is derived from the content of an entry, such as hashes. `granted`: what the
 * grants say at its path. Where grants apply, it has nothing of a symlink, whose target it may not be able to read.
 */
export function showsDerived(granted: GrantedPath, { isSymlink }: Pick<Entry, 'isSymlink'>): boolean {
  return isSymlink !== true && grantsContent(granted)
}

/** A part of the tree of which the principal sees the names. `deep`: also everything below `path`. */
export interface SeenPart {
  readonly path: Path
  readonly deep: boolean
}

/** The names below a folder that the grants let a principal see. */
export interface SeenNames {
  /** The parts that are seen; undefined if the whole folder is, except for `closed`. */
  readonly parts: readonly SeenPart[] | undefined
  /** Paths that are not seen, with everything below them. */
  readonly closed: readonly Path[]
  /** False if some names have to be judged one by one, by `isSeen`. */
  readonly isExact: boolean
}

/** Undefined if there are more than `maxPaths` parts and closed paths. */
export function seenNames(granted: GrantedPath | undefined, maxPaths: number): SeenNames | undefined {
  if (granted === undefined) return { parts: undefined, closed: [], isExact: true }
  const parts: SeenPart[] = []
  /** The deep parts above the path. What is below a path follows it. */
  const around: Path[] = []
  const closed: Path[] = []
  let isExact = true
  const sees = isGranted('see', granted)
  for (const below of granted.below()) {
    for (let last = around.at(-1); last !== undefined && !isWithin(last, below.path); last = around.at(-1)) around.pop()
    const isPart = isGranted('see', below)
    if (!sees && (isPart || below.opensBelow)) parts.push({ path: below.path, deep: isPart })
    if (isPart) around.push(below.path)
    else if ((sees || around.length > 0) && below.opensBelow) isExact = false
    else if (sees || around.length > 0) closed.push(below.path)
    if (parts.length + closed.length > maxPaths) return undefined
  }
  return { parts: sees ? undefined : parts, closed, isExact }
}

/**
 * Whether a segment of `path` below the rule's folder matches the rule's patterns. `folder`: the rule that applies to
 * the parent folder of `path`, so that listings and direct requests have the same result.
 */
export function isHidden(principal: Principal, path: Path, folder: Rule | undefined): boolean {
  if (!hidesNames(principal, folder)) return false
  // Segments of the base are visible, because an administrator has assigned it.
  return hidesSegmentOf(folder, path, segmentsOf(principal.accountBase).length - segmentsOf(folder.path).length)
}

/**
 * Like `isHidden`, for a user without the permission to see hidden entries. The first `skipped` segments below the
 * rule's folder are not checked. A path that takes too long to match is hidden.
 */
export function hidesSegmentOf(rule: Rule, path: Path, skipped = 0): boolean {
  const names = segmentsOf(within(rule.path, path) ?? path)
  let left = maxSteps
  return names.some((name, depth) => {
    if (depth < skipped || (depth > 0 && !rule.hideSub)) return false
    left -= stepsOf(rule.hideCost, name.length)
    return left < 0 || rule.hides(name)
  })
}

/** Whether a list of users in a rule excludes the principal. An empty list excludes nobody. */
export function excludes(users: readonly number[], principal: Principal): boolean {
  return users.length > 0 && !users.includes(principal.userId)
}
