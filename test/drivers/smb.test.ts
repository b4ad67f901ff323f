/** The SMB driver against Samba. */
import { mkdtemp, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import { smbFields, smbType, type SmbOptions } from '../../drivers/smb/index.js'
import type { DriverEnv } from '../../src/driver.js'
import { checkOptions } from '../../src/fields.js'
import { conformance } from '../conformance/driver.js'
import type { WritableDriver } from '../conformance/subject.js'
import { lacks } from '../programs.js'
import { sambaPrograms, startSamba } from '../services/samba.js'
import { testEnv } from './env.js'

void t.test('SMB', { skip: lacks(...sambaPrograms), timeout: 300_000 }, async (t) => {
  const server = await startSamba()
  t.teardown(() => server.stop())
  const open = async (root: string, more: Partial<SmbOptions> = {}, env: Partial<DriverEnv> = {}) => {
    const { address, username, password } = server
    const options = { address, username, password, share_name: 'files', root_folder_path: root, ...more }
    return (await smbType.open(checkOptions(smbFields, options), testEnv(env))) as WritableDriver
  }

  await t.test('it keeps the contract', async (t) => {
    await conformance(t, {
      name: 'SMB',
      traits: smbType.traits,
      many: 2000,
      open: async () => {
        const root = await mkdtemp(join(server.folder, 'root-'))
        return { driver: await open(basename(root)), dispose: () => rm(root, { recursive: true, force: true }) }
      },
    })
  })
})
