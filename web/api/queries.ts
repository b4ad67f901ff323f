/** The cache of responses, shared by all pages. */
import { QueryCache, QueryClient } from '@tanstack/preact-query'
import { isSignedOut, isUnreachable, mustSetUpTwoStep } from './client.ts'

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error, { queryKey }) {
      if (queryKey[0] !== 'me') noteEndOfSession(error)
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

/**
 * After a refusal because the session has ended, or because the user must set up two-step verification first, the shell
 * asks again who is signed in, and shows the page for it.
 */
export function noteEndOfSession(error: unknown): void {
  if (isSignedOut(error) || mustSetUpTwoStep(error)) void askWhoIsSignedIn()
}

export function askWhoIsSignedIn(): Promise<void> {
  return queryClient.invalidateQueries({ queryKey: ['me'] })
}
