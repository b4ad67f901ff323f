/** Memberships that a provider or directory decides. Those that an admin has given are unchanged. */
import type { Group, Groups } from './groups.js'
import type { Identities } from './identities.js'
import type { Users } from './users.js'

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

/** The names in a setting: one in each line, or separated by commas. */
export function namesIn(text: string): readonly string[] {
  return text
    .split(/[,\n]/)
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/**
 * Makes the user a member of those managed groups that its groups there (`values`) lead to, and of no other managed
 * ones. Groups that do not exist here are ignored. Rejects as `Users.update`.
 */
export async function applyProvidedGroups(
  accounts: {
    readonly users: Pick<Users, 'update'>
    readonly groups: Pick<Groups, 'byName' | 'create' | 'of'>
    readonly identities: Pick<Identities, 'of'>
  },
  userId: number,
  values: readonly string[],
  { map, admins }: ProvidedGroups,
): Promise<void> {
  const { users, groups, identities } = accounts
  const byName = new Map<string, Group>()
  const there = new Set(values)
  const names = Object.entries(map)
  const isAdmin = admins.some((name) => there.has(name))
  const managedNames = names.map(([, here]) => here)
  const issuers = new Set(identities.of(userId).map(({ issuer }) => issuer))
  // The other one may have made the user an admin.
  if (admins.length > 0 || issuers.size < 2) managedNames.push(providedAdmins)
  for (const name of managedNames) {
    const group = groups.byName(name)
    if (group !== undefined) byName.set(name, group)
  }
  if (isAdmin && !byName.has(providedAdmins)) {
    const fields = { name: providedAdmins, description: '', permission: 0, admin: true, members: [] }
    byName.set(providedAdmins, await groups.create({ ...fields, requireProvider: true }))
  }
  const granted = names.filter(([name]) => there.has(name)).map(([, here]) => here)
  if (isAdmin) granted.push(providedAdmins)
  const grantedIds = new Set(granted.flatMap((name) => byName.get(name)?.id ?? []))
  const managed = new Set([...byName.values()].map(({ id }) => id))
  const own = groups.of(userId).groups
  const next = [...own.filter((id) => !managed.has(id)), ...grantedIds]
  const isSame = next.length === own.length && next.every((id) => own.includes(id))
  if (!isSame) await users.update(userId, {}, undefined, { groups: next })
}
