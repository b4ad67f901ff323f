/** Where downloads go: the rights that it takes, and what may stand in the way. */
import { randomUUID } from 'node:crypto'
import type { Ask } from '../change.js'
import { GatewayError, isGatewayError } from '../errors.js'
import { childOf, nameOf, type Path } from '../path.js'
import { holds, permissionBits, type Principal } from '../principal.js'
import type { VirtualFs } from '../virtual-fs.js'

/** Who may have files fetched may put them where rules let them write. Rejects with `denied` for everybody else. */
export function asDownloader(principal: Principal): Principal {
  if (!holds(principal, 'offlineDownload')) throw new GatewayError('denied')
  return { ...principal, permissions: principal.permissions | permissionBits.write }
}

/** Rejects where a new file in the folder, which need not be there yet, would be refused. */
export async function assertReceives(fs: VirtualFs, folder: Path, ask: Ask): Promise<void> {
  try {
    if ((await fs.stat(folder, ask)).kind !== 'folder') throw new GatewayError('not_dir')
  } catch (error) {
    if (!isGatewayError(error, 'not_found')) throw error
  }
  await fs.assertWritable(childOf(folder, randomUUID()), ask)
}

/** What stands at a path of the tree is never replaced by a download. */
export function taken(path: Path, cause: GatewayError): GatewayError {
  return new GatewayError('exists', { reason: `file [${nameOf(path)}] exists`, cause })
}
