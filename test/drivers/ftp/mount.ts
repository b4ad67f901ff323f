/** Storages on FTP servers, for tests. */
import { randomUUID } from 'node:crypto'
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { ftpFields, ftpType, type FtpOptions } from '../../../drivers/ftp/index.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import type { WritableDriver } from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import type { FtpServer } from '../../servers/ftp-process.js'
import { testEnv } from '../env.js'

/** The `skip` option of tests with an FTP server. */
export const ftpSkip =
  process.getuid?.() === 0 ? lacks('vsftpd', 'pure-ftpd', 'pure-pw', 'openssl') : 'the servers need root'

/** Creates an empty folder on the server. */
export async function emptyFolder(server: FtpServer) {
  const name = randomUUID()
  const files = join(server.files, name)
  await mkdir(files)
  await chown(files, server.owner, server.owner)
  return { files, path: `${server.path === '/' ? '' : server.path}/${name}` }
}

export async function openFtpMount(
  server: Pick<FtpServer, 'username' | 'password' | 'port'>,
  root: string,
  more: Partial<FtpOptions> = {},
  env: Partial<DriverEnv> = {},
): Promise<WritableDriver> {
  const { username, password, port } = server
  const options = { address: `127.0.0.1:${port}`, username, password, root_folder_path: root, ...more }
  return (await ftpType.open(checkOptions(ftpFields, options), testEnv(env))) as WritableDriver
}

/** Starts a server that stops with the test. */
export async function started(t: Test, start: () => Promise<FtpServer>): Promise<FtpServer> {
  const server = await start()
  t.teardown(() => server.stop())
  return server
}
