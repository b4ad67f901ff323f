/** Storages of the driver `115 Open` on the double of its API. */
import type { Tuning115 } from '../../../drivers/115/account-driver.js'
import { openOpen115 } from '../../../drivers/115/open-driver.js'
import { open115Fields } from '../../../drivers/115/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import type { WritableDriver } from '../../driver-conformance/subject.js'
import type { Open115 } from '../../doubles/115-open.js'
import { testEnv } from '../env.js'

/** Options with the tokens that the double accepts now. */
export function credentialsOf({ account }: Open115): Readonly<Record<string, unknown>> {
  return { access_token: account.accessToken, refresh_token: account.refreshToken, limit_rate: 0 }
}

export async function openOn115(
  double: Open115,
  options: Readonly<Record<string, unknown>> = {},
  env: Partial<DriverEnv> = {},
  tuning: Tuning115 = { listingLag: 0, absence: 0 },
): Promise<WritableDriver> {
  const checked = checkOptions(open115Fields, { ...credentialsOf(double), ...options })
  return (await openOpen115(checked, testEnv(env), tuning)) as WritableDriver
}
