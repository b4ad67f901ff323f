/** How many tasks of the user are in progress, of all users for an admin. */
import { useQuery } from '@tanstack/preact-query'
import { get } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { isAdmin, isGuest, type Me } from '../session/me.ts'

/** Milliseconds between two requests. Nothing is requested while the page is hidden. */
const pollInterval = 10_000

/** 0 while it is not known. */
export function useTaskCount(me: Me): number {
  const { data } = useQuery({
    queryKey: keys.tasks('count'),
    queryFn: ({ signal }) => get(isAdmin(me) ? '/api/admin/task/count' : '/api/task/count', { signal }),
    enabled: !isGuest(me),
    refetchInterval: pollInterval,
  })
  return data?.unfinished ?? 0
}
