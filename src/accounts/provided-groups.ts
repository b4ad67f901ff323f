/** Memberships that a provider or directory decides. Those that an admin has given are unchanged. */
import type { Group, Groups } from './groups.js'
import type { Identities, IdentityRow } from './identities.js'

/**
 * The group whose members are admins because their provider or directory says so. It is made when it is needed, and
 * requires a sign-in there: who signs in otherwise would stay an admin after the provider has taken that away.
 */
export const providedAdmins = 'admins by provider'

/** The groups that a provider or directory manages, as the settings say. */
export interface ProvidedGroups {
  /** The names of groups here, by their names there. */
  readonly map: Readonly<Record<string, string>>
  /** The groups there whose members are admins here. Empty: nobody, unless the user has identities elsewhere too. */
  readonly admins: readonly string[]
}

interface ProvidingAccounts {
  readonly groups: Pick<Groups, 'byName' | 'changeGroupsOf' | 'create' | 'of'>
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
 * it has ended there; it stays in those that restrict it. Resolves to whether the user is an admin by its groups,
 * before and after it. Rejects as `Groups.changeGroupsOf` and `Groups.create`.
 */
export async function applyProvidedGroups(
  { groups, identities }: ProvidingAccounts,
  { userId, provisioned }: Pick<IdentityRow, 'userId' | 'provisioned'>,
  values: readonly string[] | undefined,
  { map, admins }: ProvidedGroups,
): Promise<{ readonly wasAdmin: boolean; readonly isAdmin: boolean }> {
  const there = new Set(values)
  const wanted = new Map(Object.values(map).map((here) => [here, false]))
  for (const [name, here] of Object.entries(map)) if (there.has(name)) wanted.set(here, true)
  const isWantedAdmin = admins.some((name) => there.has(name))
  // Another provider may have made the user an admin.
  if (admins.length > 0 || new Set(identities.of(userId).map(({ issuer }) => issuer)).size < 2)
    wanted.set(providedAdmins, isWantedAdmin)
  if (isWantedAdmin && groups.byName(providedAdmins) === undefined) {
    const fields = { name: providedAdmins, description: '', permission: 0, admin: true, members: [] }
    await groups.create({ ...fields, requireProvider: true })
  }
  const mayGive = ({ admin, requireProvider }: Group) => !admin || requireProvider || provisioned
  const before = groups.of(userId)
  const [joined, left]: [number[], number[]] = [[], []]
  for (const [name, isWanted] of wanted) {
    const group = groups.byName(name)
    if (group !== undefined) (isWanted && mayGive(group) ? joined : left).push(group.id)
  }
  const isSame = joined.every((id) => before.groups.includes(id)) && !left.some((id) => before.groups.includes(id))
  if (!isSame) await groups.changeGroupsOf(userId, { joined, left, keepsRestrictions: values === undefined })
  return { wasAdmin: before.isAdmin, isAdmin: groups.of(userId).isAdmin }
}
