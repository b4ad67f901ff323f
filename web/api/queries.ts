/** The cache of responses, shared by all pages. */
import { QueryCache, QueryClient } from '@tanstack/preact-query'
import { ApiError, unreachable } from './client.ts'

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error, { queryKey }) {
      // The session has ended: the shell asks again who is signed in, and shows the sign-in page.
      if (error instanceof ApiError && error.code === 401 && queryKey[0] !== 'me') void askWhoIsSignedIn()
    },
  }),
  defaultOptions: {
    queries: {
      retry: (failures, error) => failures < 2 && error instanceof ApiError && error.code === unreachable,
      staleTime: 1000,
    },
  },
})

export function askWhoIsSignedIn(): Promise<void> {
  return queryClient.invalidateQueries({ queryKey: ['me'] })
}
