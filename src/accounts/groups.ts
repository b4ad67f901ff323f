/** Groups of users and their members, mirrored in memory. */
import type { Store } from '../database/tables.js'

/** What a user has by its groups. */
export interface Membership {
  /** The ids of the groups. */
  readonly groups: readonly number[]
  /** Sum of the `permissionBits` of all of them. */
  readonly permissions: number
  /** Whether one of the groups makes its members admins. */
  readonly isAdmin: boolean
}

export const noMembership: Membership = { groups: [], permissions: 0, isAdmin: false }

export class Groups {
  #byUser: ReadonlyMap<number, Membership> = new Map()

  constructor(private readonly store: Pick<Store, 'groups'>) {}

  /** The same object until the groups are read again. */
  of(userId: number): Membership {
    return this.#byUser.get(userId) ?? noMembership
  }

  /** Reads the stored groups. Calls must not overlap. */
  async reload(): Promise<void> {
    const groups = new Map((await this.store.groups.all()).map((group) => [group.id, group]))
    const byUser = new Map<number, Membership>()
    for (const { groupId, userId } of await this.store.groups.members()) {
      const group = groups.get(groupId)
      if (group === undefined) continue
      const others = byUser.get(userId) ?? noMembership
      byUser.set(userId, {
        groups: [...others.groups, groupId],
        permissions: others.permissions | group.permission,
        isAdmin: others.isAdmin || group.admin,
      })
    }
    this.#byUser = byUser
  }
}
