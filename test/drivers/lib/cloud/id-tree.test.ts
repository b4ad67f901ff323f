/** Paths on a backend with ids: how often it is listed, stale ids, names, and what is remembered. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { IdCache } from '../../../../drivers/lib/cloud/id-cache.js'
import { IdTree, type IdTreeOptions } from '../../../../drivers/lib/cloud/id-tree.js'
import {
  escapeName,
  itemNamed,
  shownItems,
  unescapeName,
  type IdItem,
} from '../../../../drivers/lib/cloud/shown-names.js'
import type { ChangeElsewhere } from '../../../../src/contract/driver-env.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { asPath, isListableName } from '../../../../src/base/path.js'
import { refuses } from '../../../driver-conformance/subject.js'
import { testEnv } from '../../env.js'
import { elsewhereOf, IdDrive, rootId } from '../../id-drive.js'

function item(id: string, name: string, time = 0, kind: IdItem['kind'] = 'file'): IdItem {
  return { id, name, kind, modified: new Date(time) }
}

async function opened(t: Test, cache: IdTreeOptions<IdItem>['cache'] = {}) {
  const drive = new IdDrive()
  const reports: (readonly string[])[] = []
  const tree = new IdTree<IdItem>({
    rootId,
    env: testEnv({ report: (warnings) => void reports.push(warnings) }),
    list: async function* (id) {
      yield await drive.list(id)
    },
    cache,
  })
  const a = await drive.create(rootId, 'a')
  const b = await drive.create(a.id, 'b')
  const file = await drive.create(b.id, 'file', Buffer.from('x'))
  t.equal(drive.listings, 0)
  const idOf = (path: string) => tree.with(asPath(path), async ({ id }) => id)
  return { drive, tree, reports, a, b, file, idOf }
}

await t.test('a path is walked once, and its siblings are known then', async (t) => {
  const { drive, file, a, idOf } = await opened(t)
  t.equal(await idOf('/a/b/file'), file.id)
  t.equal(drive.listings, 3)
  t.equal(await idOf('/a/b/file'), file.id)
  t.equal(await idOf('/a'), a.id)
  t.equal(await idOf('/'), rootId)
  t.equal(drive.listings, 3)
  await refuses(t, () => idOf('/a/b/none'), 'not_found', 'a missing name')
  t.equal(drive.listings, 4, 'the folder was asked')
  await refuses(t, () => idOf('/a/b/file/below'), 'not_found', 'below a file')
})

await t.test('a look-up that joins a listing sees the own changes since it began', async (t) => {
  const drive = new IdDrive()
  const gates: (() => void)[] = []
  const tree = new IdTree<IdItem>({
    rootId,
    env: testEnv(),
    list: async function* (id) {
      const nodes = await drive.list(id)
      await new Promise<void>((resolve) => gates.push(resolve))
      yield nodes
    },
  })
  const removed = await drive.create(rootId, 'removed')
  const first = tree.find(asPath('/none'))
  while (gates.length === 0) await wait(1)
  const [made, unknown] = [await drive.create(rootId, 'made'), await drive.create(rootId, 'unknown')]
  await drive.remove(removed.id)
  tree.added(asPath('/made'), made, made)
  tree.added(asPath('/unknown'), unknown)
  tree.removed(asPath('/removed'))
  const joined = Promise.all(['/made', '/removed'].map((path) => tree.look(asPath(path)).catch(() => undefined)))
  const looked = tree.look(asPath('/unknown'))
  gates[0]?.()
  t.match(await joined, [{ id: made.id, item: { name: 'made' } }, undefined])
  t.equal(await first, undefined)
  while (gates.length === 1) await wait(1)
  gates[1]?.()
  t.match(await looked, { id: unknown.id, item: { name: 'unknown' } }, 'the folder is listed once more')
  t.equal(drive.listings, 2)
})

await t.test(
  'a name that was not listed counts as absent for the time of the option, unless an own change makes it',
  async (t) => {
    const drive = new IdDrive()
    const tree = new IdTree<IdItem>({
      rootId,
      absence: 200,
      env: testEnv(),
      list: async function* (id) {
        yield await drive.list(id)
      },
    })
    const find = (name: string) => tree.look(asPath(`/${name}`)).catch(() => undefined)
    await drive.create(rootId, 'there')
    t.equal(await find('none'), undefined)
    t.equal(await find('other'), undefined)
    t.equal(drive.listings, 1, 'the first look-up has listed the folder')
    t.match(await find('there'), { item: { name: 'there' } })
    t.equal(drive.listings, 2, 'what exists is looked at')
    const own = await drive.create(rootId, 'own')
    tree.added(asPath('/own'), own, own)
    t.match(await find('own'), { id: own.id })
    tree.removed(asPath('/own'))
    await drive.create(rootId, 'foreign')
    await wait(250)
    t.match(await find('foreign'), { item: { name: 'foreign' } })
  },
)

await t.test('after a change whose outcome is not known, the folder is listed again', async (t) => {
  const { drive, tree, file, idOf } = await opened(t, {})
  t.equal(await idOf('/a/b/file'), file.id)
  await drive.remove(file.id)
  const other = await drive.create(file.parent, 'file', Buffer.from('y'))
  t.equal(await idOf('/a/b/file'), file.id, 'as it is remembered')
  tree.forget(asPath('/a/b/file'))
  t.equal(await idOf('/a/b/file'), other.id)
  const running = tree.find(asPath('/a/none'))
  tree.forget(asPath('/a/none'))
  const listings = drive.listings
  await Promise.all([running, tree.find(asPath('/a/none'))])
  t.ok(drive.listings > listings, 'a listing that was begun before is not joined')
})

/** A tree over listings that lag for so long, and a function that tells it of a change by another node. */
function onNode(lag: number) {
  const drive = new IdDrive(lag)
  let tell: (change: ChangeElsewhere) => void = () => undefined
  const tree = new IdTree<IdItem>({
    rootId,
    lag,
    env: testEnv({ onChangeElsewhere: (listener) => (tell = listener) }),
    list: async function* (id) {
      yield await drive.list(id)
    },
  })
  const idOf = (path: string) => tree.with(asPath(path), async ({ id }) => id)
  return { drive, idOf, heard: (change: ChangeElsewhere) => tell(change) }
}

await t.test('what another node has changed is forgotten, with everything below it', async (t) => {
  const { drive, idOf, heard } = onNode(0)
  const a = await drive.create(rootId, 'a')
  const b = await drive.create(a.id, 'b')
  const other = await drive.create(rootId, 'other')
  const kept = await drive.create(other.id, 'kept')
  t.same(await Promise.all(['/a/b', '/other/kept'].map(idOf)), [b.id, kept.id])
  await drive.move(a.id, rootId, 'moved')
  t.equal(await idOf('/a/b'), b.id, 'as it is remembered')
  heard({ kind: 'moved', from: asPath('/a'), path: asPath('/moved') })
  const { listings } = drive
  t.equal(await idOf('/other/kept'), kept.id)
  t.equal(drive.listings, listings, 'other paths are remembered')
  await refuses(t, () => idOf('/a/b'), 'not_found', 'the old path')
  t.equal(await idOf('/moved/b'), b.id)
  await drive.remove(a.id)
  heard({ kind: 'removed', path: asPath('/moved') })
  await refuses(t, () => idOf('/moved/b'), 'not_found', 'a removed folder')
  await drive.remove(kept.id)
  const second = await drive.create(other.id, 'kept')
  heard({ kind: 'changed', path: asPath('/') })
  t.equal(await idOf('/other/kept'), second.id, 'after a change of the root, nothing is remembered')
})

await t.test('nor is it found where listings that lag still show it', async (t) => {
  const lag = 500
  const { drive, idOf, heard } = onNode(lag)
  const a = await drive.create(rootId, 'a')
  const removed = await drive.create(rootId, 'removed')
  await wait(lag + 10)
  t.same(await Promise.all(['/a', '/removed'].map(idOf)), [a.id, removed.id])
  await drive.move(a.id, rootId, 'moved')
  await drive.remove(removed.id)
  heard({ kind: 'moved', from: asPath('/a'), path: asPath('/moved') })
  heard({ kind: 'removed', path: asPath('/removed') })
  await refuses(t, () => idOf('/a'), 'not_found', 'moved')
  await refuses(t, () => idOf('/removed'), 'not_found', 'removed')
  const [second, next] = [await drive.create(rootId, 'a'), await drive.create(rootId, 'removed')]
  heard({ kind: 'changed', path: asPath('/a') })
  heard({ kind: 'changed', path: asPath('/removed') })
  await refuses(t, () => idOf('/a'), 'not_found', 'the new one is not listed yet')
  await refuses(t, () => idOf('/removed'), 'not_found', 'the new one is not listed yet')
  await wait(lag + 10)
  t.same(await Promise.all(['/a', '/removed', '/moved'].map(idOf)), [second.id, next.id, a.id])
})

await t.test('what listings that lag have shown of a change by another node is not remembered', async (t) => {
  const lag = 500
  const { drive, idOf, heard } = onNode(lag)
  const file = await drive.create(rootId, 'file', Buffer.from('x'))
  await wait(lag + 10)
  await drive.remove(file.id)
  const second = await drive.create(rootId, 'file', Buffer.from('y'))
  heard({ kind: 'changed', path: asPath('/file') })
  t.equal(await idOf('/file'), file.id, 'as it is listed')
  await wait(lag + 10)
  t.equal(await idOf('/file'), second.id)
})

await t.test('concurrent look-ups share the listings', async (t) => {
  const { drive, file, idOf } = await opened(t)
  const ids = await Promise.all(Array.from({ length: 20 }, () => idOf('/a/b/file')))
  t.same(new Set(ids), new Set([file.id]))
  t.equal(drive.listings, 3)
})

await t.test('a stale id is tried once more, with the id that the path has now', async (t) => {
  const { drive, tree, idOf } = await opened(t)
  await idOf('/a/b/file')
  await elsewhereOf(drive).replaceFolder('/a', { 'b/file': 'new' })
  const ids: string[] = []
  const content = await tree.with(asPath('/a/b/file'), async ({ id }) => {
    ids.push(id)
    return (await drive.content(id)).toString()
  })
  t.equal(content, 'new')
  t.equal(ids.length, 2)
  let calls = 0
  const never = async () => {
    calls++
    throw new GatewayError('not_found')
  }
  await refuses(t, () => tree.with(asPath('/a/b/file'), never), 'not_found', 'an id that is right')
  t.equal(calls, 1, 'the same id is not tried twice')
})

await t.test('own changes are known at once, and a listing from before them is not remembered', async (t) => {
  const { drive, tree, a, b, idOf } = await opened(t)
  await idOf('/a/b/file')
  const { listings } = drive
  tree.added(asPath('/a/new'), { id: 'new', kind: 'file' })
  tree.moved(asPath('/a/b'), asPath('/moved'))
  await drive.move(b.id, rootId, 'moved')
  t.equal(await idOf('/a/new'), 'new')
  t.equal(await idOf('/moved'), b.id)
  t.ok(await idOf('/moved/file'))
  t.equal(drive.listings, listings)
  await refuses(t, () => idOf('/a/b/file'), 'not_found', 'the old path')
  const walking = idOf('/a/none').catch(() => undefined)
  await drive.remove(a.id)
  tree.removed(asPath('/a'))
  await walking
  await refuses(t, () => idOf('/a/new'), 'not_found', 'below a removed folder')
})

await t.test('a listing that lags does not hide own changes', async (t) => {
  const drive = new IdDrive(1000)
  const tree = new IdTree<IdItem>({
    rootId,
    lag: 3000,
    env: testEnv(),
    list: async function* (id) {
      yield await drive.list(id)
    },
  })
  const idOf = (path: string) => tree.with(asPath(path), async ({ id }) => id)
  const a = await drive.create(rootId, 'a')
  tree.added(asPath('/a'), a)
  const file = await drive.create(a.id, 'file', Buffer.from('x'))
  tree.added(asPath('/a/file'), file)
  for await (const page of tree.pages(asPath('/a'))) t.same(page, [], 'the listing lags')
  t.equal(await idOf('/a/file'), file.id)
  t.notOk(await tree.isEmpty(asPath('/a')))
  await drive.move(a.id, rootId, 'b')
  tree.moved(asPath('/a'), asPath('/b'))
  t.equal(await idOf('/b/file'), file.id)
  await refuses(t, () => idOf('/a'), 'not_found', 'moved')
  await drive.remove(file.id)
  tree.removed(asPath('/b/file'))
  await refuses(t, () => idOf('/b/file'), 'not_found', 'removed')
  t.ok(await tree.isEmpty(asPath('/b')))
  await wait(3050)
  t.equal(await idOf('/b'), a.id)
  await refuses(t, () => idOf('/a'), 'not_found', 'later')
})

await t.test('names that several entries have are reported until they are gone', async (t) => {
  const { drive, tree, b, reports, idOf } = await opened(t)
  const second = await drive.create(b.id, 'file', Buffer.from('y'))
  t.equal(await idOf('/a/b/file'), second.id, 'the newest')
  t.match(reports.at(-1)?.join(), /\/a\/b.*"file"/)
  await drive.remove(second.id)
  for await (const page of tree.pages(asPath('/a/b'))) t.equal(page.length, 1)
  t.same(reports.at(-1), [])
})

await t.test('what is remembered is bounded, and forgotten with time', async (t) => {
  const { drive, idOf, b } = await opened(t, { maxAge: 0 })
  await idOf('/a/b/file')
  await idOf('/a/b/file')
  t.equal(drive.listings, 6, 'too old at once')
  const cache = new IdCache({ id: rootId, kind: 'folder' }, { limit: 10 })
  for (let index = 0; index < 100; index++) cache.set(asPath(`/folder-${index % 7}/${index}`), b)
  t.ok(cache.size <= 10)
  cache.setMembers(
    asPath('/large'),
    Array.from({ length: 50 }, (_, index) => [String(index), b] as const),
  )
  t.equal(cache.size, 10)
  cache.set(asPath('/large/wanted'), b)
  t.ok(cache.get(asPath('/large/wanted')), 'the last one is known')
  t.ok(cache.size <= 10)
  cache.drop(asPath('/'))
  t.equal(cache.size, 0)
})

await t.test('every name has a form that a path can hold, and is found again by it', async (t) => {
  const names = [
    '',
    '.',
    '..',
    '...',
    'a/b',
    '/',
    '\\',
    'a\0',
    '\ufffd',
    '\ud800',
    'x\udc00y',
    '😀',
    'ä',
    ' ',
    '.a',
    'a.',
  ]
  const escapes = [
    '\u201b',
    '\u201b;',
    '\u201b2f;',
    '\u201b201b;2f;',
    '\u201b2e;',
    '\u201b2e;.',
    '\u201b41;',
    'x\u201b;',
  ]
  for (const name of [...names, ...escapes]) {
    const shown = escapeName(name)
    t.ok(isListableName(shown), JSON.stringify(shown))
    t.equal(unescapeName(shown), name)
  }
  t.equal(new Set([...names, ...escapes].map(escapeName)).size, names.length + escapes.length, 'they differ')
  for (const plain of ['a.txt', 'ä', '😀', '\u201b41;', 'a\u201b']) t.equal(escapeName(plain), plain)
  t.throws(() => unescapeName('\u201bd83d;\u201bde00;'), { code: 'invalid' }, 'no name is shown like this')
})

await t.test('entries of one name differ by their ids, whatever their order', async (t) => {
  const items = [
    item('1', 'a.txt', 5),
    item('2', 'a.txt', 9),
    item('3', 'a.txt', 9),
    item('4', 'b'),
    item('5', 'a', 1, 'folder'),
  ]
  const shown = shownItems(items)
  t.equal(shown.get('a.txt')?.id, '3', 'the newest, and of equal ones always the same')
  t.same([...shown.keys()].sort(), [...shownItems(items.toReversed()).keys()].sort())
  t.equal(shown.size, items.length)
  for (const [name, found] of shown) {
    t.equal(itemNamed(shown, items, name), found)
    t.equal(itemNamed(shownItems([found]), [found], name), found, 'also when it is the only one')
  }
  const [name = ''] = [...shown].find(([, { id }]) => id === '1') ?? []
  t.match(name, /^a~[0-9a-f]{8}\.txt$/)
  const imposter = item('6', name)
  const more = shownItems([...items, imposter])
  t.equal(more.get(name), imposter, 'a real name wins')
  t.equal(more.size, 6)
})

await t.test('names that are too long are cut, and keep their extension', async (t) => {
  const long = ['ä'.repeat(200), `${'x'.repeat(300)}.tar`, `${'y'.repeat(300)}.tar`, '/'.repeat(100)].map(
    (name, index) => item(String(index), name),
  )
  const shown = shownItems(long)
  t.equal(shown.size, long.length)
  for (const [name, { name: full }] of shown) {
    t.ok(Buffer.byteLength(name) <= 255, name)
    if (full.endsWith('.tar')) t.match(name, /^x+~[0-9a-f]{8}\.tar$|^y+~[0-9a-f]{8}\.tar$/)
  }
})

await t.test('an entry that was moved away or replaced is not shown where a listing that lags has it', async (t) => {
  const folders: Record<string, readonly IdItem[]> = {
    [rootId]: [item('f', 'folder', 0, 'folder'), item('g', 'other', 0, 'folder')],
    f: [item('1', 'file'), item('2', 'old')],
    g: [],
  }
  const lag = 500
  const tree = new IdTree<IdItem>({
    rootId,
    lag,
    env: testEnv(),
    list: async function* (id) {
      yield folders[id] ?? []
    },
  })
  const names = async (path: string) => {
    const found: string[] = []
    for await (const page of tree.pages(asPath(path))) found.push(...page.map(({ name }) => name))
    return found.sort()
  }
  t.same(await names('/folder'), ['file', 'old'])
  tree.moved(asPath('/folder/file'), asPath('/other/moved'))
  t.same(await names('/folder'), ['old'])
  // The vendor renames and moves in two steps.
  folders.f = [item('1', 'moved'), item('2', 'old')]
  t.same(await names('/folder'), ['old'])
  await refuses(t, () => tree.look(asPath('/folder/moved')), 'not_found', 'the name in between')
  folders.g = [item('1', 'kept')]
  t.same(await names('/other'), ['moved'], 'not by the name in between')
  folders.g = []
  tree.added(asPath('/folder/old'), { id: '3', kind: 'file' })
  folders.f = [item('1', 'moved'), item('2', 'old'), item('3', 'old', 1)]
  t.same(await names('/folder'), ['old'], 'the new one only')
  tree.moved(asPath('/folder'), asPath('/renamed'))
  folders[rootId] = [item('f', 'renamed', 0, 'folder'), item('g', 'other', 0, 'folder')]
  t.same(await names('/renamed'), ['old'], 'also if the folder was moved meanwhile')
  await wait(lag + 10)
  t.same((await names('/renamed')).length, 3, 'later, the backend is believed')
})
