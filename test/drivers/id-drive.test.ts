/**
 * A drive that knows its entries by ids, and downloads by itself, keeps the contract, by the library of
 * `drivers/lib/cloud/`.
 */
import t from 'tap'
import { conformance } from '../driver-conformance/driver.js'
import { DownloadingDrive, DownloadingDriver } from './downloading-drive.js'
import { elsewhereOf, fetchFromIdDrive } from './id-drive.js'
import { testEnv } from './env.js'

for (const lag of [0, 150]) {
  const title = lag === 0 ? 'a drive with ids' : 'a drive with ids whose listings lag'
  await t.test(`${title} keeps the contract`, async (t) => {
    await conformance(t, {
      type: {},
      many: 2000,
      open: async () => {
        const drive = new DownloadingDrive(lag)
        drive.isFast = false
        return {
          driver: new DownloadingDriver(drive, testEnv()),
          finishDownload: (address, name, content) => drive.finish(address, { [name]: content }),
          // What another program changes is shown when the lag is over, and the order of its changes is not.
          ...(lag === 0 && { elsewhere: elsewhereOf(drive) }),
          fetchDirectUrl: (url, client) => fetchFromIdDrive(drive, url, client),
          dispose: async () => undefined,
        }
      },
    })
  })
}
