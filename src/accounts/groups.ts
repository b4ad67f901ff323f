/** Groups of users and their members, mirrored in memory. */
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { foldCase } from '../base/path.js'
import { isDecoded } from '../base/utf8.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { GroupRow, GroupContents, MembershipChanges } from '../database/tables/groups.js'
import type { Store } from '../database/tables.js'
import { checkPermission, noMembership, type Membership } from './principal.js'

export interface Group extends GroupRow {
  /** Ids of users, in ascending order. */
  readonly members: readonly number[]
}

type Flag = 'requireTwoStep' | 'requireProvider' | 'providedAdmins'
/** The flags are false by default. */
type NewGroup = Omit<Group, 'id' | Flag> & Readonly<Partial<Record<Flag, boolean | undefined>>>
/** Undefined fields are unchanged. */
type GroupChanges = { readonly [Field in keyof Omit<Group, 'id' | 'providedAdmins'>]?: Group[Field] | undefined }

/** Grants that are stored with a group or a user, in the same transaction. */
export interface StoredWith {
  readonly checked: NonNullable<GroupContents['grants']>
  /** Called when they are stored. Who joins a group has its permissions when this has resolved. */
  readonly reload: () => Promise<void>
}

/** Every process has all groups in memory, and a request may ask for all of those of its user. */
export const maxGroups = 1000
/** A group is sent as a whole when it is changed, and the body of a request holds 50,000 values at most. */
export const maxMembers = 10_000

interface GroupsOptions {
  readonly store: Pick<Store, 'groups'>
  /** Serializes reads and changes of the groups. */
  readonly queue: PQueue
  readonly user: (id: number) => UserRow | undefined
  /** Called for each user of whom two-step verification is required now, and was not before. */
  readonly onTwoStepRequired: (userId: number) => void
}

export class Groups {
  #byId: ReadonlyMap<number, Group> = new Map()
  #byUser: ReadonlyMap<number, Membership> = new Map()

  constructor(private readonly options: GroupsOptions) {}

  /** The groups of the user and the rights that they give it. Returns the same object until the groups change. */
  of(userId: number): Membership {
    return this.#byUser.get(userId) ?? noMembership
  }

  /** All groups, ordered by id. */
  list(): readonly Group[] {
    return [...this.#byId.values()]
  }

  get(id: number): Group | undefined {
    return this.#byId.get(id)
  }

  byName(name: string): Group | undefined {
    return this.list().find((group) => group.name === name)
  }

  /**
   * Rejects with `exists` for a taken name or one that looks like it, and with `invalid` for a name or permission that
   * cannot be used, for an unknown member, for the guest in a group of admins, and for too many groups or members.
   */
  create(group: NewGroup, grants?: StoredWith): Promise<Group> {
    return this.#change(async ({ groups }) => {
      const { members, requireTwoStep = false, requireProvider = false, providedAdmins = false, ...others } = group
      const row = { ...others, requireTwoStep, requireProvider, providedAdmins }
      checkGroup(row)
      this.#assertFree(row.name)
      this.#assertMembers(members, row.admin)
      if (this.#byId.size >= maxGroups) throw tooMany(`there can be at most ${maxGroups} groups`)
      const { id } = await groups.insert(row, { members, grants: grants?.checked })
      await grants?.reload()
      return id
    })
  }

  /**
   * Rejects as `create`, and with `not_found`. What members may do is asked at each use, so no session ends, except
   * those of members who must set up two-step verification now. Who leaves the group has nothing of the changes.
   */
  update(id: number, changes: GroupChanges, grants?: StoredWith): Promise<Group> {
    return this.#change(async ({ groups }) => {
      const { name, description, permission, admin, requireTwoStep, requireProvider, members } = changes
      const row = {
        ...(name !== undefined && { name }),
        ...(description !== undefined && { description }),
        ...(permission !== undefined && { permission }),
        ...(admin !== undefined && { admin }),
        ...(requireTwoStep !== undefined && { requireTwoStep }),
        ...(requireProvider !== undefined && { requireProvider }),
      }
      checkGroup(row)
      const before = this.#byId.get(id)
      if (name !== undefined && name !== before?.name) this.#assertFree(name, id)
      this.#assertMembers(members ?? before?.members ?? [], admin ?? before?.admin ?? false)
      if (before !== undefined && members !== undefined) this.#keepMembers(before, members)
      await groups.update(id, row, { members, grants: grants?.checked })
      await grants?.reload()
      return id
    })
  }

  /** Deletes a group and its grants. Rejects with `not_found`. */
  async delete(id: number): Promise<void> {
    const { queue, store } = this.options
    await queue.add(async () => {
      const existed = await store.groups.delete(id)
      await this.reload()
      if (!existed) throw groupMissing(id)
    })
  }

  /**
   * Throws `invalid` for an unknown group, for the guest in a group of admins, and for a group that can have no more
   * members. `user`: undefined for a new one.
   */
  assertMayJoin(user: Pick<UserRow, 'id' | 'role'> | undefined, ids: readonly number[]): void {
    const own = new Set(user && this.of(user.id).groups)
    for (const id of ids) {
      const group = this.#byId.get(id)
      if (group === undefined) throw new GatewayError('invalid', { reason: `there is no group ${id}` })
      if (user?.role === 'guest' && group.admin) throw guestAdmin()
      if (!own.has(id)) checkMemberCount(group.members.length + 1)
    }
  }

  /**
   * Changes the groups of a user, and no others than these, whatever other processes do. Rejects as `assertMayJoin`
   * throws, and with `not_found`.
   */
  async changeGroupsOf(userId: number, changes: MembershipChanges): Promise<void> {
    const { queue, store, user } = this.options
    await queue.add(async () => {
      this.assertMayJoin(user(userId), changes.joined)
      await store.groups.changeGroupsOf(userId, changes).finally(() => this.reload())
    })
  }

  /** Reads the stored groups. Must be called through `queue`. */
  async reload(): Promise<void> {
    const { groups } = this.options.store
    const rows = await groups.all()
    const members = new Map<number, number[]>(rows.map(({ id }) => [id, []]))
    for (const { groupId, userId } of await groups.members()) members.get(groupId)?.push(userId)
    this.#replace(rows.map((row) => ({ ...row, members: (members.get(row.id) ?? []).sort((a, b) => a - b) })))
  }

  /** Forgets that a user is a member of groups, but of those that are kept, until they are read again. */
  evictUser(userId: number, kept: readonly number[] = []): void {
    if (this.of(userId).groups.every((id) => kept.includes(id))) return
    const without = (group: Group) => ({ ...group, members: group.members.filter((id) => id !== userId) })
    this.#replace(this.list().map((group) => (kept.includes(group.id) ? group : without(group))))
  }

  /** Forgets the other members until the groups are read again. */
  #keepMembers(group: Group, kept: readonly number[]): void {
    const staying = new Set(kept)
    const members = group.members.filter((userId) => staying.has(userId))
    this.#replace(this.list().map((each) => (each.id === group.id ? { ...each, members } : each)))
  }

  #replace(groups: readonly Group[]): void {
    const byUser = new Map<number, Membership>()
    for (const { id, members, permission, admin, requireTwoStep, requireProvider } of groups) {
      for (const userId of members) {
        const others = byUser.get(userId) ?? noMembership
        byUser.set(userId, {
          groups: [...others.groups, id],
          permissions: others.permissions | permission,
          isAdmin: others.isAdmin || admin,
          requiresTwoStep: others.requiresTwoStep || requireTwoStep,
          requiresProvider: others.requiresProvider || requireProvider,
        })
      }
    }
    const before = this.#byUser
    this.#byId = new Map(groups.map((group) => [group.id, group]))
    this.#byUser = byUser
    for (const [userId, { requiresTwoStep }] of byUser) {
      if (requiresTwoStep && before.get(userId)?.requiresTwoStep !== true) this.options.onTwoStepRequired(userId)
    }
  }

  async #change(write: (store: Pick<Store, 'groups'>) => Promise<number>): Promise<Group> {
    return this.options.queue.add(async () => {
      try {
        const id = await write(this.options.store).finally(() => this.reload())
        const group = this.#byId.get(id)
        // Another process may have deleted it meanwhile.
        if (group === undefined) throw groupMissing(id)
        return group
      } catch (error) {
        if (!isGatewayError(error, 'exists')) throw error
        throw new GatewayError('exists', { reason: 'a group of this name exists already', cause: error })
      }
    })
  }

  /** Throws `exists` if the name of another group could be taken for this one: a grant would go to the wrong group. */
  #assertFree(name: string, id?: number): void {
    const isAlike = (group: Group) => group.id !== id && shownForm(group.name) === shownForm(name)
    if (this.list().some(isAlike)) throw new GatewayError('exists')
  }

  /** Throws `invalid` for an unknown user, for the guest in a group of admins, and for too many members. */
  #assertMembers(members: readonly number[], admin: boolean): void {
    checkMemberCount(members.length)
    for (const id of members) {
      const user = this.options.user(id)
      if (user === undefined) throw new GatewayError('invalid', { reason: `there is no user ${id}` })
      if (admin && user.role === 'guest') throw guestAdmin()
    }
  }
}

function groupMissing(id: number): GatewayError {
  return new GatewayError('not_found', { reason: `there is no group ${id}` })
}

function guestAdmin(): GatewayError {
  return new GatewayError('invalid', { reason: 'the guest cannot be in a group whose members are admins' })
}

/** Throws `invalid` for more members than a group can have. */
export function checkMemberCount(count: number): void {
  if (count > maxMembers) throw tooMany(`a group can have at most ${maxMembers} members`)
}

function tooMany(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}

/** Maximum characters: lists show it in one line. */
const maxDescription = 1000

/** Throws `invalid` for a name, a description or permissions that no group can have. */
export function checkGroup({ name, description, permission }: Partial<Omit<GroupRow, 'id'>>): void {
  const reason = (name === undefined ? undefined : nameFault(name)) ?? descriptionFault(description ?? '')
  if (reason !== undefined) throw new GatewayError('invalid', { reason })
  if (permission !== undefined) checkPermission(permission)
}

/** The name in a form that names which look alike share: in one case, without invisible characters and outer spaces. */
function shownForm(name: string): string {
  return foldCase(name.replace(/\p{Cf}/gu, '').trim())
}

/** Maximum bytes of a name. */
const maxName = 255
/** Control characters, and those that change the direction of the text around them. */
const forbiddenInNames = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u

function nameFault(name: string): string | undefined {
  if (name.trim() === '') return 'a group needs a name'
  if (Buffer.byteLength(name) > maxName) return 'the name of the group is too long'
  if (!isDecoded(name) || forbiddenInNames.test(name)) {
    return 'the name of a group must be valid Unicode without control characters and U+FFFD'
  }
  return undefined
}

function descriptionFault(description: string): string | undefined {
  if (description.length > maxDescription) return 'the description of the group is too long'
  return isDecoded(description) && !description.includes('\0')
    ? undefined
    : 'the description of a group must be valid Unicode without NUL and U+FFFD'
}
