/** Who is signed in. */
import { signal } from '@preact/signals'
import { useQuery } from '@tanstack/preact-query'
import { apiUrl, get, isSignedOut, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { isKeyOf, queryClient } from '../api/queries.ts'
import { Role } from '../api/schema.ts'
import { folderPasswords } from './folder-passwords.ts'
import { forgetFolders } from './recent-folders.ts'
import { clearNotices } from '../components/notices.tsx'
import type { PasskeyAnswer } from './passkey.ts'

export type Me = Data<'/api/me'>

export const isGuest = ({ role }: Me) => role === Role.guest
export const isAdmin = ({ role }: Me) => role === Role.admin

/** Who was signed in last, until signing out. The pages are kept for this user if the session ends by itself. */
export const lastUser = signal<Me>()

/** The user; the guest without a session; null if nobody is signed in and guests are not allowed. */
export function useMe() {
  return useQuery({ queryKey: keys.me, queryFn: who, staleTime: Infinity })
}

async function who(): Promise<Me | null> {
  try {
    const me = await get('/api/me')
    if (!isGuest(me)) {
      if (me.username !== lastUser.peek()?.username) forgetEverything()
      lastUser.value = me
    }
    return me
  } catch (error) {
    if (isSignedOut(error)) return null
    throw error
  }
}

/** Signs in. The server keeps the session in a cookie that scripts cannot read. Rejects with `ApiError`. */
export function signIn(fields: {
  readonly username: string
  readonly password: string
  readonly otp_code: string
  readonly passkey?: PasskeyAnswer
  readonly remember: boolean
}): Promise<void> {
  return signInBy(() => post('/api/auth/session', fields))
}

/** Like `signIn`, where `open` opens the session. */
export async function signInBy(open: () => Promise<unknown>): Promise<void> {
  await open()
  await queryClient.refetchQueries({ queryKey: keys.me }, { throwOnError: true })
  // What is kept of the same user may have failed, or changed meanwhile.
  void queryClient.invalidateQueries({ predicate: isOfUser })
}

export async function signOut(): Promise<void> {
  const settings = await get('/api/public/settings')
  if (settings.sso_login_enabled === 'true' && settings.sso_logout_provider === 'true') {
    // It leads to the provider, which ends its session too.
    location.assign(apiUrl('/api/auth/sso_logout'))
    return
  }
  await get('/api/auth/logout')
  forgetUser()
  await queryClient.resetQueries({ queryKey: keys.me })
}

/** Keeps nothing for the user whose session has ended. */
export function forgetUser(): void {
  lastUser.value = undefined
  forgetFolders()
  forgetEverything()
}

/** Drops the cached responses, the passwords of folders and the notices, which are those of another user. */
function forgetEverything(): void {
  folderPasswords.clear()
  clearNotices()
  queryClient.removeQueries({ predicate: isOfUser })
}

function isOfUser({ queryKey }: { readonly queryKey: readonly unknown[] }): boolean {
  return !isKeyOf(queryKey, keys.me)
}
