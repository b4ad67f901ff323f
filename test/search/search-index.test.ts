/** The index by itself, on every engine: every way to answer a query returns the same result. */
import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Principal } from '../../src/accounts/principal.js'
import { asPath, childOf, isWithin, nameOf, parentOf, type Path } from '../../src/base/path.js'
import { foldName, searchWords } from '../../src/base/folding.js'
import { firstPosition } from '../../src/database/search/names-reader.js'
import type { IndexedName } from '../../src/database/search/names.js'
import { openSearchIndex, type SearchIndex } from '../../src/database/search/search-index.js'
import { Mounts } from '../../src/mounts/mounts.js'
import { Decisions } from '../../src/tree/decisions.js'
import { findNames, VisibleNames, type SearchOptions, type SearchLimits } from '../../src/tree/search-results.js'
import type { Grants } from '../../src/tree/grants.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { principal } from '../accounts/principals.js'
import { ruleRow } from '../database/store-rows.js'
import { newStore, type Test } from '../tree/tree-fixture.js'
import { onEveryEngine } from './index-engines.js'

const count = 40_000

/** Names of few letters, so many of them that words that occur in all are not compared one by one. */
function* manyNames(): Generator<IndexedName> {
  const letters = 'abcdeABCDE_% é'
  for (let at = 0; at < count; at++) {
    let number = (at * 2654435761) % 4294967296
    let text = ''
    while (text.length < 6) {
      text += letters[number % letters.length] ?? ''
      number = Math.floor(number / letters.length) + at
    }
    const parent = asPath(`/f${at % 7}/sub ${at % 11}/${at % 3 === 0 ? 'deep' : 'flat'}`)
    yield { parent, name: `${text} common ${at}`, kind: at % 5 === 0 ? 'folder' : 'file', size: at }
  }
}

/** No time limits: these tests compare results, on a machine that may be busy. */
const endless = { counting: 60_000, page: 60_000 }

const all = [...manyNames()]

async function opened(t: Test, openIndex: () => Promise<SearchIndex>): Promise<SearchIndex> {
  const index = await openIndex()
  t.teardown(() => index.close())
  return index
}

async function filled(t: Test, openIndex: () => Promise<SearchIndex>): Promise<SearchIndex> {
  const index = await opened(t, openIndex)
  for (let at = 0; at < all.length; at += 2000) await index.writer.put(all.slice(at, at + 2000))
  return index
}

/** What the rules show of a tree without storages. */
function visibleTo(rules: Rules, who: Principal, password?: string): VisibleNames {
  const grants = { at: () => undefined } as Partial<Grants> as Grants
  const dependencies = {
    rules,
    grants,
    mounts: new Mounts(),
    settings: { bool: () => false },
    isBaseFolder: () => false,
  }
  return new VisibleNames(rules, new Decisions(dependencies, who), who.base, password)
}

const path = ({ parent, name }: IndexedName): Path => childOf(parent, name)

/** All names in the order of results, with what queries compare. */
const inOrder = all
  .map((entry) => ({ entry, at: path(entry), folded: foldName(entry.name), bytes: Buffer.from(entry.name) }))
  .sort((one, other) => Buffer.compare(one.bytes, other.bytes))

function expected(keywords: string, below: string, isSeen: (path: Path) => boolean = () => true): IndexedName[] {
  const words = searchWords(keywords)
  return inOrder
    .filter(
      ({ entry, folded }) => isWithin(asPath(below), entry.parent) && words.every((word) => folded.includes(word)),
    )
    .filter(({ at }) => isSeen(at))
    .map(({ entry }) => entry)
}

const ask = (keywords: string, fields: Partial<SearchOptions> = {}): SearchOptions => ({
  keywords,
  kind: 'any',
  offset: 0,
  limit: 100,
  ...fields,
})

onEveryEngine('many names', async (t, openIndex) => {
  const index = await filled(t, openIndex)

  await t.test(
    'every query returns all matching names in the same order, whatever the words, the folder and the number of hits',
    async (t) => {
      const rules = await Rules.load(await newStore(t))
      t.equal(await index.writer.count(), count)
      const visible = () => visibleTo(rules, principal())
      for (const [keywords, below] of [
        ['common', '/'],
        ['COMMON', '/f3'],
        ['common', '/f3/sub 4'],
        ['common 123', '/'],
        ['39999', '/'],
        ['a', '/'],
        ['é', '/f1'],
        ['%', '/'],
        ['_ %', '/'],
        ['ab', '/'],
        ['bad', '/f2/sub 5'],
        ['common é', '/f'],
        ['zz', '/'],
        ['z', '/'],
        ['ommon ommo com', '/'],
      ] as const) {
        const want = expected(keywords, below)
        for (const offset of [0, 150, 12_345]) {
          const { names, total } = await findNames(
            index.reader,
            visible(),
            asPath(below),
            ask(keywords, { offset }),
            endless,
          )
          t.equal(total, want.length, `${keywords} below ${below}: total`)
          t.same(
            names.map(path),
            want.slice(offset, offset + 100).map(path),
            `${keywords} below ${below} from ${offset}`,
          )
        }
      }
      const { total } = await findNames(
        index.reader,
        visible(),
        asPath('/'),
        ask('common', { kind: 'folders' }),
        endless,
      )
      t.equal(total, count / 5)
      t.equal(
        (await findNames(index.reader, visible(), asPath('/'), ask('common', { kind: 'files' }), endless)).total,
        (count / 5) * 4,
      )
    },
  )

  await t.test('names that rules close or hide are neither returned nor counted', async (t) => {
    const rules = await Rules.load(await newStore(t))
    const who: Principal = principal({ may: [] })
    const search = async (fields: Partial<SearchOptions> = {}, password?: string) =>
      findNames(
        index.reader,
        visibleTo(rules, who, password),
        asPath('/'),
        ask('common', { limit: 50, ...fields }),
        endless,
      )
    const compare = async (text: string, isSeen: (path: Path) => boolean, password?: string) => {
      const want = expected('common', '/', isSeen)
      for (const offset of [0, 7000]) {
        const { names, total } = await search({ offset }, password)
        t.equal(total, want.length, `${text}: total`)
        t.same(names.map(path), want.slice(offset, offset + 50).map(path), text)
      }
    }
    const closed = (folder: string, except?: string) => (path: Path) =>
      !isWithin(asPath(folder), parentOf(path)) || (except !== undefined && isWithin(asPath(except), parentOf(path)))

    await rules.create(ruleRow({ path: asPath('/f1'), password: 'p', passwordSub: true }))
    await compare('a password', closed('/f1'))
    await compare('the right password', () => true, 'p')
    await rules.create(ruleRow({ path: asPath('/f1/sub 3'), readme: 'open' }))
    await compare('a nearer rule without one', closed('/f1', '/f1/sub 3'))
    await rules.create(ruleRow({ path: asPath('/f2'), readUsers: [who.userId + 1] }))
    await rules.create(ruleRow({ path: asPath('/f2/sub 1'), readme: 'no way in' }))
    const seen = (path: Path) => closed('/f1', '/f1/sub 3')(path) && closed('/f2')(path)
    await compare('other people’s', seen)
    await rules.create(ruleRow({ path: asPath('/f4'), hide: '^[a-c]', hideSub: true }))
    await compare('hidden names', (path) => seen(path) && !/^\/f4\/.*\/[a-c][^/]*$/.test(path))
    // More rules than one query can hold.
    for (let at = 0; at < 60; at++) {
      await rules.create(ruleRow({ path: asPath(`/f5/sub 2/flat/nowhere ${at}`), password: 'p' }))
    }
    await compare('many rules', (path) => seen(path) && !/^\/f4\/.*\/[a-c][^/]*$/.test(path))
  })

  await t.test(
    'when counting exceeds its time limit, the page is complete and the total is a lower bound',
    async (t) => {
      const rules = await Rules.load(await newStore(t))
      await rules.create(ruleRow({ path: asPath('/'), hide: '^[a-c]', hideSub: true }))
      const search = (offset: number, limits: SearchLimits) =>
        findNames(
          index.reader,
          visibleTo(rules, principal({ may: [] })),
          asPath('/'),
          ask('common', { offset }),
          limits,
        )
      const want = expected('common', '/', (at) => !/\/[a-c][^/]*$/.test(at))
      const { names, total } = await search(3000, { counting: 0, page: 60_000 })
      t.same(names.map(path), want.slice(3000, 3100).map(path))
      t.ok(total > 3100 && total < want.length, `${total} of ${want.length}`)
      t.match(await search(30_000, { counting: 0, page: 0 }), { names: [], total: Number })
    },
  )
})

onEveryEngine('a move that fails leaves the names at its target unchanged', async (t, openIndex, { refuseUpdates }) => {
  const { writer } = await opened(t, openIndex)
  await writer.put([
    { parent: asPath('/'), name: 'from', kind: 'file', size: 1 },
    { parent: asPath('/'), name: 'to', kind: 'folder', size: 0 },
    { parent: asPath('/to'), name: 'inner', kind: 'file', size: 2 },
  ])
  await refuseUpdates(true)
  await t.rejects(writer.move(asPath('/from'), asPath('/to')))
  await refuseUpdates(false)
  t.equal(await writer.count(), 3)
  t.equal(await writer.kindOf(asPath('/to/inner')), 'file')
  t.equal(await writer.move(asPath('/from'), asPath('/to')), true)
  t.equal(await writer.count(), 1)
})

onEveryEngine('moving and removing a tree does not affect names with a common prefix', async (t, openIndex) => {
  const index = await opened(t, openIndex)
  const { writer } = index
  const names = async () => (await few(index, 'x')).map(path).sort()
  await writer.put(['/a', '/a%', '/a_', '/a-', '/a0', '/A'].map((at) => entry(at, 'folder')))
  await writer.put(
    ['/a/x1', '/a/b/x2', '/a%/x3', '/a_/x4', '/a-/x5', '/a0/x6', '/A/x7', '/a/\u{10ffff}/x8'].map((at) => entry(at)),
  )
  t.equal(await writer.move(asPath('/a'), asPath('/new')), true)
  t.same(
    await names(),
    ['/A/x7', '/a%/x3', '/a-/x5', '/a0/x6', '/a_/x4', '/new/b/x2', '/new/x1', '/new/\u{10ffff}/x8'].sort(),
  )
  t.equal(await writer.move(asPath('/nothing'), asPath('/a%')), false)
  await writer.put([entry('/b', 'folder'), entry('/b/x9')])
  t.equal(await writer.move(asPath('/b'), asPath('/new')), true, 'onto another tree')
  t.same(await names(), ['/A/x7', '/a-/x5', '/a0/x6', '/a_/x4', '/new/x9'])
  await writer.put([entry('/new/k', 'folder'), entry('/new/k/x10'), entry('/new/k0/x11'), entry('/new/k/m/x12')])
  await writer.remove(asPath('/new'), [asPath('/new/k/m')])
  t.same(await names(), ['/A/x7', '/a-/x5', '/a0/x6', '/a_/x4', '/new/k/m/x12'])
  await writer.remove(asPath('/'))
  t.equal(await writer.count(), 0)
})

/** The entry at a path. */
function entry(at: string, kind: IndexedName['kind'] = 'file', size = 1): IndexedName {
  const full = asPath(at)
  return { parent: parentOf(full), name: nameOf(full), kind, size }
}

async function few({ reader }: SearchIndex, ...words: string[]): Promise<readonly IndexedName[]> {
  const names = await reader.allIfFew({ words, kind: 'any', below: asPath('/'), excluded: [] })
  if (names === undefined) throw new Error('many candidates')
  return names
}

onEveryEngine('the words of a search are literal, of any length and in any script', async (t, openIndex) => {
  const index = await opened(t, openIndex)
  const names = [
    ...[
      "it's",
      "O''Neil",
      "'",
      'back\\slash',
      '\\',
      "\\'",
      'a:*b',
      '*',
      'a & b | !c',
      '(<->)',
      '100%',
      '_',
      '"quoted"',
      '$1 ?',
    ],
    ...[
      '潮',
      '潮汐',
      '潮汐表',
      '山水潮',
      '\u{1f30a}',
      '\u{1f30a}\u{1f30a}x',
      'Ελλάς',
      'ΕΛΛΑΣ',
      'İstanbul',
      'e\u0301',
      'É',
      'straße',
    ],
    ...['ab', 'ba', 'aab', 'x'.repeat(255), '\u{10ffff}'],
  ].map((name): IndexedName => ({ parent: asPath('/'), name, kind: 'file', size: 1 }))
  await index.writer.put(names)
  const words = new Set<string>()
  for (const { name } of names) {
    const characters = Array.from(foldName(name)).slice(0, 12)
    for (const [start] of characters.entries()) {
      for (const length of [1, 2, 3, 4]) words.add(characters.slice(start, start + length).join(''))
    }
  }
  for (const word of [...words].filter((each) => !/\s/.test(each))) {
    const want = names.filter(({ name }) => foldName(name).includes(word)).map(({ name }) => name)
    const found = await few(index, word)
    t.same(found.map(({ name }) => name).sort(), want.sort(), JSON.stringify(word))
  }
  t.same((await few(index, 'x', 'xx', 'xxx')).length, 1)
})

onEveryEngine('names are ordered by their bytes, equal names by their age', async (t, openIndex) => {
  const index = await opened(t, openIndex)
  const { writer, reader } = index
  const names = [
    'xa',
    'xB',
    'xä',
    'x-b',
    'x b',
    'x_',
    'X',
    'x\uffff',
    'x\u{10000}',
    'x1',
    'x10',
    'x2',
    'xA',
    'xz',
    'xé',
  ].flatMap((name) => ['/b', '/a', '/c/d'].map((parent) => entry(`${parent}/${name}`)))
  await writer.put(names)
  const want = names
    .map((name, age) => ({ name, age }))
    .sort(
      (one, other) => Buffer.compare(Buffer.from(one.name.name), Buffer.from(other.name.name)) || one.age - other.age,
    )
    .map(({ name }) => path(name))
  t.same((await few(index, 'x')).map(path), want)
  const query = { words: ['x'], kind: 'any', below: asPath('/'), excluded: [] } as const
  const ranges: Path[] = []
  for (let from = firstPosition; ;) {
    const to = await reader.rangeEnd(from, 4)
    const found = await reader.namesIn(query, { from, to })
    t.equal(await reader.countIn(query, { from, to }), found.length)
    ranges.push(...found.map(path))
    if (!to) break
    from = to
  }
  t.same(ranges, want)
  await writer.put([entry('/folders', 'folder')])
  const folders = ['b', 'B', 'ä', 'a', 'c-', 'c', '\u{10000}', '\uffff'].map((name) =>
    entry(`/folders/${name}`, 'folder'),
  )
  await writer.put([...folders, entry('/folders/file'), entry('/folders/link', 'symlink to folder')])
  const sorted = folders.map(path).sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  t.same(await writer.subfolders(asPath('/folders'), '', 3), sorted.slice(0, 3))
  t.same(await writer.subfolders(asPath('/folders'), nameOf(sorted[2] ?? asPath('/')), 99), sorted.slice(3))
})

onEveryEngine('a complete listing replaces the entries of its folder in one step', async (t, openIndex) => {
  const index = await opened(t, openIndex)
  const { writer } = index
  await writer.put(['/f', '/f/old', '/f/old/deep', '/f/kept', '/g'].map((at) => entry(at, 'folder')))
  await writer.put(['/f/old/x1', '/f/old/deep/x2', '/f/x3', '/f/gone x', '/f/kept/x5', '/g/x4'].map((at) => entry(at)))
  await writer.put([entry('/f/x link', 'symlink to folder')])
  await writer.beginListing()
  await writer.stage([
    entry('/f/x3', 'file', 2),
    entry('/f/new x', 'folder'),
    entry('/f/old'),
    entry('/f/kept', 'folder'),
  ])
  await writer.stage([entry('/f/new x'), entry('/f/x6', 'file', -1), entry('/g/x7')])
  await writer.markComplete([asPath('/f'), asPath('/f')])
  t.same(await few(index, 'gone'), [entry('/f/gone x')], 'not yet')
  t.same(await writer.applyStaged({ tellNew: true }), ['/f/new x'])
  t.same(await few(index, 'x'), [
    entry('/f/new x', 'folder', 0),
    entry('/f/x3', 'file', 2),
    entry('/g/x4'),
    entry('/f/kept/x5'),
    entry('/f/x6', 'file', 0),
    entry('/g/x7'),
  ])
  t.equal(await writer.kindOf(asPath('/f/old')), 'file')
  t.equal(await writer.kindOf(asPath('/f/kept')), 'folder')
  t.equal(await writer.kindOf(asPath('/f/nothing')), undefined)
  await writer.beginListing()
  await writer.stage([entry('/f/another', 'folder')])
  t.same(await writer.applyStaged({ tellNew: false }), [])
  t.equal(await writer.count(), 11, 'without a complete folder, nothing is removed')
  await writer.put([entry('/f/x3', 'file', 3), entry('/f/x3', 'folder'), entry('/f/x3', 'file', 4)])
  t.same(await few(index, 'x3'), [entry('/f/x3', 'file', 4)], 'the last one of equal names')
})

onEveryEngine('paths and names of any length are indexed', async (t, openIndex) => {
  const index = await opened(t, openIndex)
  const { writer } = index
  // Characters of four bytes. They do not repeat, so that no compression helps.
  const random = (characters: number) =>
    Array.from({ length: characters }, () => String.fromCodePoint(0x20000 + Math.floor(Math.random() * 40_000))).join(
      '',
    )
  const deep = `/${Array.from({ length: 15 }, () => random(65)).join('/')}`
  const stem = random(950)
  const long = [`${stem}b`, `${stem}a`, `${stem}${random(20)}`, random(600), random(601)].map((name) => `/long/${name}`)
  await writer.put([...long.map((at) => entry(at, 'folder')), entry(`${deep}/x1`), entry(`${deep}/x2`)])
  t.equal(await writer.count(), long.length + 2)
  t.equal(await writer.deepest(asPath('/')), 16)
  t.equal(await writer.deepest(asPath('/nothing/here')), 2)
  for (const at of long) {
    t.equal(await writer.kindOf(asPath(at)), 'folder')
    t.same((await few(index, Array.from(at).slice(-3).join(''))).map(path), [at])
  }
  const sorted = long.slice(0, 3).sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  t.same((await few(index, stem)).map(path), sorted)
  const folders = await writer.subfolders(asPath('/long'), '', 99)
  t.same(
    folders,
    [...folders].sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
  )
  t.same(await writer.subfolders(asPath('/long'), nameOf(folders[2] ?? asPath('/')), 99), folders.slice(3))
  await writer.beginListing()
  await writer.stage(long.slice(1).map((at) => entry(at, 'folder')))
  await writer.markComplete([asPath('/long')])
  await writer.applyStaged({ tellNew: false })
  t.equal(await writer.kindOf(asPath(long[0] ?? '')), undefined)
  t.equal(await writer.move(asPath(deep), asPath('/x')), false, 'the folder itself is not indexed')
  t.equal(await writer.move(asPath(`${deep}/x1`), asPath(long[1] ?? '')), true)
  t.equal(await writer.kindOf(asPath(long[1] ?? '')), 'file')
  await writer.remove(asPath(long[2] ?? ''))
  await writer.remove(asPath(parentOf(asPath(deep))))
  t.same((await few(index, 'x')).map(path), [])
  t.equal(await writer.count(), 3)
})

void t.test('the index file is private, and a corrupt file or one of another version is created anew', async (t) => {
  const file = join(t.testdir(), 'search.db')
  await writeFile(file, 'this is no database, and it is longer than its head would be'.repeat(100))
  let index = await openSearchIndex(file)
  t.equal((await stat(file)).mode & 0o777, 0o600)
  t.equal(await index.writer.extent(), 'nothing')
  await index.writer.put([{ parent: asPath('/'), name: 'x', kind: 'file', size: 1 }])
  await index.writer.setExtent('whole')
  await index.writer.setPendingScans([asPath('/later')])
  await index.close()
  index = await openSearchIndex(file)
  t.equal(await index.writer.count(), 1)
  t.equal(await index.writer.extent(), 'whole')
  t.same(await index.writer.pendingScans(), ['/later'])
  await index.writer.clear()
  t.equal(await index.writer.extent(), 'nothing')
  t.equal(await index.writer.count(), 0)
  await index.close()
  await t.rejects(openSearchIndex(join(t.testdir(), 'no', 'folder', 'search.db')), { code: 'unavailable' })
})
