/** A storage starts only on a folder that is there. */
import type { Driver } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { root } from '../../src/path.js'

/** The driver itself. It is closed, and `invalid`, where its root is none or is missing; whatever else keeps it from looking is told. */
export async function onFolder(driver: Driver, signal: AbortSignal): Promise<Driver> {
  try {
    const { kind } = await driver.stat(root, { signal })
    if (kind !== 'folder') throw new GatewayError('invalid', { reason: 'root_folder_path is no folder' })
    return driver
  } catch (error) {
    await driver.close?.()
    if (!isGatewayError(error, 'not_found')) throw error
    throw new GatewayError('invalid', { reason: 'root_folder_path is not there', cause: error })
  }
}
