/** What copies of visitors count as, also those of files that grow meanwhile, and those that fail. */
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p } from '../../src/base/path.js'
import { ShareUploads } from '../../src/shares/share-uploads.js'
import { SharedTree } from '../../src/shares/shared-tree.js'
import { principal } from '../accounts/principals.js'
import { fill, newTree, overwrite, sourceOf } from '../tree/tree-fixture.js'

/** A tree with a shared folder, and what its copies have reserved and counted, as `bytes/files`. */
async function shared(t: Test, reserved: () => Promise<void> = async () => undefined) {
  const { as, dependencies } = await newTree(t)
  const admin = as({ role: 'admin', userId: 9 })
  await fill(admin, { '/docs/folder/a': 'a', '/docs/folder/deep/b': 'bb', '/docs/one': 'one', '/docs/two': 'second' })
  const counts: string[] = []
  const rows = {
    reserve: async (_id: string, bytes: number, files: number) => {
      counts.push(`${bytes}/${files} reserved`)
      await reserved()
      return 1
    },
    finish: async (_id: number, bytes: number, files: number) => void counts.push(`${bytes}/${files} counted`),
    release: async () => void counts.push('released'),
    extend: async () => undefined,
    isClaimed: async () => false,
    claim: async () => true,
  }
  const visitor = principal({ base: '/docs', folder: p('/docs'), share: { id: 'x', pseudonym: 'p', mode: 'both' } })
  const fs = new SharedTree(dependencies, visitor, new ShareUploads(rows, { warn: () => undefined }))
  return { admin, fs, counts }
}

void t.test('a copy counts as many bytes, and files and folders, as it makes', async (t) => {
  const { fs, counts } = await shared(t)
  const copied = async (from: string, to: string, deep = true) => {
    counts.length = 0
    await fs.copy(p(from), p(to), { ...overwrite, deep })
    return counts
  }
  t.same(await copied('/folder', '/copy'), ['3/4 reserved', '3/4 counted'])
  t.same(await copied('/folder', '/empty', false), ['0/1 reserved', '0/1 counted'])
  t.same(await copied('/one', '/new'), ['3/1 reserved', '3/1 counted'])
  t.same(await copied('/two', '/one'), ['6/0 reserved', '6/0 counted'], 'a file that is replaced is none more')
})

void t.test('a copy that is refused measures and counts nothing', async (t) => {
  const { fs, counts } = await shared(t)
  await t.rejects(fs.copy(p('/one'), p('/two'), { overwrite: false }), { code: 'exists' })
  await t.rejects(fs.copy(p('/folder'), p('/none/one'), overwrite), { code: 'parent_missing' })
  await t.rejects(fs.copy(p('/one'), p('/folder'), overwrite), { code: 'denied' })
  await t.rejects(fs.copy(p('/folder'), p('/new'), { ...overwrite, ifMatch: ['"other"'] }), {
    code: 'precondition_failed',
  })
  await t.rejects(fs.copy(p('/none'), p('/new'), overwrite), { code: 'not_found' })
  t.same(counts, [])
})

void t.test('one network makes four copies at a time, and waits with others', async (t) => {
  let [running, most] = [0, 0]
  const { fs } = await shared(t, async () => {
    most = Math.max(most, ++running)
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    running--
  })
  await Promise.all(Array.from({ length: 12 }, (_, number) => fs.copy(p('/folder'), p(`/copy ${number}`), overwrite)))
  t.equal(most, 4)
  const gone = AbortSignal.abort()
  await t.rejects(fs.copy(p('/one'), p('/late'), { ...overwrite, signal: gone }), { code: 'aborted' })
})

void t.test('each folder that is made counts as a file, also above a file that is not stored', async (t) => {
  const { fs, counts } = await shared(t)
  await fs.mkdir(p('/a/b/c'), { parents: true })
  await fs.mkdir(p('/a/b/c'), { parents: true })
  t.same(counts, Array.from({ length: 3 }, () => ['0/1 reserved', '0/1 counted']).flat())
  counts.length = 0
  const failing = { ...sourceOf('x'), bytes: undefined, read: () => Promise.reject(new GatewayError('aborted')) }
  await t.rejects(fs.write(p('/d/e/file'), failing, { parents: true }), { code: 'aborted' })
  t.same(counts, ['1/1 reserved', '0/1 reserved', '0/1 counted', '0/1 reserved', '0/1 counted', 'released'])
})

void t.test('what grows while it is copied does not pass the limit', async (t) => {
  const grow = () => admin.write(p('/docs/folder/deep/b'), sourceOf('b'.repeat(100_000)))
  const { admin, fs, counts } = await shared(t, async () => {
    await grow()
  })
  await t.rejects(fs.copy(p('/folder'), p('/copy'), overwrite), { code: 'no_space', detail: 'share_full' })
  t.equal(counts[0], '3/4 reserved')
  t.match(counts[1], /^\d{2,}\/4 counted$/, 'what was made of it counts')
})
