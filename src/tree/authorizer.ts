/** The one caller of `judge()`: looks up the folder rules that apply to a path. */
import type { Principal } from '../accounts/principal.js'
import { parentOf, type Path } from '../contract/path.js'
import type { Rules } from './folder-rules.js'
import { judge, type Action, type Ruling, type Verdict } from './policy.js'

/** The part of the folder rules that a verdict requires. */
type RuleLookup = Pick<Rules, 'nearest'>

/**
 * Decides on an action at `at`, a path of the whole tree. `password`: the folder password of the request. `ruling`:
 * used instead of the rules that apply to `at`, for example for a member that does not exist yet.
 */
export function verdictOn(
  rules: RuleLookup,
  principal: Principal,
  action: Action,
  at: Path,
  password?: string,
  ruling: Ruling = { own: rules.nearest(at), folder: rules.nearest(parentOf(at)) },
): Verdict {
  return judge(principal, action, at, ruling, password)
}
