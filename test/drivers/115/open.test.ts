/** The driver for 115's official API keeps the contract on a double of it. */
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { open115Type } from '../../../drivers/115/index.js'
import type { DirectUrl, UrlClient } from '../../../src/contract/capabilities.js'
import { conformance } from '../../driver-conformance/driver.js'
import { startOpen115 } from '../../doubles/115-open.js'
import { openOn115 } from './open-mount.js'

const mebibyte = 1024 * 1024
/** Milliseconds. The driver assumes a longer time than the listings really lag. */
const [lag, assumedLag] = [100, 300]

async function fetchDirectUrl({ url, headers }: DirectUrl, { userAgent = '' }: UrlClient): Promise<string | undefined> {
  const response = await fetch(url, { headers: { 'user-agent': userAgent, ...headers } })
  return response.ok ? response.text() : undefined
}

for (const isLagging of [false, true]) {
  await t.test(`115 Open keeps the contract${isLagging ? ' if listings lag' : ''}`, async (t) => {
    const double = await startOpen115(t)
    double.drive.lag = isLagging ? lag : 0
    double.files.listsRootForMissing = !isLagging
    await conformance(t, {
      type: open115Type,
      many: 300,
      // What the vendor refuses.
      cannotKeep: (name) => /[\r\n]/.test(name),
      open: async () => {
        const root = double.drive.create('0', randomUUID()).id
        // Otherwise no test would send a content that an earlier one has sent.
        double.contents.forget()
        const tuning = {
          listingLag: isLagging ? assumedLag : 0,
          absence: isLagging ? 10_000 : 0,
          partLength: () => 8 * mebibyte,
        }
        const open = (uploads: readonly string[] = []) =>
          openOn115(double, { root_folder_id: root }, { resumableUploads: async () => uploads }, tuning)
        return {
          driver: await open(),
          // What another program changes is shown when the lag is over.
          ...(!isLagging && { elsewhere: double.elsewhere(root) }),
          fetchDirectUrl,
          finishDownload: async (address, name, content) =>
            double.offline.finish(address, name, await double.contents.add(content)),
          again: open,
          dispose: async () => double.drive.remove(root),
        }
      },
    })
  })
}
