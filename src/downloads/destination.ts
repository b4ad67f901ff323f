/** The target folder of a download: the required permissions, and conflicts with existing files. */
import { randomUUID } from 'node:crypto'
import { hasPermission, permissionBits, type Principal } from '../accounts/principal.js'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { childOf, type Path } from '../contract/path.js'
import type { AccessOptions } from '../tree/preconditions.js'
import type { VirtualFs } from '../tree/virtual-fs.js'

/**
 * The principal with the write permission added: the permission for offline downloads includes it. Throws `denied`
 * without that permission.
 */
export function withDownloadPermissions(principal: Principal): Principal {
  if (!hasPermission(principal, 'offlineDownload')) throw new GatewayError('denied')
  return { ...principal, permissions: principal.permissions | permissionBits.write }
}

/** Rejects if the principal cannot create a file in the folder. The folder itself need not exist yet. */
export async function assertCanReceive(fs: VirtualFs, folder: Path, access: AccessOptions): Promise<void> {
  try {
    if ((await fs.stat(folder, access)).kind !== 'folder') throw new GatewayError('not_dir')
  } catch (error) {
    if (!isGatewayError(error, 'not_found')) throw error
  }
  await fs.assertWritable(childOf(folder, randomUUID()), access)
}
