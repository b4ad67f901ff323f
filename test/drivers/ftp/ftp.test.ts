/** The FTP driver on Pure-FTPd, which lists with MLSD, and vsftpd, which lists with LIST. */
import { rm } from 'node:fs/promises'
import t from 'tap'
import { ftpType } from '../../../drivers/ftp/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { startVsftpd } from '../../servers/vsftpd.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'

/** Pure-FTPd replaces a space at the end of a name by `_`. */
const endsWithSpace = (name: string) => name.endsWith(' ')

for (const [name, start, cannotKeep] of [
  ['Pure-FTPd', startPureFtpd, endsWithSpace],
  ['vsftpd', startVsftpd, undefined],
] as const) {
  void t.test(`FTP on ${name} passes the conformance suite`, { skip }, async (t) => {
    const server = await started(t, () => start())
    await conformance(t, {
      type: ftpType,
      many: 1100,
      ...(cannotKeep && { cannotKeep }),
      open: async () => {
        const { files, path } = await emptyFolder(server)
        return { driver: await open(server, path), dispose: () => rm(files, { recursive: true, force: true }) }
      },
    })
  })
}
