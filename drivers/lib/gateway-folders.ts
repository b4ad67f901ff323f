/** Keeps the gateway's own folders out of storages that show files of this machine. */
import { join } from 'node:path'
import type { GatewayFolders } from '../../src/contract/driver-env.js'

/** Whether the path is that of a protected folder, in one, or contains one. `real`: absolute, without symlinks. */
export function holdsGatewayFolders(real: string, { protectedPaths }: Pick<GatewayFolders, 'protectedPaths'>): boolean {
  const contains = (folder: string, other: string) => other === folder || other.startsWith(join(folder, '/'))
  return protectedPaths.some((folder) => contains(folder, real) || contains(real, folder))
}
