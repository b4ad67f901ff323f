/**
 * Alias passes the conformance suite, merges paths that have one name, and writes to those that its policies select.
 */
import t from 'tap'
import { aliasFields, aliasType, type AliasOptions } from '../../../drivers/alias/index.js'
import { namedPaths } from '../../../drivers/alias/options.js'
import type { DriverEnv, TreeDriver } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, listed, namesIn, put, refuses, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { altered, openBody, sourceOf } from '../../tree/tree-fixture.js'
import { compositeTree } from '../composite-tree.js'

const one = asPath('/one')
const two = asPath('/two')

type Moving = WritableDriver & Required<Pick<WritableDriver, 'move'>>

async function openOver(env: DriverEnv, paths: string, options: Partial<AliasOptions> = {}): Promise<Moving> {
  return (await aliasType.open(checkOptions(aliasFields, { paths, ...options }), env)) as Moving
}

const policies = (write: string, put = write) => ({ write_conflict_policy: write, put_conflict_policy: put })

/**
 * The driver, whose moves between two storages, which a policy that distributes files makes necessary, copy the content
 * and remove the source, as the core does where a driver rejects with `unsupported`.
 */
function copyingBetweenStorages(driver: Moving): Moving {
  return altered(driver, {
    move: async (from, to, options) => {
      try {
        await driver.move(from, to, options)
      } catch (error) {
        if (!isGatewayError(error, 'unsupported')) throw error
        const { size } = await driver.stat(from)
        await driver.write(to, { size, rereadable: true, read: (range) => driver.read(from, range) })
        await driver.remove(from)
      }
    },
  }) as Moving
}

for (const [write, put] of [
  ['first', 'first'],
  ['all', 'all'],
  ['first', 'quota'],
] as const) {
  await t.test(`Alias of two storages passes the conformance suite: ${write}, ${put}`, async (t) => {
    const { env, newFolder } = await compositeTree(t, { '/one': {}, '/two': {} })
    await conformance(t, {
      type: aliasType,
      many: 1000,
      open: async () => {
        const paths = [await newFolder(one), await newFolder(two)].map((path) => `merged:${path}`)
        const driver = await openOver(env, paths.join('\n'), policies(write, put))
        return { driver: put === 'quota' ? copyingBetweenStorages(driver) : driver, dispose: async () => undefined }
      },
    })
  })
}

await t.test('namedPaths() parses lines of paths with and without names', (t) => {
  const rows = (text: string) => [...namedPaths(text)]
  t.same(rows('/a/b'), [['b', ['/a/b']]])
  t.same(rows(' \n name:/a \r\n\n/c:d/e\nname: /b\n'), [
    ['name', ['/a', '/b']],
    ['e', ['/c:d/e']],
  ])
  for (const text of ['', ' \n', '/a\n/', '..:/a\n/b', '/a/../b']) t.throws(() => rows(text), { code: 'invalid' }, text)
  t.end()
})

await t.test('Alias merges paths of one name, the earlier path first, and shows other names as folders', async (t) => {
  const { env } = await compositeTree(t, { '/one': {}, '/two': {} })
  const [first, second] = [env.tree(one), env.tree(two)] as [WritableDriver, WritableDriver]
  await put(first, '/same', 'first')
  await put(second, '/same', 'the second')
  await put(second, '/other', 'other')
  await first.mkdir(at('/folder'))
  await second.mkdir(at('/folder'))
  await put(first, '/folder/a', 'a')
  await put(second, '/folder/b', 'b')
  const merged = await openOver(env, 'x:/one\nx:/two')
  t.same(await namesIn(merged, '/'), ['folder', 'other', 'same'])
  t.same(await namesIn(merged, '/folder'), ['a', 'b'])
  t.equal(await textAt(merged, '/same'), 'first')
  t.equal((await listed(merged, '/')).find(({ name }) => name === 'same')?.size, 5)
  t.notOk('write' in merged, 'Alias is read-only without a write policy')
  for (let round = 0; round < 20; round++) {
    const any = await openOver(env, 'x:/one\nx:/two', { read_conflict_policy: 'random' })
    t.equal(await textAt(any, '/same'), 'first', 'a file of another size is not taken for a copy')
  }
  const named = await openOver(env, 'second:/two\n/one', policies('first'))
  t.same(
    (await listed(named, '/')).map(({ name, kind }) => [name, kind]),
    [
      ['one', 'folder'],
      ['second', 'folder'],
    ],
  )
  t.equal(await textAt(named, '/second/same'), 'the second')
  t.equal((await named.stat(at('/second'))).name, 'second')
  await refuses(t, () => put(named, '/new', 'x'), ['is_folder', 'parent_missing'], 'next to the named folders')
  await refuses(t, () => named.mkdir(at('/second')), 'exists', 'over a name')
  await refuses(t, () => named.remove(at('/second')), 'denied', 'a name')
  await refuses(t, () => named.stat(at('/third')), 'not_found', 'another name')
})

await t.test('Alias: each policy decides which storage is written to', async (t) => {
  const { env } = await compositeTree(t, { '/one': {}, '/two': {} })
  const [first, second] = [env.tree(one), env.tree(two)] as [WritableDriver, WritableDriver]
  await put(second, '/later', 'x')
  await put(first, '/both', 'x')
  await put(second, '/both', 'x')
  const open = (...names: readonly [string, string?]) => openOver(env, 'x:/one\nx:/two', policies(...names))
  await put(await open('first'), '/later', 'new')
  t.equal(await textAt(second, '/later'), 'new', 'an existing file is written where it is')
  await refuses(t, async () => put(await open('deterministic'), '/both', 'y'), 'denied', 'deterministic')
  await refuses(t, async () => (await open('all_strict')).remove(at('/later')), 'denied', 'all_strict')
  await put(await open('all'), '/both', 'z')
  t.same([await textAt(first, '/both'), await textAt(second, '/both')], ['z', 'z'])
  await refuses(t, async () => put(await open('first', 'disabled'), '/both', 'y'), 'denied', 'put disabled')
  await refuses(t, async () => (await open('disabled', 'first')).remove(at('/both')), 'denied', 'write disabled')
  await (await open('all')).remove(at('/both'))
  t.same([await namesIn(first, '/'), await namesIn(second, '/')], [[], ['later']])
})

await t.test('Alias: a rename renames every copy that the policy selects, or changes nothing', async (t) => {
  const writing = ['first', 'deterministic', 'deterministic_or_all', 'all', 'all_strict', 'disabled']
  for (const write of writing) {
    for (const putPolicy of [...writing, 'random', 'quota', 'quota_strict']) {
      if (write === 'disabled' && putPolicy === 'disabled') continue
      const { env } = await compositeTree(t, { '/one': {}, '/two': {} })
      const both = [env.tree(one), env.tree(two)] as [WritableDriver, WritableDriver]
      for (const driver of both) await put(driver, '/old', 'x')
      const merged = await openOver(env, 'x:/one\nx:/two', policies(write, putPolicy))
      const renamed = write === 'first' ? [['new'], ['old']] : [['new'], ['new']]
      const isRefused = ['deterministic', 'disabled'].includes(write)
      if (isRefused) await refuses(t, () => merged.move(at('/old'), at('/new')), 'denied', `${write}, ${putPolicy}`)
      else await merged.move(at('/old'), at('/new'))
      const expected = isRefused ? [['old'], ['old']] : renamed
      t.same(await Promise.all(both.map((driver) => namesIn(driver, '/'))), expected, `${write}, ${putPolicy}`)
    }
  }
})

await t.test('Alias: a rename or a removal that one storage refuses leaves the visible copy as it was', async (t) => {
  const { env } = await compositeTree(t, { '/one': {}, '/two': {} })
  const both = [env.tree(one), env.tree(two)] as [WritableDriver, WritableDriver]
  for (const driver of both) await put(driver, '/old', 'x')
  const refusing = async () => Promise.reject(new GatewayError('locked'))
  const second = altered(both[1], { move: refusing, remove: refusing })
  const tree = (path: string) => (path === two ? second : env.tree(asPath(path))) as TreeDriver
  const merged = await openOver({ ...env, tree }, 'x:/one\nx:/two', policies('all', 'random'))
  await refuses(t, () => merged.move(at('/old'), at('/new')), 'locked', 'rename')
  await refuses(t, () => merged.remove(at('/old')), 'locked', 'removal')
  t.same(await Promise.all(both.map((driver) => namesIn(driver, '/'))), [['old'], ['old']])
})

await t.test(
  'concurrent writers of a new file put it into the same storage, also after one of them has failed',
  async (t) => {
    const { env } = await compositeTree(t, { '/one': {}, '/two': {} })
    const merged = await openOver(env, 'x:/one\nx:/two', policies('first', 'random'))
    for (let round = 0; round < 12; round++) {
      const name = `/file-${round}`
      const { source, body } = openBody()
      const slow = merged.write(at(name), source, {})
      const failing = merged.write(at(name), sourceOf('x'), {
        beforePublish: async () => Promise.reject(new GatewayError('busy')),
      })
      await refuses(t, () => failing, 'busy', 'one writer')
      await put(merged, name, 'later')
      body.push('slow')
      body.push(null)
      await slow
    }
    const [inOne, inTwo] = [await namesIn(env.tree(one), '/'), await namesIn(env.tree(two), '/')]
    t.same(
      inOne.filter((name) => inTwo.includes(name)),
      [],
    )
  },
)

await t.test('a merged storage that lacks a method is unsupported', async (t) => {
  const { env } = await compositeTree(t, { '/one': {} })
  await put(env.tree(one), '/file', 'x')
  const lacks = async () => Promise.reject(new GatewayError('unsupported'))
  const lacking: DriverEnv = {
    ...env,
    tree: (path) => altered(env.tree(path), { mkdir: lacks, remove: lacks }) as TreeDriver,
  }
  const merged = await openOver(lacking, 'x:/one', policies('first'))
  await refuses(t, () => merged.mkdir(at('/folder')), 'unsupported', 'mkdir')
  await refuses(t, () => merged.remove(at('/file')), 'unsupported', 'remove')
})

await t.test('Alias reports a storage that does not answer instead of leaving it out', async (t) => {
  const down = async () => Promise.reject(new GatewayError('unavailable'))
  const { env } = await compositeTree(t, { '/one': {}, '/two': { over: { stat: down } } })
  const merged = await openOver(env, 'x:/one\nx:/two', policies('all'))
  await put(env.tree(one), '/file', 'x')
  await refuses(t, () => listed(merged, '/'), 'unavailable', 'listing')
  await refuses(t, () => put(merged, '/new', 'x'), 'unavailable', 'writing')
  t.equal(await textAt(merged, '/file'), 'x', 'a file of an earlier path can be read')
})

await t.test('Alias: a path that leads back to the Alias fails at once', async (t) => {
  const { tree, env } = await compositeTree(t, { '/one': {} })
  await tree.mount('/self', { driverOf: () => openOver(env, 'x:/self\nx:/one\nx:/self') })
  await refuses(t, () => listed(env.tree(asPath('/self')), '/'), 'unavailable', 'listing')
  await refuses(t, () => env.tree(asPath('/self')).stat(at('/x')), 'unavailable', 'stat')
})
