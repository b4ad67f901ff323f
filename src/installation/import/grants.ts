/** Grants of imported users and groups. */
import { GatewayError } from '../../base/errors.js'
import { parentOf, root, segmentsOf, selfAndAncestors, type Path } from '../../base/path.js'
import type { ImportedGrant } from '../../database/installation.js'
import { checkGrants, maxGrants } from '../../tree/grants.js'

/** The largest number of characters of all paths about which something is decided, for all users together. */
const maxDecided = 16_000_000

/** Where a decision is another one than for the folder above. */
export interface DecisionChange {
  readonly path: Path
  readonly isAllowed: boolean
}

/** All grants of an import, within the limits of an installation. */
export class ImportedGrants {
  #left = maxGrants
  #decided = 0

  /** Throws `invalid` for grants that a user or a group cannot have, and for more than an installation can have. */
  take(grants: readonly ImportedGrant[]): readonly ImportedGrant[] {
    const checked = checkGrants(grants)
    if (checked.length > this.#left) {
      throw new GatewayError('invalid', { reason: `there can be at most ${maxGrants} grants, and others have them` })
    }
    this.#left -= checked.length
    return checked
  }

  /**
   * The paths at which a decision changes, so that a grant is needed, from the top down. `paths`: all at which it may,
   * each at or below `top`; what is below one of them and below no other is decided as it. `outside`: the decision
   * above `top`. Throws `invalid` if there are too many paths.
   */
  changesBelow(
    top: Path,
    paths: Iterable<Path>,
    outside: boolean,
    isAllowed: (path: Path) => boolean,
  ): readonly DecisionChange[] {
    const topDown = [...new Set([top, ...paths])].sort((one, other) => depthOf(one) - depthOf(other))
    for (const { length } of topDown) this.#decided += length
    if (this.#decided > maxDecided) {
      throw new GatewayError('invalid', { reason: 'the rules are for more paths than can be imported' })
    }
    const decided = new Map<Path, boolean>()
    const changes: DecisionChange[] = []
    for (const path of topDown) {
      const decision = isAllowed(path)
      if (decision !== (decidedAbove(decided, path) ?? outside)) changes.push({ path, isAllowed: decision })
      decided.set(path, decision)
    }
    return changes
  }
}

function depthOf(path: Path): number {
  return segmentsOf(path).length
}

/** What is decided for the nearest folder above the path. */
function decidedAbove(decided: ReadonlyMap<Path, boolean>, path: Path): boolean | undefined {
  if (path === root) return undefined
  for (const above of selfAndAncestors(parentOf(path))) {
    const decision = decided.get(above)
    if (decision !== undefined) return decision
  }
  return undefined
}
