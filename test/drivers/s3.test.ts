import t from 'tap'
import { s3Type } from '../../drivers/s3/index.js'
import { conformance } from '../conformance/driver.js'
import { lacks } from '../programs.js'
import { swiftPrograms } from '../services/swift.js'
import { testEnv } from './env.js'
import { startBucket } from './s3-mount.js'

// Of the file as a whole: a test's own option leaves that at 30 seconds.
t.setTimeout(900_000)

await t.test('S3 against OpenStack Swift', { skip: lacks(...swiftPrograms), timeout: 900_000 }, async (t) => {
  const bucket = await startBucket()
  t.teardown(() => bucket.stop())
  for (const [version, keepTimes] of [
    ['v1', false],
    ['v2', true],
  ] as const) {
    const name = `S3 with listings ${version}${keepTimes ? ' and times' : ''}`
    await t.test(`${name} keeps the contract`, async (t) => {
      await conformance(t, {
        name,
        traits: s3Type.traits,
        // Two pages: each of these files is a dozen requests to five processes.
        many: 1100,
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
