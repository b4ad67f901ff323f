/** The FTP driver against servers that people run: Pure-FTPd, which lists for machines, and vsftpd, which lists for people. */
import { randomUUID } from 'node:crypto'
import { chown, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ftpFields, ftpType, type FtpOptions } from '../../drivers/ftp/index.js'
import type { DriverEnv } from '../../src/driver.js'
import { checkOptions } from '../../src/fields.js'
import { conformance } from '../conformance/driver.js'
import type { WritableDriver } from '../conformance/subject.js'
import { lacks } from '../programs.js'
import type { FtpServer } from '../services/ftp-process.js'
import { startPureFtpd } from '../services/pure-ftpd.js'
import { startVsftpd } from '../services/vsftpd.js'
import { testEnv } from './env.js'

const skip = process.getuid?.() === 0 ? lacks('vsftpd', 'pure-ftpd', 'pure-pw', 'openssl') : 'the servers need root'

/** A new, empty folder of the server. */
async function emptyFolder(server: FtpServer) {
  const name = randomUUID()
  const files = join(server.files, name)
  await mkdir(files)
  await chown(files, server.owner, server.owner)
  return { files, path: `${server.path === '/' ? '' : server.path}/${name}` }
}

async function open(
  server: FtpServer,
  root: string,
  more: Partial<FtpOptions> = {},
  env: Partial<DriverEnv> = {},
): Promise<WritableDriver> {
  const { username, password, port } = server
  const options = { address: `127.0.0.1:${port}`, username, password, root_folder_path: root, ...more }
  return (await ftpType.open(checkOptions(ftpFields, options), testEnv(env))) as WritableDriver
}

/** Starts a server, and stops it with the test. */
async function started(t: Test, start: () => Promise<FtpServer>): Promise<FtpServer> {
  const server = await start()
  t.teardown(() => server.stop())
  return server
}

/** Pure-FTPd drops spaces at the end of a command: no name can end with one. */
const endsWithSpace = (name: string) => name.endsWith(' ')

for (const [name, start, cannotKeep] of [
  ['Pure-FTPd', startPureFtpd, endsWithSpace],
  ['vsftpd', startVsftpd, undefined],
] as const) {
  void t.test(`FTP on ${name} keeps the contract`, { skip, timeout: 300_000 }, async (t) => {
    const server = await started(t, () => start())
    await conformance(t, {
      name: `FTP on ${name}`,
      traits: ftpType.traits,
      many: 2000,
      ...(cannotKeep && { cannotKeep }),
      open: async () => {
        const { files, path } = await emptyFolder(server)
        return { driver: await open(server, path), dispose: () => rm(files, { recursive: true, force: true }) }
      },
    })
  })
}
