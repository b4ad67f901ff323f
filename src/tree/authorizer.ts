/**
 * The only caller of `policy.ts`: looks up the folder rules on which its decisions depend. Each function is named after
 * the one that decides. Paths are of the whole tree.
 */
import type { Principal } from '../accounts/principal.js'
import { parentOf, type Path } from '../base/path.js'
import type { Rule, Rules } from './folder-rules.js'
import * as policy from './policy.js'
import type { Action, FolderRights, MemberFilter, RuledPath, Ruling, Verdict } from './policy.js'

/** The part of the folder rules that most decisions require. */
type RuleLookup = Pick<Rules, 'nearest'>
/** What decisions with a folder password require. */
type GuardedRules = Pick<Rules, 'nearest' | 'guesses' | 'hasPassword'>

/**
 * Decides on an action at `at`. `password`: the folder password of the request. Throws `throttled` if the client has
 * sent too many wrong ones and sends one. `ruling`: used instead of the rules that apply to `at`, for example for a
 * member that does not exist yet.
 */
export function judge(
  rules: GuardedRules,
  principal: Principal,
  action: Action,
  at: Path,
  password?: string,
  ruling: Ruling = ruled(rules, at),
): Verdict {
  return counted(rules, principal, policy.decidingRule(action, ruling), password, (compared) =>
    policy.judge(principal, action, at, ruling, compared),
  )
}

/** Decides on an action on those members of a folder that no rule hides. Throws as `judge`. */
export function judgeMembers(
  rules: GuardedRules,
  principal: Principal,
  action: Action,
  folder: Path,
  password?: string,
): Verdict {
  const rule = rules.nearest(folder)
  return counted(rules, principal, rule, password, (compared) =>
    policy.judgeMembers(principal, action, folder, rule, compared),
  )
}

/**
 * Decides on an action at the target of a symlink. `realBase`: the principal's base with its symlinks resolved. Throws
 * as `judge`.
 */
export function judgeTarget(
  rules: GuardedRules,
  principal: Principal,
  action: Action,
  [symlink, target, realBase]: readonly [symlink: Path, target: Path, realBase: Path],
  password: string | undefined,
): Verdict | 'outside' {
  const [from, to] = [ruled(rules, symlink), ruled(rules, target)]
  return counted(rules, principal, policy.decidingRule(action, to), password, (compared) =>
    policy.judgeTarget(principal, action, from, to, realBase, compared),
  )
}

/** The decision with this password, which is compared and counted only if the decision depends on it. */
function counted<Decision extends Verdict | 'outside'>(
  rules: Pick<Rules, 'guesses' | 'hasPassword'>,
  principal: Principal,
  rule: Rule | undefined,
  password: string | undefined,
  decide: (compared: string | undefined) => Decision,
): Decision {
  if (password === undefined || password === '' || rule === undefined || rule.password === '') return decide(password)
  const without = decide(undefined)
  if (without !== 'password_required') return without
  rules.guesses.assertNotLocked(rule, principal)
  const decision = decide(password)
  // The password of another folder is no guess: clients send the last one, wherever they go.
  if (decision === 'password_required' && !rules.hasPassword(password)) {
    rules.guesses.countWrong(rule, principal, password)
  }
  return decision
}

function ruled(rules: RuleLookup, path: Path): RuledPath {
  return { path, own: rules.nearest(path), folder: rules.nearest(parentOf(path)) }
}

export function folderRights(rules: RuleLookup, principal: Principal, folder: Path): FolderRights {
  return policy.folderRights(principal, folder, rules.nearest(folder))
}

export function isRestricted(rules: RuleLookup, at: Path): boolean {
  return policy.isRestricted(at, rules.nearest(at))
}

/** Whether the principal may read all that is at or below `top`, so that no symlink target there needs a decision. */
export function readsAll(rules: Rules, principal: Principal, top: Path): boolean {
  return policy.readsAll(principal, top, !rules.isEmpty)
}

export function movesAnySymlink(rules: Rules, principal: Principal, mountPoint: Path): boolean {
  return policy.movesAnySymlink(principal, mountPoint, !rules.isEmpty)
}

export function seesMountUsages(principal: Principal): boolean {
  return policy.seesMountUsages(principal)
}

export function memberFilter(rules: Rules, principal: Principal, folder: Path): MemberFilter {
  const ruleOf = rules.below(folder).length > 0 ? (member: Path) => rules.ruleOf(member) : undefined
  return policy.memberFilter(principal, folder, rules.nearest(folder), ruleOf)
}

/** Whether listings of the parent folder omit `at`. */
export function isOmitted(rules: Rules, principal: Principal, at: Path): boolean {
  return policy.isOmitted(principal, at, rules.nearest(parentOf(at)), rules.ruleOf(at))
}

/** Whether a rule can hide names from the principal at any depth below `top`. */
export function hidesNames(rules: Rules, principal: Principal, top: Path): boolean {
  return [rules.nearest(top), ...rules.below(top)].some((rule) => policy.hidesNames(principal, rule))
}

/** Whether a move of the folder `source` to `target` would show the principal names that are hidden now. */
export function revealsNames(rules: RuleLookup, principal: Principal, source: Path, target: Path): boolean {
  return policy.revealsNames(principal, ruled(rules, source), ruled(rules, target))
}
