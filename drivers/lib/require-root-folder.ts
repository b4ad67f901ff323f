/** Checks the root folder when a driver is opened. */
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { root } from '../../src/base/path.js'

/**
 * Resolves to `driver` if its root is a folder. Otherwise closes it and rejects: with `invalid` if the root is missing
 * or not a folder, else with the error of `stat`.
 */
export async function requireRootFolder(driver: Driver, signal: AbortSignal): Promise<Driver> {
  try {
    const { kind } = await driver.stat(root, { signal })
    if (kind !== 'folder') throw new GatewayError('invalid', { reason: 'root_folder_path is not a folder' })
    return driver
  } catch (error) {
    await driver.close?.()
    if (!isGatewayError(error, 'not_found')) throw error
    throw new GatewayError('invalid', { reason: 'root_folder_path does not exist', cause: error })
  }
}
