import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { s3Fields, s3Type, type S3Options } from '../../drivers/s3/index.js'
import { checkOptions } from '../../src/fields.js'
import { conformance } from '../conformance/driver.js'
import { lacks } from '../programs.js'
import { startSwift, swiftPrograms } from '../services/swift.js'
import { testEnv } from './env.js'

// Of the file as a whole: a test's own option leaves that at 30 seconds.
t.setTimeout(900_000)

await t.test('S3 against OpenStack Swift', { skip: lacks(...swiftPrograms), timeout: 900_000 }, async (t) => {
  const swift = await startSwift()
  t.teardown(() => swift.stop())
  const client = new S3Client({
    endpoint: swift.endpoint,
    region: swift.region,
    forcePathStyle: true,
    credentials: { accessKeyId: swift.accessKey, secretAccessKey: swift.secretKey },
  })
  t.teardown(() => {
    client.destroy()
  })
  await client.send(new CreateBucketCommand({ Bucket: 'tests' }))

  const options = (over: Partial<S3Options> = {}): S3Options =>
    checkOptions(s3Fields, {
      // A folder of its own for each mount.
      root_folder_path: `/${randomUUID()}`,
      bucket: 'tests',
      endpoint: swift.endpoint,
      region: swift.region,
      access_key_id: swift.accessKey,
      secret_access_key: swift.secretKey,
      force_path_style: true,
      ...over,
    })

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
        open: async () => ({
          driver: await s3Type.open(options({ list_object_version: version, keep_times: keepTimes }), testEnv()),
          dispose: async () => undefined,
        }),
      })
    })
  }
})
