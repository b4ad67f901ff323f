/** The accounts of a new installation. */
import { isGatewayError } from '../contract/errors.js'
import { root } from '../contract/path.js'
import type { UserRow } from '../store/rows.js'
import type { Store } from '../store/tables.js'
import { hashPassword, impossiblePassword, randomPassword, staticHash } from './passwords.js'
import { allPermissions } from './principal.js'

/**
 * The password of the admin of a new installation, or a function that shows a random one. The function is called before
 * the admin is stored, so that no admin exists whose password was not shown. If several passwords were shown, the last
 * one is valid.
 */
export type AdminPassword = string | ((password: string) => void)

/** Creates the admin, who has all permissions, and the guest, who is disabled, unless they exist. */
export async function bootstrapAccounts(store: Store, adminPassword: AdminPassword): Promise<void> {
  const present = await store.users.all()
  if (!present.some(({ role }) => role === 2)) {
    const password = typeof adminPassword === 'string' ? adminPassword : randomPassword()
    const passwordHash = await hashPassword(staticHash(password))
    if (typeof adminPassword !== 'string') adminPassword(password)
    await insert(store, { username: 'admin', role: 2, permission: allPermissions, disabled: false, passwordHash })
  }
  if (!present.some(({ role }) => role === 1)) {
    // The guest has no password, so no slow hash is computed.
    const passwordHash = impossiblePassword()
    await insert(store, { username: 'guest', role: 1, permission: 0, disabled: true, passwordHash })
  }
}

/** Inserts the account unless another process has created it concurrently. */
async function insert(
  store: Store,
  fields: Pick<UserRow, 'username' | 'role' | 'permission' | 'disabled' | 'passwordHash'>,
): Promise<void> {
  try {
    await store.users.insert({ ...fields, passwordTime: 0, basePath: root, ssoId: '', otpSecret: '' })
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
  }
}
