/** The parts of an S3 upload are of equal size, except for the last one, also if the size is not known before. */
import { UploadPartCommand } from '@aws-sdk/client-s3'
import { Readable } from 'node:stream'
import t from 'tap'
import type { BucketClient } from '../../../drivers/s3/client.js'
import { upload } from '../../../drivers/s3/upload.js'

const mebibyte = 1024 * 1024

/** A server that answers every request, and the bytes of each part that it was sent. */
function server() {
  const parts = new Map<number, number>()
  const send = async (command: unknown) => {
    if (command instanceof UploadPartCommand) {
      const { PartNumber = 0, Body } = command.input
      parts.set(PartNumber, (Body as Buffer).length)
    }
    return { UploadId: 'an upload', ETag: '"tag"' }
  }
  const client = { bucket: 'bucket', call: (work: (s3: unknown, options: object) => unknown) => work({ send }, {}) }
  return { parts, client: client as unknown as BucketClient }
}

for (const isKnown of [true, false]) {
  void t.test(`a body whose size is ${isKnown ? 'known' : 'not known'}`, async (t) => {
    const { parts, client } = server()
    const size = 40 * mebibyte
    const body = Readable.from(Array.from({ length: 40 }, () => Buffer.alloc(mebibyte)))
    const target = { key: 'key', contentType: 'text/plain', metadata: {}, createOnly: false }
    const publish = (finish: () => Promise<string | undefined>) => finish()
    const announced = isKnown ? size : undefined
    const { bytes } = await upload(client, target, body, announced, Promise.resolve(), publish, undefined)
    t.equal(bytes, size)
    const sizes = [...parts].sort(([one], [other]) => one - other).map(([, length]) => length)
    t.equal(
      sizes.reduce((sum, length) => sum + length, 0),
      size,
    )
    t.equal(new Set(sizes.slice(0, -1)).size, 1, sizes.join(' '))
  })
}
