/** What the pages of users and groups have in common. */
import type { Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { changed } from '../components/rows.ts'

export type User = Data<'/api/admin/user/list'>['content'][number]
export type Group = Data<'/api/admin/group/list'>['content'][number]

/** The groups that the ids name. */
export function groupsIn(ids: readonly number[], groups: readonly Group[] = []): readonly Group[] {
  return groups.filter(({ id }) => ids.includes(id))
}

/** Loads users and groups again: each shows what belongs to the other. */
export async function membershipChanged(): Promise<void> {
  await Promise.all([changed(keys.users), changed(keys.groups)])
}
