/** The accounts of a new installation. */
import { isGatewayError } from '../errors.js'
import { root } from '../path.js'
import { allPermissions } from '../principal.js'
import type { Store, UserRow } from '../store/rows.js'
import { hashPassword, randomPassword, staticHash } from './passwords.js'

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
    made = await insert(store, { username: 'admin', role: 2, permission: allPermissions, disabled: false }, password)
  }
  if (!present.some(({ role }) => role === 1)) {
    await insert(store, { username: 'guest', role: 1, permission: 0, disabled: true }, randomPassword())
  }
  return { adminPassword: made && !adminPassword ? password : undefined }
}

/** Whether it was made, and not by another process in the same moment. */
async function insert(
  store: Store,
  fields: Pick<UserRow, 'username' | 'role' | 'permission' | 'disabled'>,
  password: string,
): Promise<boolean> {
  const passwordHash = await hashPassword(staticHash(password))
  try {
    await store.users.insert({ ...fields, passwordHash, passwordTime: 0, basePath: root, ssoId: '', otpSecret: '' })
    return true
  } catch (error) {
    if (isGatewayError(error, 'exists')) return false
    throw error
  }
}
