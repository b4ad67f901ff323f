/** Rows of the server that a page shows and changes. */
import { useQuery } from '@tanstack/preact-query'
import type { Key } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { reporting } from './notices.tsx'

/**
 * The result of `load`, shown under this key until `changed` is called with it. `pollInterval`: the milliseconds after
 * which it is loaded again, for rows that the server changes by itself.
 */
export function useRows<Rows>(key: Key, load: () => Promise<Rows>, pollInterval: number | false = false) {
  return useQuery({ queryKey: key, queryFn: load, refetchInterval: pollInterval })
}

/** Loads the rows again. */
export function changed(key: Key): Promise<void> {
  return queryClient.invalidateQueries({ queryKey: key })
}

/** Awaits a change of the rows, reports it, and loads them again. */
export async function change(key: Key, work: Promise<unknown>, success?: string): Promise<void> {
  await reporting(work, success)
  await changed(key)
}
