/** The accounts of a new installation. */
import { root } from '../contract/path.js'
import type { Store } from '../store/tables.js'
import { hashPassword, impossiblePassword, randomPassword, staticHash } from './passwords.js'
import { allPermissions } from './principal.js'

/**
 * The password of the admin of a new installation, or a function that shows a random one. The function is called before
 * the admin is stored, so that no admin exists whose password was not shown. If several passwords were shown, because
 * processes ended before they stored the admin, the last one is valid.
 */
export type AdminPassword = string | ((password: string) => void)

/**
 * Creates the admin, who has all permissions, and the guest, who is disabled, unless they exist. Of several processes that
 * do so at once, one shows a password.
 */
export async function bootstrapAccounts(store: Store, adminPassword: AdminPassword): Promise<void> {
  const present = await store.users.all()
  const common = { passwordTime: 0, basePath: root, ssoId: '', otpSecret: '' }
  if (!present.some(({ role }) => role === 2)) {
    const password = typeof adminPassword === 'string' ? adminPassword : randomPassword()
    const passwordHash = await hashPassword(staticHash(password))
    await store.users.addFirst(2, () => {
      if (typeof adminPassword !== 'string') adminPassword(password)
      return { ...common, username: 'admin', role: 2, permission: allPermissions, disabled: false, passwordHash }
    })
  }
  if (!present.some(({ role }) => role === 1)) {
    // The guest has no password, so no slow hash is computed.
    const passwordHash = impossiblePassword()
    const guest = { ...common, username: 'guest', role: 1, permission: 0, disabled: true, passwordHash } as const
    await store.users.addFirst(1, () => guest)
  }
}
