/** Storages of AliyundriveOpen on its double. */
import type { Test } from 'tap'
import { openAliyundrive, type Tuning } from '../../../drivers/aliyundrive/open.js'
import { aliyundriveFields } from '../../../drivers/aliyundrive/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import type { Elsewhere, WritableDriver } from '../../driver-conformance/subject.js'
import { startAliyundrive } from '../../doubles/aliyundrive.js'
import { testEnv } from '../env.js'

export type Double = Awaited<ReturnType<typeof startAliyundrive>>

/** No limits: the tests of these have their own. */
export const unlimited: Tuning['limits'] = { list: 0, link: 0, other: 0 }

interface MountOptions {
  readonly options?: Readonly<Record<string, unknown>>
  readonly env?: Partial<DriverEnv>
  readonly tuning?: Partial<Tuning>
}

/** Options with a valid access token, so that the refresh token of the double stays good. */
export function credentials({ tokens }: Double) {
  return { refresh_token: tokens.refreshToken, AccessToken: tokens.issue(), remove_way: 'trash' }
}

export async function openMount(
  double: Double,
  { options = {}, env = {}, tuning }: MountOptions = {},
): Promise<WritableDriver> {
  const checked = checkOptions(aliyundriveFields, { ...credentials(double), ...options })
  return (await openAliyundrive(checked, testEnv(env), { limits: unlimited, ...tuning })) as WritableDriver
}

/** A storage of a new folder. It is closed when the test ends. */
export async function newMount(t: Test, double: Double, mount: MountOptions = {}) {
  const { drives } = double
  const driveId = drives.ids.resource
  const folder = drives.create(driveId, 'root', `folder-${drives.members(driveId, 'root').length}`)
  const options = { ...credentials(double), ...mount.options, root_folder_id: folder.fileId }
  const driver = await openMount(double, { ...mount, options })
  t.teardown(() => driver.close?.())
  const elsewhere: Elsewhere = drives.elsewhere(driveId, folder.fileId)
  /** What the folder really has. */
  const members = () => drives.members(driveId, folder.fileId)
  return { driver, options, driveId, folder, elsewhere, members }
}
