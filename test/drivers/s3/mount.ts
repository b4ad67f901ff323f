/** S3 storages on a Swift server that a test started. */
import { randomUUID } from 'node:crypto'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { s3Fields, type S3Options } from '../../../drivers/s3/index.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { startSwift, type SwiftServer } from '../../servers/swift.js'

interface Bucket {
  readonly swift: SwiftServer
  readonly name: string
  /** A client of the bucket that does not use the driver. */
  readonly client: S3Client
  /** Options of a storage with a root folder of its own. */
  options(over?: Partial<S3Options>): S3Options
  stop(): Promise<void>
}

/** `page`: the number of keys in one listing response. */
export async function startBucket(page?: number): Promise<Bucket> {
  const swift = await startSwift(page)
  const name = 'tests'
  const client = new S3Client({
    endpoint: swift.endpoint,
    region: swift.region,
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    credentials: { accessKeyId: swift.accessKey, secretAccessKey: swift.secretKey },
  })
  await client.send(new CreateBucketCommand({ Bucket: name }))
  return {
    swift,
    name,
    client,
    options: (over = {}) =>
      checkOptions(s3Fields, {
        root_folder_path: `/${randomUUID()}`,
        bucket: name,
        endpoint: swift.endpoint,
        region: swift.region,
        access_key_id: swift.accessKey,
        secret_access_key: swift.secretKey,
        force_path_style: true,
        ...over,
      }),
    stop: async () => {
      client.destroy()
      await swift.stop()
    },
  }
}
