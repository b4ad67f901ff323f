/** The accounts of a new installation. */
import { isGatewayError } from '../errors.js'
import { root } from '../path.js'
import { allPermissions } from '../principal.js'
import type { Store, UserRow } from '../store/rows.js'
import { hashPassword, impossiblePassword, randomPassword, staticHash } from './passwords.js'

export interface FirstAccounts {
  /** The password made for the admin, to be shown this once; undefined where one was given, or an admin was there. */
  readonly adminPassword: string | undefined
}

/**
 * Makes the admin, who may do everything, and the guest, who is disabled, where they are missing. `adminPassword`: instead of
 * a random one.
 */
export async function bootstrapAccounts(store: Store, adminPassword?: string): Promise<FirstAccounts> {
  const present = await store.users.all()
  const password = adminPassword || randomPassword()
  let made = false
  if (!present.some(({ role }) => role === 2)) {
    const passwordHash = await hashPassword(staticHash(password))
    const what = { permission: allPermissions, disabled: false, passwordHash }
    made = await insert(store, { username: 'admin', role: 2, ...what })
  }
  if (!present.some(({ role }) => role === 1)) {
    // Nobody has to know one, and no time has to go into a slow hash of it.
    const passwordHash = impossiblePassword()
    await insert(store, { username: 'guest', role: 1, permission: 0, disabled: true, passwordHash })
  }
  return { adminPassword: made && !adminPassword ? password : undefined }
}

/** Whether it was made, and not by another process in the same moment. */
async function insert(
  store: Store,
  fields: Pick<UserRow, 'username' | 'role' | 'permission' | 'disabled' | 'passwordHash'>,
): Promise<boolean> {
  try {
    await store.users.insert({ ...fields, passwordTime: 0, basePath: root, ssoId: '', otpSecret: '' })
    return true
  } catch (error) {
    if (isGatewayError(error, 'exists')) return false
    throw error
  }
}
