/** Memberships that a provider or directory decides. Those that an admin has given are unchanged. */
import { isGatewayError } from '../base/errors.js'
import type { Group, Groups } from './groups.js'
import type { Identities, IdentityRow } from './identities.js'

/** The name with which the group of `Group.providedAdmins` is made. An admin can give it another one. */
const nameOfAdmins = 'admins by provider'

/** The groups that a provider or directory manages, as the settings say. */
export interface ProvidedGroups {
  /** The names of groups here, by their names there. */
  readonly map: Readonly<Record<string, string>>
  /**
   * The groups of the provider or directory whose members are admins here. Empty: no member is made an admin, unless
   * another identity of the user makes it one.
   */
  readonly admins: readonly string[]
}

interface ProvidingAccounts {
  readonly groups: Pick<Groups, 'byName' | 'changeGroupsOf' | 'create' | 'get' | 'list' | 'of'>
  readonly identities: Pick<Identities, 'of'>
}

/** The names in a setting: one in each line, or separated by commas. */
export function namesIn(text: string): readonly string[] {
  return text
    .split(/[,\n]/)
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/**
 * Makes the user a member of those managed groups that its groups there (`values`) lead to, and of no other managed
 * ones, after a sign-in or a look-up by its identity. Groups that do not exist here are ignored. A group of admins that
 * does not require a provider is given only if the account was made by this identity: another has a password of its
 * own, or another provider, by which it would stay an admin. `values` undefined: what its groups are is not known, or
 * it has ended there; it stays in those that restrict it. Rejects as `Groups.changeGroupsOf` and `Groups.create`; the
 * user has left what it had to leave also if it cannot join.
 */
export async function applyProvidedGroups(
  { groups, identities }: ProvidingAccounts,
  { userId, provisioned }: Pick<IdentityRow, 'userId' | 'provisioned'>,
  values: readonly string[] | undefined,
  { map, admins }: ProvidedGroups,
): Promise<void> {
  const there = new Set(values)
  const wanted = new Map<number | undefined, boolean>()
  for (const [name, here] of Object.entries(map)) {
    const id = groups.byName(here)?.id
    wanted.set(id, there.has(name) || wanted.get(id) === true)
  }
  const isWantedAdmin = admins.some((name) => there.has(name))
  // Another provider may have made the user an admin.
  if (admins.length > 0 || new Set(identities.of(userId).map(({ issuer }) => issuer)).size < 2)
    wanted.set((isWantedAdmin ? await groupOfAdmins(groups) : knownGroupOfAdmins(groups))?.id, isWantedAdmin)
  const mayGive = ({ admin, requireProvider }: Group) => !admin || requireProvider || provisioned
  const before = groups.of(userId)
  const [joined, left]: [number[], number[]] = [[], []]
  for (const [id, isWanted] of wanted) {
    const group = id === undefined ? undefined : groups.get(id)
    if (group !== undefined) (isWanted && mayGive(group) ? joined : left).push(group.id)
  }
  const isSame = joined.every((id) => before.groups.includes(id)) && !left.some((id) => before.groups.includes(id))
  if (isSame) return
  const keepsRestrictions = values === undefined
  await groups.changeGroupsOf(userId, { joined, left, keepsRestrictions }).catch(async (error: unknown) => {
    // A group may be full.
    await groups.changeGroupsOf(userId, { joined: [], left, keepsRestrictions })
    throw error
  })
}

const knownGroupOfAdmins = (groups: Pick<Groups, 'list'>) => groups.list().find((group) => group.providedAdmins)

/**
 * The group of `Group.providedAdmins`. It is made when it is needed, and requires a sign-in at a provider or directory:
 * who signs in otherwise would stay an admin after that has taken it away. Rejects as `Groups.create`.
 */
async function groupOfAdmins(groups: Pick<Groups, 'create' | 'list'>): Promise<Group> {
  for (let number = 1; ; number++) {
    const known = knownGroupOfAdmins(groups)
    if (known !== undefined) return known
    const name = number === 1 ? nameOfAdmins : `${nameOfAdmins} ${number}`
    const flags = { admin: true, requireProvider: true, providedAdmins: true }
    try {
      return await groups.create({ name, description: '', permission: 0, members: [], ...flags })
    } catch (error) {
      // A concurrent sign-in may have made it, also on another node, or another group has such a name.
      if (!isGatewayError(error, 'exists')) throw error
    }
  }
}
