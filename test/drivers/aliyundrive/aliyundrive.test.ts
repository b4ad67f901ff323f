/** The driver AliyundriveOpen keeps the contract on a double of the service. */
import t from 'tap'
import { aliyundriveType } from '../../../drivers/aliyundrive/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { startAliyundrive } from '../../doubles/aliyundrive.js'
import { newMount, openMount } from './mount.js'
import { memoryState } from '../lib/cloud/vendor.js'

const variants = {
  'without rapid uploads': { remove_way: 'delete', order_by: 'name' },
  'with rapid uploads': { rapid_upload: true },
}

for (const [variant, options] of Object.entries(variants)) {
  await t.test(`AliyundriveOpen keeps the contract ${variant}`, async (t) => {
    const double = await startAliyundrive(t)
    await conformance(t, {
      type: aliyundriveType,
      // More than one page of a listing, once.
      many: 'rapid_upload' in options ? 50 : 250,
      open: async () => {
        const { state } = memoryState()
        // Each mount is of a service that knows no file yet. The suite expects parts of which it sends two.
        double.contents.forget()
        const tuning = { partLength: () => 8 * 1024 * 1024 }
        const mount = await newMount(t, double, { options, env: { state }, tuning })
        return {
          driver: mount.driver,
          elsewhere: mount.elsewhere,
          fetchDirectUrl: async ({ url }, { userAgent = '' }) => {
            const response = await fetch(url, { headers: { 'user-agent': userAgent } })
            return response.ok ? response.text() : undefined
          },
          again: () => openMount(double, { options: mount.options, env: { state }, tuning }),
          dispose: async () => double.drives.remove(mount.folder),
        }
      },
    })
  })
}
