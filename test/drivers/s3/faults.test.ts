/** S3 on OpenStack Swift: direct URLs, copies in parts, errors, interrupted uploads, and broken connections. */
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { gunzipSync, gzipSync } from 'node:zlib'
import { HeadObjectCommand, ListMultipartUploadsCommand, ListPartsCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import t from 'tap'
import { s3Type, type S3Options } from '../../../drivers/s3/index.js'
import { openS3 } from '../../../drivers/s3/s3.js'
import {
  at,
  bytesAt,
  chunks,
  namesIn,
  put,
  refuses,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { startCuttingProxy } from '../../servers/cutting-proxy.js'
import { swiftPrograms } from '../../servers/swift.js'
import { sourceOf } from '../../tree/tree-fixture.js'
import { testEnv } from '../env.js'
import { startBucket } from './mount.js'
import { until } from '../../until.js'

const mebibyte = 1024 * 1024

await t.test('S3: direct URLs, copies in parts and faults', { skip: lacks(...swiftPrograms) }, async (t) => {
  const bucket = await startBucket()
  t.teardown(() => bucket.stop())
  const open = async (options: S3Options) => (await s3Type.open(options, testEnv())) as WritableDriver
  const uploads = async () =>
    (await bucket.client.send(new ListMultipartUploadsCommand({ Bucket: bucket.name }))).Uploads ?? []

  await t.test('a direct URL works without credentials, for its file only', async (t) => {
    const driver = await open(bucket.options({ add_filename_to_disposition: true }))
    await put(driver, '/täst +1.txt', 'hello')
    const link = await driver.directUrl?.(at('/täst +1.txt'))
    t.ok(link?.until && link.until.getTime() > Date.now() + 3.9 * 3_600_000, 'for four hours')
    const answer = await fetch(link?.url ?? '')
    t.equal(await answer.text(), 'hello')
    t.match(
      answer.headers.get('content-disposition'),
      /filename="t_st \+1.txt"; filename\*=UTF-8''t%C3%A4st%20%2B1.txt/,
    )
    t.equal((await fetch((link?.url ?? '').replace('1.txt?', '2.txt?'))).status, 403, 'not for another file')
    await refuses(t, async () => driver.directUrl?.(at('/none')), 'not_found', 'a missing file')
    await driver.close?.()
    const own = { custom_host: 'files.example.org', remove_bucket: true, root_folder_path: '/links' }
    for (const presign of [true, false]) {
      const public_ = await open(bucket.options({ ...own, enable_custom_host_presign: presign }))
      await put(public_, '/a b', 'x')
      const url = new URL((await public_.directUrl?.(at('/a b')))?.url ?? '')
      t.equal(url.origin + url.pathname, 'http://files.example.org/links/a%20b')
      t.equal(url.searchParams.has('X-Amz-Signature'), presign)
      await public_.close?.()
    }
  })

  await t.test('a large file is copied in parts, with its time', async (t) => {
    const options = bucket.options({ keep_times: true })
    const driver = (await openS3(options, testEnv(), {
      maxSingleCopy: mebibyte,
      minPartSize: 5 * mebibyte,
    })) as WritableDriver
    const data = randomBytes(12 * mebibyte)
    const modified = new Date('2001-02-03T04:05:06.789Z')
    await driver.write(at('/from +%ä'), { ...chunks(1, data), size: undefined }, { modified })
    await driver.copy?.(at('/from +%ä'), at('/to'))
    t.ok((await bytesAt(driver, '/to')).equals(data))
    t.same((await driver.stat(at('/to'))).modified, modified)
    const key = `${options.root_folder_path.slice(1)}/to`
    const { Metadata } = await bucket.client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: key }))
    t.same(Metadata, { mtime: '981173106.789' }, 'in rclone’s format')
    await driver.close?.()
  })

  await t.test('an error of the server is reported without secrets', async (t) => {
    for (const over of [{ secret_access_key: 'wrong-secret' }, { access_key_id: 'no:body' }]) {
      const error = await s3Type.open(bucket.options({ ...over, session_token: 'a-token' }), testEnv()).then(
        () => undefined,
        (reason: unknown) => reason as Error & { code: string },
      )
      t.equal(error?.code, 'denied')
      t.notMatch(
        `${String(error)} ${String(error?.cause)} ${JSON.stringify(error?.cause)}`,
        /a-token|wrong-secret|secret-for-tests/,
      )
    }
    await refuses(t, () => open(bucket.options({ bucket: 'missing' })), 'unavailable', 'a missing bucket')
    await refuses(t, () => open(bucket.options({ endpoint: 'http://127.0.0.1:1' })), 'unavailable', 'no server listens')
    await refuses(t, () => open(bucket.options({ endpoint: 'ftp://x' })), 'invalid', 'an invalid address')
  })

  await t.test('an object that is stored with a content coding keeps it in a copy, and its entry has it', async (t) => {
    const options = bucket.options()
    const driver = await open(options)
    await bucket.client.send(
      new PutObjectCommand({
        Bucket: bucket.name,
        Key: `${options.root_folder_path.slice(1)}/page.html`,
        Body: gzipSync('plain text'),
        ContentEncoding: 'gzip',
      }),
    )
    await driver.copy?.(at('/page.html'), at('/copy.html'))
    const codingOf = async (path: string) => (await driver.stat(at(path))).contentEncoding
    t.equal(await codingOf('/page.html'), 'gzip')
    t.equal(await codingOf('/copy.html'), 'gzip')
    t.equal(gunzipSync(await bytesAt(driver, '/copy.html')).toString(), 'plain text')
    await driver.write(at('/page.html'), sourceOf('other'))
    t.equal(await codingOf('/page.html'), undefined, 'after it was replaced')
    await driver.close?.()
  })

  await t.test('an interrupted upload resumes with the parts that the server has', async (t) => {
    const proxy = await startCuttingProxy(bucket.swift.port)
    t.teardown(() => proxy.stop())
    const driver = await open(bucket.options({ endpoint: `http://127.0.0.1:${proxy.port}` }))
    const data = randomBytes(40 * mebibyte)
    const partsOf = async (token: string) => {
      const { key, upload } = JSON.parse(token) as { key: string; upload: string }
      const asked = new ListPartsCommand({ Bucket: bucket.name, Key: key, UploadId: upload })
      return (await bucket.client.send(asked)).Parts ?? []
    }
    const body = (start: number, content = data) =>
      Readable.from(
        (function* () {
          for (let from = start; from < content.length; from += mebibyte) yield content.subarray(from, from + mebibyte)
        })(),
        { objectMode: false },
      )
    /** Cuts the connection once the server has the first part. */
    const cutBody = (token: string) =>
      Readable.from(
        (async function* () {
          yield data.subarray(0, 30 * mebibyte)
          while (!(await partsOf(token)).some(({ PartNumber }) => PartNumber === 1)) await pause(20)
          proxy.cut('up', 1)
          yield data.subarray(30 * mebibyte)
        })(),
        { objectMode: false },
      )
    const begin = async (resume?: string) => {
      const upload = await driver.upload?.(at('/large'), { size: data.length, resumeToken: resume })
      if (!upload) throw new Error('the driver supports resumable uploads')
      return upload
    }
    const first = await begin()
    await refuses(t, () => first.write(cutBody(first.token)), 'unavailable', 'the connection is cut')
    await first.close()
    await refuses(t, () => begin(first.token), 'unavailable', 'resuming on an unreachable server')
    await refuses(
      t,
      async () => driver.dropUpload?.(first.token),
      'unavailable',
      'dropUpload() on an unreachable server',
    )
    proxy.heal()
    const { up } = proxy.passed
    const second = await begin(first.token)
    const { committedOffset: confirmed } = second
    t.ok(confirmed >= 8 * mebibyte && confirmed % (8 * mebibyte) === 0, `${confirmed} bytes are committed`)
    await second.write(body(confirmed))
    await second.commit()
    await second.close()
    t.ok((await bytesAt(driver, '/large')).equals(data))
    t.ok(proxy.passed.up - up < data.length - confirmed + mebibyte, 'committed parts are not sent again')
    await driver.dropUpload?.(first.token)
    t.ok((await bytesAt(driver, '/large')).equals(data), 'dropping a finished upload has no effect')
    const third = await begin()
    await third.write(body(0, randomBytes(data.length)))
    await driver.dropUpload?.(third.token)
    t.same(await uploads(), [], 'no parts are left')
    await driver.close?.()
  })

  await t.test('a broken connection leaves the old file, no parts and no open connection', async (t) => {
    const proxy = await startCuttingProxy(bucket.swift.port)
    t.teardown(() => proxy.stop())
    const driver = await open(bucket.options({ endpoint: `http://127.0.0.1:${proxy.port}` }))
    const old = randomBytes(4 * mebibyte)
    await driver.write(at('/file'), chunks(1, old))
    for (const bytes of [mebibyte, 6 * mebibyte]) {
      proxy.cut('up', bytes)
      const body = chunks(30, Buffer.alloc(mebibyte))
      await refuses(t, () => driver.write(at('/file'), body), 'unavailable', `a write, cut after ${bytes}`)
      proxy.heal()
      t.ok((await bytesAt(driver, '/file')).equals(old), 'the old file is unchanged')
    }
    proxy.cut('down', mebibyte)
    await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', 'a read')
    proxy.cut('down', 1)
    await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing')
    await refuses(t, () => driver.stat(at('/file')), 'unavailable', 'stat')
    proxy.heal()
    t.same(await namesIn(driver, '/'), ['file'])

    proxy.stall()
    const controller = new AbortController()
    setTimeout(() => {
      controller.abort()
    }, 200)
    await refuses(t, () => driver.stat(at('/file'), { signal: controller.signal }), 'aborted', 'a stalled call')
    const stalled = driver.stat(at('/file'))
    setTimeout(() => void driver.close?.(), 200)
    await refuses(t, () => stalled, 'aborted', 'a stalled call when the driver closes')
    proxy.heal()
    await until(() => proxy.open === 0)
    t.equal(proxy.open, 0, 'no connection is left')
    const again = await open(bucket.options())
    await put(again, '/after', 'all is well')
    t.equal(await textAt(again, '/after'), 'all is well')
    await again.close?.()
    t.same(await uploads(), [], 'no parts are left')
  })
})
