/** Storages of 115 over its double. */
import type { Test } from 'tap'
import type { Tuning115 } from '../../../drivers/115/account-driver.js'
import { openCloud115 } from '../../../drivers/115/cloud.js'
import { cloud115Fields } from '../../../drivers/115/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import type { DirectUrl, UrlClient } from '../../../src/contract/capabilities.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { isGatewayError } from '../../../src/base/errors.js'
import type { WritableDriver } from '../../driver-conformance/subject.js'
import type { Double115 } from '../../doubles/115/index.js'
import { testEnv } from '../env.js'

/** What a player receives that requests a direct URL. */
export async function fetchDirectUrl(
  { url, headers }: DirectUrl,
  { userAgent = '' }: UrlClient,
): Promise<string | undefined> {
  const response = await fetch(url, { headers: { 'user-agent': userAgent, ...headers } })
  const body = await response.text()
  return response.ok ? body : undefined
}

interface MountOptions {
  readonly options?: Readonly<Record<string, unknown>>
  readonly env?: Partial<DriverEnv>
  readonly tuning?: Tuning115
}

/** Bytes of the parts of uploads in tests. */
const partLength = 8 * 1024 * 1024

/** Opens a storage that is signed in, and as fast as it can be. It is closed when the test ends. */
export async function openCloud(t: Test, double: Double115, mount: MountOptions = {}): Promise<WritableDriver> {
  const { options = {}, env = {}, tuning = {} } = mount
  const cookie = 'cookie' in options || 'qrcode_token' in options ? {} : { cookie: double.account.signIn() }
  const checked = checkOptions(cloud115Fields, { limit_rate: 0, ...cookie, ...options })
  const quick = { listingLag: 0, absence: 0, partLength: () => partLength, ...tuning }
  const driver = (await openCloud115(checked, testEnv(env), quick)) as WritableDriver
  t.teardown(() => driver.close?.())
  return driver
}

/** The error that a promise rejects with. */
export async function failureOf(work: Promise<unknown>) {
  try {
    await work
  } catch (error) {
    if (isGatewayError(error)) return error
    throw error
  }
  throw new Error('it did not reject')
}
