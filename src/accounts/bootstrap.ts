/** The accounts of a new installation. */
import { isGatewayError } from '../errors.js'
import { root } from '../path.js'
import { allPermissions } from '../principal.js'
import type { Store, UserRow } from '../store/rows.js'
import { hashPassword, impossiblePassword, randomPassword, staticHash } from './passwords.js'

/**
 * The password of the admin of a new installation, or who shows a random one. It is shown before the admin is stored: whatever
 * ends the process, there is no admin whose password nobody was shown. Of several that were shown, the last one holds.
 */
export type AdminPassword = string | ((made: string) => void)

/** Makes the admin, who may do everything, and the guest, who is disabled, where they are missing. */
export async function bootstrapAccounts(store: Store, adminPassword: AdminPassword): Promise<void> {
  const present = await store.users.all()
  if (!present.some(({ role }) => role === 2)) {
    const password = typeof adminPassword === 'string' ? adminPassword : randomPassword()
    const passwordHash = await hashPassword(staticHash(password))
    if (typeof adminPassword !== 'string') adminPassword(password)
    await insert(store, { username: 'admin', role: 2, permission: allPermissions, disabled: false, passwordHash })
  }
  if (!present.some(({ role }) => role === 1)) {
    // Nobody has to know one, and no time has to go into a slow hash of it.
    const passwordHash = impossiblePassword()
    await insert(store, { username: 'guest', role: 1, permission: 0, disabled: true, passwordHash })
  }
}

/** Another process may have made it in the same moment. */
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
