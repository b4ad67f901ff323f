/**
 * A folder is copied from 115 to Aliyundrive, which has all of its files, and back: no body moves. Twice as many with
 * TIDEGATE_VARIANTS=all, in the first of these directions.
 */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { openCloud } from '../drivers/115/mount.js'
import { openMount } from '../drivers/aliyundrive/mount.js'
import { start115 } from '../doubles/115/index.js'
import { startAliyundrive } from '../doubles/aliyundrive.js'
import { newTree } from '../tree/tree-fixture.js'

const some = 200
const many = process.env.TIDEGATE_VARIANTS === 'all' ? 400 : some
/** Bytes of each file; Aliyundrive is not asked for smaller ones. */
const size = 102_401
/** Bytes that are read of each file: its beginning, and the proof. */
const asked = 1024 + 8

function contentsOf(count: number): readonly Buffer[] {
  return Array.from({ length: count }, (_, index) => {
    const content = Buffer.alloc(size, 'tide')
    content.writeUInt32BE(index)
    return content
  })
}

/** The SHA-1 of each file, by its name. */
function digestsOf(contents: readonly Buffer[]): ReadonlyMap<string, string> {
  return new Map(contents.map((content, index) => [String(index), sha1Of(content)]))
}

function sha1Of(content: Buffer): string {
  return createHash('sha1').update(content).digest('hex')
}

/** Both services, which know all of the files, in one tree. */
async function bothDrives(t: Test, contents: readonly Buffer[]) {
  const [cloud, ali] = [await start115(t), await startAliyundrive(t)]
  for (const content of contents) {
    await cloud.contents.add(content)
    await ali.learn(content)
  }
  const tree = await newTree(t, {
    '/115': { driverOf: (env) => openCloud(t, cloud, { env }) },
    '/ali': { driverOf: (env) => openMount(ali, { options: { rapid_upload: true }, env }) },
  })
  const copy = (from: string, to: string) => tree.as().copy(asPath(from), asPath(to), { overwrite: false })
  const digestsIn = async (folder: string) => {
    const { entries } = await tree.as().list(asPath(folder))
    return new Map(entries.map(({ name, hashes }) => [name, hashes?.sha1]))
  }
  return { cloud, ali, copy, digestsIn }
}

await t.test('from 115 to Aliyundrive', { timeout: 600_000 }, async (t) => {
  const contents = contentsOf(many)
  const { cloud, ali, copy, digestsIn } = await bothDrives(t, contents)
  for (const [index, content] of contents.entries()) await cloud.putFile(`/tree/${index}`, content)
  await copy('/115/tree', '/ali/tree')
  t.equal(ali.requests.matching(/^PUT /).length, 0, 'nothing was sent')
  t.equal(ali.requests.matching(/openFile\/complete/).length, many)
  const downloads = cloud.requests.matching(/^GET cdnfhnfile/)
  const read = downloads.reduce((sum, { headers }) => sum + lengthOf(headers.range), 0)
  t.equal(read, many * asked, 'of each file its beginning and the proof were read')
  t.same(await digestsIn('/ali/tree'), digestsOf(contents), 'every file is there')
  t.comment(`${cloud.requests.log.length} requests to 115, ${ali.requests.log.length} to Aliyundrive`)
})

await t.test('from Aliyundrive to 115', { timeout: 600_000 }, async (t) => {
  const contents = contentsOf(some)
  const { cloud, ali, copy, digestsIn } = await bothDrives(t, contents)
  const { resource } = ali.drives.ids
  const folder = ali.drives.create(resource, 'root', 'tree').fileId
  for (const [index, content] of contents.entries()) {
    ali.drives.create(resource, folder, String(index), await ali.learn(content))
  }
  await copy('/ali/tree', '/115/tree')
  t.equal(cloud.uploads.oss.requests.log.length, 0, 'nothing was sent')
  const downloads = ali.requests.matching(/^GET cn-beijing-data/)
  t.ok(
    downloads.every(({ headers }) => headers.range !== undefined),
    'only ranges were read, for proofs',
  )
  t.same(await digestsIn('/115/tree'), digestsOf(contents), 'every file is there')
})

/** Bytes of a requested range. Without one, the whole file is requested. */
function lengthOf(range: string | undefined): number {
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? []
  return first === undefined ? size : Number(last) - Number(first) + 1
}
