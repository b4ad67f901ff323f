/** The target folder of a download: the required permissions, and conflicts with existing files. */
import { randomUUID } from 'node:crypto'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { childOf, type Path } from '../contract/path.js'
import type { AccessOptions } from '../tree/operation-options.js'
import type { VirtualFs } from '../tree/virtual-fs.js'

/** Rejects if the principal cannot create a file in the folder. The folder itself need not exist yet. */
export async function assertCanReceive(fs: VirtualFs, folder: Path, access: AccessOptions): Promise<void> {
  try {
    if ((await fs.stat(folder, access)).kind !== 'folder') throw new GatewayError('not_folder')
  } catch (error) {
    if (!isGatewayError(error, 'not_found')) throw error
  }
  await fs.assertWritable(childOf(folder, randomUUID()), access)
}
