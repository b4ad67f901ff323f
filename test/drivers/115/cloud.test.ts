/** The driver for 115's web API keeps the contract, on a double of the API. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { cloud115Type } from '../../../drivers/115/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { start115 } from '../../doubles/115/index.js'
import { fetchDirectUrl, openCloud } from './mount.js'

/** Milliseconds. What another program changes is shown when the lag is over, and the order of its changes is not. */
for (const lag of [0, 150]) {
  const title = lag === 0 ? '115 Cloud' : '115 Cloud, whose listings lag,'
  await t.test(`${title} keeps the contract`, async (t) => {
    const double = await start115(t, { lag })
    const cookie = double.account.signIn()
    await conformance(t, {
      type: cloud115Type,
      many: 120,
      open: async () => {
        const root = `/${randomUUID()}`
        const options = { cookie, root_folder_id: double.makeFolder(root), page_size: 50 }
        // Longer than the listings really lag, also on a slow machine.
        const mount = { options, tuning: { listingLag: 10 * lag } }
        return {
          driver: await openCloud(t, double, mount),
          again: (uploads) => openCloud(t, double, { ...mount, env: { resumableUploads: async () => uploads } }),
          ...(lag === 0 && { elsewhere: double.elsewhere(root) }),
          fetchDirectUrl,
          finishDownload: async (address, name, content) =>
            double.offline.finish(address, name, await double.contents.add(content)),
          dispose: async () => {
            double.drive.remove(double.itemAt(root))
            double.contents.forget()
          },
        }
      },
    })
  })
}
