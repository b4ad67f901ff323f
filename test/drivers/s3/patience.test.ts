/** The timeout of requests to an S3 server that is slow or never responds. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { PutObjectCommand } from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { BucketClient } from '../../../drivers/s3/client.js'
import { s3Fields } from '../../../drivers/s3/index.js'
import { pages } from '../../../drivers/s3/listing.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { refuses } from '../../driver-conformance/subject.js'

const patience = 1000
const noKeys = '<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>'

/** A bucket on a server with this request listener. */
async function bucketOf(t: Test, answer: RequestListener): Promise<BucketClient> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const options = checkOptions(s3Fields, {
    bucket: 'bucket',
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    access_key_id: 'somebody',
    secret_access_key: 'secret',
    force_path_style: true,
  })
  const bucket = new BucketClient(options, patience)
  t.teardown(async () => {
    bucket.close()
    server.closeAllConnections()
    await once(server.close(), 'close')
  })
  return bucket
}

async function listed(bucket: BucketClient): Promise<void> {
  await pages(bucket, { prefix: '', version: 'v1' }).next()
}

async function stored(bucket: BucketClient, size: number): Promise<void> {
  const command = new PutObjectCommand({ Bucket: bucket.bucket, Key: 'key', Body: Buffer.alloc(size) })
  await bucket.call((s3, options) => s3.send(command, options), undefined, 'lengthy')
}

await t.test('S3: a server that never responds is a timeout, and the request is not repeated', async (t) => {
  let asked = 0
  const bucket = await bucketOf(t, () => asked++)
  const begun = performance.now()
  await refuses(t, () => listed(bucket), 'timeout', 'a listing')
  t.ok(performance.now() - begun >= patience - 50, 'after the whole timeout')
  await pause(300)
  t.equal(asked, 1)
})

await t.test('S3: a retry has only the rest of the timeout', async (t) => {
  const times: number[] = []
  const bucket = await bucketOf(t, (_request, response) => {
    times.push(performance.now())
    if (times.length === 1) setTimeout(() => response.writeHead(503).end(), patience / 2)
  })
  await refuses(t, () => listed(bucket), 'timeout', 'a listing')
  const [first = 0, second = 0] = times
  t.equal(times.length, 2)
  t.ok(second > first && performance.now() - second < patience, 'the second request ends earlier')
})

await t.test('S3: a slow server is tolerated, and a body may take longer than the timeout', async (t) => {
  const bucket = await bucketOf(t, (request, response) => {
    void (async () => {
      if (request.method === 'PUT') await pause(patience * 1.5)
      await text(request)
      await pause(patience / 2)
      response.writeHead(200, { 'content-type': 'application/xml' })
      // A response that has begun may take longer.
      response.write(noKeys.slice(0, 30))
      if (request.method === 'GET') await pause(patience)
      response.end(noKeys.slice(30))
    })()
  })
  await listed(bucket)
  await stored(bucket, 100_000)
  t.pass('both requests succeed')
})
