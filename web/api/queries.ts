/** The cache of responses, shared by all pages. */
import { QueryCache, QueryClient } from '@tanstack/preact-query'
import { get, isSignedOut, isUnreachable, mustSetUpTwoStep } from './client.ts'
import { keys, type Key } from './keys.ts'

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error, { queryKey }) {
      if (!isKeyOf(queryKey, keys.me)) noteEndOfSession(error)
    },
  }),
  defaultOptions: {
    // Also without a network: the failure is shown, and the server may be on this machine.
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      refetchOnReconnect: true,
      retry: (failures, error) => failures < 2 && isUnreachable(error),
      staleTime: 1000,
    },
  },
})

/** Whether the key is the other one, or begins with it. */
export function isKeyOf(key: Key, other: Key): boolean {
  return other.every((part, index) => part === key[index])
}

/** What everybody may know of the server. */
export const publicSettings = { queryKey: keys.publicSettings, queryFn: () => get('/api/public/settings') }

/**
 * After a refusal because the session has ended, or because the user must set up two-step verification first, the shell
 * asks again who is signed in, and shows the page for it.
 */
export function noteEndOfSession(error: unknown): void {
  if (isSignedOut(error) || mustSetUpTwoStep(error)) void askWhoIsSignedIn()
}

export function askWhoIsSignedIn(): Promise<void> {
  return queryClient.invalidateQueries({ queryKey: keys.me })
}
