/** A data folder as a first run leaves it, made without the slow hash of the admin's password. */
import { randomBytes, scryptSync } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { staticHash } from '../src/accounts/passwords.js'
import { allPermissions } from '../src/accounts/principal.js'
import type { AnyDriverType } from '../src/contract/driver-type.js'
import { createFirstStorage } from '../src/gateway/open-database.js'
import { openNewStore } from './database/new-store.js'
import { userRow } from './database/store-rows.js'

/**
 * Creates the database of the data folder `data` at `location`, the first storage, and the admin. A password is checked
 * with the parameters that are stored with it, so each sign-in of this admin is fast too. Not for tests of how long a
 * check takes.
 */
export async function runFirst(
  data: string,
  adminPassword: string,
  drivers: readonly AnyDriverType[],
  location = join(data, 'data.db'),
): Promise<void> {
  await mkdir(data, { recursive: true, mode: 0o700 })
  const store = await openNewStore(location)
  try {
    await createFirstStorage(store, data, drivers)
    const passwordHash = fastHash(staticHash(adminPassword))
    await store.users.insert(userRow({ username: 'admin', role: 'admin', permission: allPermissions, passwordHash }))
  } finally {
    await store.close()
  }
}

/** As `hashPassword` of `src/accounts/passwords.ts`, with the lowest parameters of scrypt. */
export function fastHash(hash: string): string {
  const salt = randomBytes(16)
  const digest = scryptSync(hash, salt, 32, { N: 2, r: 1, p: 1 })
  return ['scrypt', 1, 1, 1, salt.toString('base64url'), digest.toString('base64url')].join('$')
}
