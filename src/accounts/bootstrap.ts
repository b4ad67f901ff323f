/** The accounts of a new installation. */
import { root } from '../base/path.js'
import type { UserRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import { hashPassword, impossiblePassword, randomPassword, staticHash } from './passwords.js'
import { allPermissions } from './principal.js'

/** The admin of a new installation. */
export interface FirstAdmin {
  /** The password; absent or empty: a random one. */
  readonly password?: string | undefined
  /**
   * Called before the admin is stored, so that no admin exists whose random password was not shown. If several were
   * shown, because processes ended before they stored the admin, the last one is valid. A password that was given is
   * not passed.
   */
  readonly onCreate?: (username: string, random: string | undefined) => void
}

/**
 * Creates the admin, who has all permissions, and the guest, who is disabled, unless they exist. Of several processes
 * that do so at once, one shows a password.
 */
export async function bootstrapAccounts(store: Store, admin: FirstAdmin): Promise<void> {
  const present = await store.users.all()
  const open = { grantedOnly: false, allowFrom: [], expires: undefined }
  const common = { passwordTime: 0, basePath: root, ssoId: '', otpSecret: '', ...open }
  if (!present.some(({ role }) => role === 'admin')) {
    const random = admin.password ? undefined : randomPassword()
    const passwordHash = await hashPassword(staticHash(admin.password || (random ?? '')))
    const username = freeName('admin', present)
    await store.users.addFirst('admin', () => {
      admin.onCreate?.(username, random)
      return { ...common, username, role: 'admin', permission: allPermissions, disabled: false, passwordHash }
    })
  }
  if (!present.some(({ role }) => role === 'guest')) {
    // The guest has no password, so no slow hash is computed.
    const passwordHash = impossiblePassword()
    const username = freeName('guest', present)
    const guest = { ...common, username, role: 'guest', permission: 0, disabled: true, passwordHash } as const
    await store.users.addFirst('guest', () => guest)
  }
}

/** `wanted`, or with a number behind it: imported users may have the names that these accounts usually have. */
function freeName(wanted: string, present: readonly UserRow[]): string {
  const isTaken = (name: string) => present.some(({ username }) => username === name)
  let name = wanted
  for (let number = 2; isTaken(name); number++) name = `${wanted}${number}`
  return name
}
