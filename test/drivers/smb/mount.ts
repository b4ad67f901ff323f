/** Storages on the Samba server of the tests. */
import { mkdtemp, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { smbFields, smbType, type SmbOptions } from '../../../drivers/smb/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import type { WritableDriver } from '../../driver-conformance/subject.js'
import type { SambaServer } from '../../servers/samba.js'
import { testEnv } from '../env.js'

/** A storage on the whole share, unless the options say otherwise. */
export async function openShare(
  { address, username, password }: SambaServer,
  more: Partial<SmbOptions> = {},
  env: Partial<DriverEnv> = {},
): Promise<WritableDriver> {
  const options = { address, username, password, share_name: 'files', root_folder_path: '.', ...more }
  return (await smbType.open(checkOptions(smbFields, options), testEnv(env))) as WritableDriver
}

/** A storage on a new, empty folder of the share. */
export async function openNewFolder(server: SambaServer) {
  const root = await mkdtemp(join(server.folder, 'root-'))
  const options = { root_folder_path: basename(root) }
  const driver = await openShare(server, options)
  const again = (uploads: readonly string[]) => openShare(server, options, { resumableUploads: async () => uploads })
  return { driver, again, dispose: () => rm(root, { recursive: true, force: true }) }
}
