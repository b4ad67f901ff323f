/** Drives that ask for hashes first: what is read, hashed, proved and sent, and what is not. */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Source } from '../../src/contract/call-options.js'
import { conformance } from '../driver-conformance/driver.js'
import { asPath } from '../../src/base/path.js'
import { byteSource } from '../../src/contract/sources.js'
import { newTree, sourceOf, text } from '../tree/tree-fixture.js'
import { countBytes } from '../../src/storage/transfer-meter.js'
import { HashDriveDriver, HashVendor, partLength } from './hash-drive.js'

const x = asPath('/x')

async function opened(t: Test) {
  const [one, other] = [new HashVendor(), new HashVendor()]
  const traits = { writeNeeds: 'reread', writeHashes: ['sha1'] } as const
  const tree = await newTree(t, {
    '/one': { traits, driverOf: async () => new HashDriveDriver(one) },
    '/other': { traits, driverOf: async () => new HashDriveDriver(other) },
    '/plain': {},
  })
  const storageOf = (path: string) => tree.mounts.find(asPath(path)).storage
  return { one, other, tree, storageOf }
}

/** A source that can be read in ranges. */
function rangesOf(content: Buffer, fields: Partial<Source> = {}): Source {
  return { ...byteSource(content), bytes: undefined, ...fields }
}

/** A source that counts what is read of it. */
function counted(content: Buffer, fields: Partial<Source> = {}) {
  const seen = { bytes: 0, whole: 0 }
  const inner = rangesOf(content, fields)
  const source: Source = {
    ...inner,
    read: async (range, options) => {
      const bytes = await inner.read(range, options)
      if (range === undefined) seen.whole++
      return countBytes(bytes, (count) => (seen.bytes += count))
    },
  }
  return { source, seen }
}

await t.test('a drive that asks for hashes first keeps the contract', async (t) => {
  const mebibytes = 8 * 1024 * 1024
  await conformance(t, {
    type: {},
    many: 2000,
    open: async () => ({
      driver: new HashDriveDriver(new HashVendor(mebibytes), mebibytes),
      dispose: async () => undefined,
    }),
  })
})

await t.test('a file that the drive knows moves no body, if its hash is known', async (t) => {
  const { one, storageOf } = await opened(t)
  const content = randomBytes(50_000)
  const sha1 = one.learn(content)
  const { source, seen } = counted(content, { hashes: { sha1 }, rereadable: true })
  await storageOf('/one').write(x, source)
  t.same([seen.whole, one.seen.bytes, one.seen.proofs], [0, 0, 1])
  t.ok(seen.bytes <= 16, `${seen.bytes} bytes for the proof`)
  t.equal(await text(storageOf('/one').read(x)), content.toString())
})

await t.test(
  'without a hash, the body is read once, hashed meanwhile, and not sent if the drive knows it',
  async (t) => {
    const { one, storageOf, tree } = await opened(t)
    const content = randomBytes(50_000)
    one.learn(content)
    const { source, seen } = counted(content, { rereadable: false })
    await storageOf('/one').write(x, source)
    t.same([seen.whole, seen.bytes, one.seen.bytes], [1, content.length, 0])
    t.equal(tree.spool.room, Number.POSITIVE_INFINITY)
  },
)

await t.test('a hash that is not that of the content does not lead to another file', async (t) => {
  const { one, storageOf } = await opened(t)
  const secret = randomBytes(5000)
  const sha1 = one.learn(secret)
  const content = randomBytes(5000)
  const { source } = counted(content, { hashes: { sha1 }, rereadable: true })
  await storageOf('/one').write(x, source)
  t.equal(one.seen.proofs, 1)
  t.equal(one.seen.bytes, 5000, 'the proof was wrong, so the body was sent')
  t.equal(await text(storageOf('/one').read(x)), content.toString())
})

await t.test('an unknown file is sent in parts, in order, with links that are renewed when they expire', async (t) => {
  const { one, storageOf } = await opened(t)
  one.partsPerLink = 3
  const content = randomBytes(20 * partLength + 17)
  await storageOf('/one').write(x, sourceOf(content, { rereadable: false }))
  t.equal(one.seen.bytes, content.length, 'no part was sent twice')
  t.equal(await text(storageOf('/one').read(x)), content.toString())
  for (const size of [0, 1, partLength, partLength + 1]) {
    await storageOf('/one').write(x, sourceOf(Buffer.alloc(size, 'y')))
    t.equal((await storageOf('/one').stat(x)).size, size)
  }
})

await t.test('beforePublish is called before the file is there, whichever way it comes', async (t) => {
  const { one, storageOf } = await opened(t)
  const known = randomBytes(3000)
  const sha1 = one.learn(known)
  const beforePublish = async () => Promise.reject(new Error('refused'))
  for (const source of [rangesOf(known, { hashes: { sha1 } }), sourceOf(randomBytes(3000))]) {
    await t.rejects(storageOf('/one').write(x, source, { beforePublish }))
    await t.rejects(storageOf('/one').stat(x), { code: 'not_found' })
  }
})

await t.test('a copy of a thousand files between drives that know them moves no bodies', async (t) => {
  const { one, other, tree, storageOf } = await opened(t)
  const count = 1000
  await storageOf('/one').mkdir(asPath('/tree'))
  for (let index = 0; index < count; index++) {
    const content = `content of file ${index}`
    other.learn(content)
    await storageOf('/one').write(asPath(`/tree/${index}`), sourceOf(content))
  }
  t.ok(one.seen.bytes > 0)
  await tree.as().copy(asPath('/one/tree'), asPath('/other/tree'), { overwrite: false })
  t.equal(other.seen.bytes, 0)
  t.equal(other.seen.proofs, count)
  const { entries } = await storageOf('/other').list(asPath('/tree'))
  t.equal(entries.length, count)
  t.equal(await text(storageOf('/other').read(asPath('/tree/7'))), 'content of file 7')
  await tree.as().copy(asPath('/one/tree/7'), asPath('/plain/7'), { overwrite: false })
  t.equal(await text(storageOf('/plain').read(asPath('/7'))), 'content of file 7')
})

await t.test(
  'an upload goes on where the drive has parts of it, and needs none if the drive knows the file',
  async (t) => {
    const vendor = new HashVendor()
    const driver = new HashDriveDriver(vendor)
    const content = randomBytes(10 * partLength + 5)
    const source = rangesOf(content)
    const begin = (resumeToken?: string) => driver.upload(x, { size: content.length, source, resumeToken })
    const first = await begin()
    t.equal(first.committedOffset, 0)
    const cut = sourceOf(content.subarray(0, 4 * partLength + 500), { size: content.length })
    await t.rejects(first.write(await cut.read()), { code: 'invalid' })
    await first.close()
    const second = await begin(first.token)
    t.equal(second.committedOffset, 4 * partLength)
    await second.write(await source.read({ offset: second.committedOffset }))
    await second.commit()
    t.equal(vendor.seen.bytes, content.length, 'nothing was sent twice')
    const again = await begin('unknown')
    t.equal(again.committedOffset, 0, 'without a hash')
    await again.close()
    const sha1 = vendor.learn(content)
    const known = await driver.upload(x, { size: content.length, source: { ...source, hashes: { sha1 } } })
    t.equal(known.committedOffset, content.length)
    await known.commit()
  },
)
