/** Checks what every imported group must have. */
import { checkGroup, checkMemberCount, maxGroups } from '../../accounts/groups.js'
import { GatewayError } from '../../base/errors.js'
import type { ImportedGroup } from '../../database/installation.js'
import type { ImportedGrants } from './grants.js'

/**
 * A group whose members are not admins. `taken`: the groups so far, whose names it cannot have. Throws `invalid` for
 * what no group can have, and for too many groups, members or grants.
 */
export function groupOf(
  group: Pick<ImportedGroup, 'name' | 'description' | 'permission' | 'members' | 'grants'>,
  taken: readonly ImportedGroup[],
  allGrants: ImportedGrants,
): ImportedGroup {
  checkGroup(group)
  checkMemberCount(group.members.length)
  if (taken.length >= maxGroups) {
    throw new GatewayError('invalid', { reason: `there can be at most ${maxGroups} groups` })
  }
  if (taken.some(({ name }) => name === group.name)) {
    throw new GatewayError('invalid', { reason: 'another group has this name' })
  }
  const flags = { admin: false, requireTwoStep: false, requireProvider: false, providedAdmins: false }
  return { ...group, ...flags, grants: allGrants.take(group.grants) }
}
