/** Groups of users. */
import type { Grant } from './grants.js'
import type { New } from './path-rows.js'

export interface GroupRow {
  readonly id: number
  readonly name: string
  readonly description: string
  /** Permission bits that its members have besides their own. */
  readonly permission: number
  /** Whether the members of the group are admins. */
  readonly admin: boolean
  /** Whether the members of the group can do nothing but set up two-step verification until they have done so. */
  readonly requireTwoStep: boolean
  /** Whether the members of the group sign in at a provider or directory only. */
  readonly requireProvider: boolean
  /** Whether it is the group of those who are admins because their provider or directory says so. */
  readonly providedAdmins: boolean
}

export interface GroupMember {
  readonly groupId: number
  readonly userId: number
}

/** The stored fields of a group; undefined fields are unchanged. */
export interface GroupContents {
  readonly members?: readonly number[] | undefined
  readonly grants?: readonly Pick<Grant, 'path' | 'allow' | 'deny'>[] | undefined
}

/** Groups, by their ids, that a user joins and leaves. */
export interface MembershipChanges {
  readonly joined: readonly number[]
  readonly left: readonly number[]
  /**
   * The user stays in groups of `left` that restrict it: they require something of their members, or one of their
   * grants denies something. Groups of admins are left all the same.
   */
  readonly keepsRestrictions: boolean
}

export interface GroupRows {
  all(): Promise<GroupRow[]>
  members(): Promise<GroupMember[]>
  /** Adds a group in one transaction. `exists` for a taken name, `not_found` if a member does not exist. */
  insert(row: New<GroupRow>, contents?: GroupContents): Promise<GroupRow>
  /**
   * Changes a group in one transaction. `exists` as `insert`, `not_found` if a member, or the group, does not exist.
   */
  update(id: number, changes: Partial<New<GroupRow>>, contents?: GroupContents): Promise<GroupRow>
  delete(id: number): Promise<boolean> // with its members and grants
  /** Replaces the members in one transaction. `not_found` if a user, or the group, does not exist. */
  setMembers(groupId: number, userIds: readonly number[]): Promise<void>
  /**
   * Changes the groups of a user in one transaction, and no others than these. `not_found` if the user, or a group that
   * it joins, does not exist.
   */
  changeGroupsOf(userId: number, changes: MembershipChanges): Promise<void>
}
