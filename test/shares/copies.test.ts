/** What copies of visitors count as, also those of files that grow meanwhile, and those that fail. */
import t, { type Test } from 'tap'
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
  const visitor = principal({ base: '/docs', folder: p('/docs'), share: { id: 'x', mode: 'both' } })
  const fs = new SharedTree(dependencies, visitor, new ShareUploads(rows, { warn: () => undefined }))
  return { admin, fs, counts }
}

void t.test('a copy counts as many bytes and files as it makes', async (t) => {
  const { fs, counts } = await shared(t)
  const copied = async (from: string, to: string, deep = true) => {
    counts.length = 0
    await fs.copy(p(from), p(to), { ...overwrite, deep })
    return counts
  }
  t.same(await copied('/folder', '/copy'), ['3/2 reserved', '3/2 counted'])
  t.same(await copied('/folder', '/empty', false), ['0/0 reserved', '0/0 counted'])
  t.same(await copied('/one', '/new'), ['3/1 reserved', '3/1 counted'])
  t.same(await copied('/two', '/one'), ['6/0 reserved', '6/0 counted'], 'a file that is replaced is none more')
})

void t.test('a copy that is refused counts nothing', async (t) => {
  const { fs, counts } = await shared(t)
  await t.rejects(fs.copy(p('/one'), p('/two'), { overwrite: false }), { code: 'exists' })
  await t.rejects(fs.copy(p('/one'), p('/none/one'), overwrite), { code: 'parent_missing' })
  await t.rejects(fs.copy(p('/one'), p('/folder'), overwrite), { code: 'denied' })
  t.same(counts, ['3/0 reserved', 'released', '3/1 reserved', 'released', '3/1 reserved', 'released'])
  await t.rejects(fs.copy(p('/none'), p('/new'), overwrite), { code: 'not_found' })
})

void t.test('what grows while it is copied does not pass the limit', async (t) => {
  const grow = () => admin.write(p('/docs/folder/deep/b'), sourceOf('b'.repeat(100_000)))
  const { admin, fs, counts } = await shared(t, async () => {
    await grow()
  })
  await t.rejects(fs.copy(p('/folder'), p('/copy'), overwrite), { code: 'no_space', detail: 'share_full' })
  t.equal(counts[0], '3/2 reserved')
  t.match(counts[1], /^\d{2,}\/2 counted$/, 'what was made of it counts')
})
