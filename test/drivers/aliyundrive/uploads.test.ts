/** Uploads to AliyundriveOpen: what it knows is not sent, parts, their URLs, and uploads that go on. */
import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { partLengthOf } from '../../../drivers/lib/cloud/part-length.js'
import { proofOffset } from '../../../drivers/aliyundrive/uploads.js'
import type { Source } from '../../../src/contract/call-options.js'
import { byteSource } from '../../../src/contract/sources.js'
import { at, bytesAt, namesIn, put, refuses, textAt } from '../../driver-conformance/subject.js'
import { startAliyundrive } from '../../doubles/aliyundrive.js'
import { countBytes } from '../../../src/storage/transfer-meter.js'
import { newMount } from './mount.js'

const mebibyte = 1024 * 1024
const gibibyte = 1024 * mebibyte
const rapid = { options: { rapid_upload: true } }
const puts = /^PUT /
const sha1Of = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex')

/** A source that counts what is read of it. */
function counted(content: Buffer, fields: Partial<Source> = {}) {
  const seen = { bytes: 0, whole: 0 }
  const inner = { ...byteSource(content), bytes: undefined, ...fields }
  const source: Source = {
    ...inner,
    read: async (range, options) => {
      if (range === undefined) seen.whole++
      return countBytes(await inner.read(range, options), (count) => (seen.bytes += count))
    },
  }
  return { source, seen }
}

await t.test('proofs and parts have the published offsets and lengths', async (t) => {
  t.equal(proofOffset('tok', 1000), 999)
  t.equal(proofOffset('abc.def.ghi', 123_456_789), 66_820_281)
  t.equal(proofOffset('tok', 0), 0)
  for (const [size, length] of [
    [1, 1],
    [21 * mebibyte, 20 * mebibyte],
    [128 * gibibyte, 20 * mebibyte],
    [128 * gibibyte + 1, 27_487_791],
    [256 * gibibyte + 1, 41_231_687],
    [384 * gibibyte + 1, 54_975_582],
    [512 * gibibyte + 1, 82_463_373],
    [1024 * gibibyte, 109_951_163],
  ] as const) {
    t.equal(partLengthOf(size), length)
    t.ok(Math.ceil(size / length) <= 10_000)
  }
  t.equal(partLengthOf(2048 * gibibyte), Math.ceil((2048 * gibibyte) / 10_000))
  t.equal(partLengthOf(5), 5, 'no more memory than the file')
  t.throws(() => partLengthOf(11 * 1024 * gibibyte), { code: 'too_large' })
})

await t.test('a known file moves no body: its hash is taken from the source', async (t) => {
  // The file is shown when the upload is complete; other tests have it at once.
  const double = await startAliyundrive(t, { showsRapidUploads: false })
  const { driver } = await newMount(t, double, rapid)
  const content = randomBytes(300_000)
  await double.learn(content)
  const { source, seen } = counted(content, { hashes: { sha1: sha1Of(content) } })
  const entry = await driver.write(at('/known'), source)
  t.match(entry, { size: content.length, hashes: { sha1: sha1Of(content) } })
  t.same([seen.whole, seen.bytes], [0, 1024 + 8], 'its beginning and the proof are read')
  t.equal(double.requests.bodyBytes(puts), 0)
  t.ok((await bytesAt(driver, '/known')).equals(content))
})

await t.test('without a hash, the source is read only if the beginning is known', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double, rapid)
  const content = randomBytes(300_000)
  const unknown = counted(content)
  await driver.write(at('/file'), unknown.source)
  t.same([unknown.seen.whole, double.requests.bodyBytes(puts)], [1, content.length], 'it is sent')
  const known = counted(content)
  await driver.write(at('/again'), known.source)
  t.same([known.seen.whole, double.requests.bodyBytes(puts)], [1, content.length], 'it is hashed, and not sent')
  const similar = Buffer.concat([content.subarray(0, 200_000), randomBytes(100_000)])
  await driver.write(at('/similar'), counted(similar).source)
  t.equal(double.requests.bodyBytes(puts), 2 * content.length, 'of a file that begins as another, the bytes are sent')
  t.ok((await bytesAt(driver, '/similar')).equals(similar))
})

await t.test('small files, and all without the option, are sent without asking', async (t) => {
  const double = await startAliyundrive(t)
  const small = randomBytes(100 * 1024)
  const large = randomBytes(100 * 1024 + 1)
  for (const content of [small, large]) await double.learn(content)
  const hasty = await newMount(t, double, rapid)
  await hasty.driver.write(at('/small'), counted(small).source)
  t.equal(double.requests.bodyBytes(puts), small.length)
  const { driver } = await newMount(t, double)
  await driver.write(at('/large'), counted(large).source)
  t.equal(double.requests.bodyBytes(puts), small.length + large.length)
})

await t.test('a proof for a token that expires meanwhile is made again', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double, rapid)
  const content = randomBytes(300_000)
  await double.learn(content)
  const { source, seen } = counted(content, { hashes: { sha1: sha1Of(content) } })
  const expiring: Source = {
    ...source,
    read: async (range, options) => {
      const bytes = await source.read(range, options)
      if (range?.length === 8 && double.tokens.refreshes === 0) double.tokens.expire()
      return bytes
    },
  }
  await driver.write(at('/known'), expiring)
  t.equal(double.requests.bodyBytes(puts), 0)
  t.equal(seen.bytes, 1024 + 16)
  t.equal(double.tokens.refreshes, 1)
})

await t.test('a wrong hash leads to no other file', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double, rapid)
  const secret = randomBytes(300_000)
  await double.learn(secret)
  const content = Buffer.concat([secret.subarray(0, 1024), randomBytes(secret.length - 1024)])
  const { source } = counted(content, { hashes: { sha1: sha1Of(secret) } })
  await refuses(t, () => driver.write(at('/file'), source), ['invalid', 'denied'], 'a proof that is wrong')
  t.same(await namesIn(driver, '/'), [])
})

for (const showsRapidUploads of [true, false]) {
  await t.test(`beforePublish may refuse a known file, shown at once: ${showsRapidUploads}`, async (t) => {
    const double = await startAliyundrive(t, { showsRapidUploads })
    const { driver, members } = await newMount(t, double, rapid)
    const content = randomBytes(300_000)
    await double.learn(content)
    await put(driver, '/file', 'old')
    const { source } = counted(content, { hashes: { sha1: sha1Of(content) } })
    await t.rejects(driver.write(at('/file'), source, { beforePublish: () => Promise.reject(new Error('refused')) }))
    t.equal(await textAt(driver, '/file'), 'old')
    t.equal(members().length, 1)
  })
}

await t.test(
  'parts go in order, to new URLs when they expire, and again when they are cut or unanswered',
  async (t) => {
    const double = await startAliyundrive(t)
    const { driver } = await newMount(t, double)
    const content = randomBytes(41 * mebibyte)
    double.requests.inject(/^PUT .*partNumber=1&/, { cutAfter: 5 * mebibyte })
    double.requests.inject(/^PUT .*partNumber=2&/, { loseAnswer: true })
    const { source } = counted(content)
    const slow: Source = {
      ...source,
      read: async (range, options) => {
        let read = 0
        return countBytes(await source.read(range, options), (count) => {
          if (read < 25 * mebibyte && read + count >= 25 * mebibyte) double.urls.expire()
          read += count
        })
      },
    }
    await driver.write(at('/large'), slow)
    t.ok((await bytesAt(driver, '/large')).equals(content))
    const statuses = double.requests.matching(puts).map(({ status }) => status)
    t.match(statuses.filter((status) => status === 200).length, 3 - 1, 'the answer to one of the parts was lost')
    t.ok(statuses.includes(409), 'it was sent again')
    t.ok(double.requests.matching(/getUploadUrl/).length > 0, 'new URLs were requested')
    t.notOk(double.requests.matching(puts).some(({ hasCredentials }) => hasCredentials))
    t.notOk(double.requests.matching(puts).some(({ headers }) => headers['content-type'] !== undefined))
  },
)

await t.test('an upload goes on with the parts that are stored, and not with those of another file', async (t) => {
  const double = await startAliyundrive(t)
  const { driver } = await newMount(t, double)
  const content = randomBytes(41 * mebibyte)
  const begin = (path: string, resumeToken?: string) =>
    driver.upload!(at(path), { size: content.length, source: counted(content).source, resumeToken })
  const first = await begin('/file')
  const cut = counted(content.subarray(0, 30 * mebibyte)).source
  await t.rejects(first.write(await cut.read()), { code: 'invalid' })
  await first.close()
  t.equal((await begin('/other', first.token)).committedOffset, 0, 'another path')
  const second = await begin('/file', first.token)
  t.equal(second.committedOffset, 20 * mebibyte)
  await second.write(await counted(content).source.read({ offset: second.committedOffset }))
  await second.commit()
  t.ok((await bytesAt(driver, '/file')).equals(content))
  const third = await begin('/file', first.token)
  t.equal(third.committedOffset, 0, 'it is complete')
  t.same(await namesIn(driver, '/'), ['file'])
})
