/** S3 passes the conformance suite on OpenStack Swift, with both versions of listings. */
import t from 'tap'
import { s3Type } from '../../../drivers/s3/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { lacks, onlyWithVariants } from '../../programs.js'
import { swiftPrograms } from '../../servers/swift.js'
import { testEnv } from '../env.js'
import { startBucket } from './mount.js'

await t.test('S3 against OpenStack Swift', { skip: lacks(...swiftPrograms) }, async (t) => {
  // Three pages: each file takes a dozen requests to five processes.
  const [page, many] = [100, 250]
  const bucket = await startBucket(page)
  t.teardown(() => bucket.stop())
  for (const [version, keepTimes] of [
    ['v2', true],
    ['v1', false],
  ] as const) {
    const name = `S3 with listings ${version}${keepTimes ? ' and times' : ''}`
    const skip = version === 'v1' && onlyWithVariants
    await t.test(`${name} passes the conformance suite`, { skip }, async (t) => {
      await conformance(t, {
        type: s3Type,
        many,
        open: async () => {
          const options = bucket.options({ list_object_version: version, keep_times: keepTimes })
          return {
            driver: await s3Type.open(options, testEnv()),
            again: () => s3Type.open(options, testEnv()),
            dispose: async () => undefined,
          }
        },
      })
    })
  }
})
