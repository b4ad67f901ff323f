/** Who is signed in. */
import { useQuery } from '@tanstack/preact-query'
import { ApiError, apiUrl, get, post, unwrapped, type Data } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { folderPasswords } from '../files/folder-passwords.ts'

export type Me = Data<'/api/me'>

/** Values of `role`. */
const guestRole = 1
const adminRole = 2

export const isGuest = ({ role }: Me) => role === guestRole
export const isAdmin = ({ role }: Me) => role === adminRole

/** The user; the guest without a session; null if nobody is signed in and guests are not allowed. */
export function useMe() {
  return useQuery({ queryKey: ['me'], queryFn: who, staleTime: Infinity })
}

async function who(): Promise<Me | null> {
  try {
    return await get('/api/me')
  } catch (error) {
    if (error instanceof ApiError && error.code === 401) return null
    throw error
  }
}

/**
 * Signs in. The server keeps the session in a cookie that scripts cannot read. Resolves to who is signed in. Rejects
 * with `ApiError`.
 */
export async function signIn(fields: {
  readonly username: string
  readonly password: string
  readonly otp_code: string
  readonly remember: boolean
}): Promise<Me> {
  await post('/api/auth/session', fields)
  await forgetEverything()
  return get('/api/me')
}

export async function signOut(): Promise<void> {
  const response = await fetch(apiUrl('/api/auth/logout'))
  unwrapped((await response.json()) as Parameters<typeof unwrapped>[0])
  await forgetEverything()
}

/** Drops the cached responses and the passwords of folders, which are those of another user. */
async function forgetEverything(): Promise<void> {
  folderPasswords.clear()
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' })
  await queryClient.refetchQueries({ queryKey: ['me'] })
}
