/** The index file by itself: every way to answer a query returns the same result. */
import { stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import knex from 'knex'
import t from 'tap'
import type { Principal } from '../../src/accounts/principal.js'
import { asPath, childOf, isWithin, parentOf, type Path } from '../../src/contract/path.js'
import { foldName, searchWords } from '../../src/store/search/folding.js'
import type { IndexedName } from '../../src/store/search/names.js'
import { openSearchIndex, type SearchIndex } from '../../src/store/search/search-index.js'
import { findNames, type SearchOptions, type SearchLimits } from '../../src/tree/finding.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { VisibleNames } from '../../src/tree/visible-names.js'
import { principal } from '../accounts/principals.js'
import { ruleRow } from '../store/store-rows.js'
import { newStore, type Test } from '../tree/tree-fixture.js'

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

let files = 0
async function newIndex(t: Test): Promise<SearchIndex> {
  const index = await openSearchIndex(join(t.testdir(), `search-${files++}.db`))
  t.teardown(() => index.close())
  return index
}

async function fill({ writer }: SearchIndex): Promise<void> {
  for (let at = 0; at < all.length; at += 2000) await writer.put(all.slice(at, at + 2000))
}

const path = ({ parent, name }: IndexedName): Path => childOf(parent, name)

function expected(keywords: string, below: string, isSeen: (path: Path) => boolean = () => true): IndexedName[] {
  const words = searchWords(keywords)
  return all
    .filter(
      ({ parent, name }) => isWithin(asPath(below), parent) && words.every((word) => foldName(name).includes(word)),
    )
    .filter((each) => isSeen(path(each)))
    .sort((one, other) => Buffer.compare(Buffer.from(one.name), Buffer.from(other.name)))
}

const ask = (keywords: string, fields: Partial<SearchOptions> = {}): SearchOptions => ({
  keywords,
  kind: 'any',
  offset: 0,
  limit: 100,
  ...fields,
})

void t.test(
  'every query returns all matching names in the same order, whatever the words, the folder and the number of hits',
  async (t) => {
    // newStore() empties the folder of the test.
    const rules = await Rules.load(await newStore(t))
    const index = await newIndex(t)
    await fill(index)
    t.equal(await index.writer.count(), count)
    const visible = () => new VisibleNames(rules, principal(), undefined)
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
        t.same(names.map(path), want.slice(offset, offset + 100).map(path), `${keywords} below ${below} from ${offset}`)
      }
    }
    const { total } = await findNames(index.reader, visible(), asPath('/'), ask('common', { kind: 'folders' }), endless)
    t.equal(total, count / 5)
    t.equal(
      (await findNames(index.reader, visible(), asPath('/'), ask('common', { kind: 'files' }), endless)).total,
      (count / 5) * 4,
    )
  },
)

void t.test('names that rules close or hide are neither returned nor counted', async (t) => {
  const rules = await Rules.load(await newStore(t))
  const index = await newIndex(t)
  await fill(index)
  const who: Principal = principal({ may: [] })
  const search = async (fields: Partial<SearchOptions> = {}, password?: string) =>
    findNames(
      index.reader,
      new VisibleNames(rules, who, password),
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

void t.test('when counting exceeds its time limit, the page is complete and the total is a lower bound', async (t) => {
  const rules = await Rules.load(await newStore(t))
  await rules.create(ruleRow({ path: asPath('/'), hide: '^[a-c]', hideSub: true }))
  const index = await newIndex(t)
  await fill(index)
  const search = (offset: number, limits: SearchLimits) =>
    findNames(
      index.reader,
      new VisibleNames(rules, principal({ may: [] }), undefined),
      asPath('/'),
      ask('common', { offset }),
      limits,
    )
  const want = expected('common', '/', (at) => !/\/[a-c][^/]*$/.test(at))
  const { names, total } = await search(3000, { counting: 0, page: 60_000 })
  t.same(names.map(path), want.slice(3000, 3100).map(path))
  t.ok(total > 3100 && total < want.length, `${total} of ${want.length}`)
  t.match(await search(30_000, { counting: 0, page: 0 }), { names: [], total: Number })
})

void t.test('a move that fails leaves the names at its target unchanged', async (t) => {
  const file = join(t.testdir(), 'failing.db')
  const index = await openSearchIndex(file)
  const { writer } = index
  t.teardown(() => index.close())
  await writer.put([
    { parent: asPath('/'), name: 'from', kind: 'file', size: 1 },
    { parent: asPath('/'), name: 'to', kind: 'folder', size: 0 },
    { parent: asPath('/to'), name: 'inner', kind: 'file', size: 2 },
  ])
  const other = knex({ client: 'sqlite3', connection: { filename: file }, useNullAsDefault: true })
  await other.raw("create trigger refused before update on names begin select raise(abort, 'refused'); end")
  await t.rejects(writer.move(asPath('/from'), asPath('/to')))
  await other.raw('drop trigger refused')
  await other.destroy()
  t.equal(await writer.count(), 3)
  t.equal(await writer.kindOf(asPath('/to/inner')), 'file')
  t.equal(await writer.move(asPath('/from'), asPath('/to')), true)
  t.equal(await writer.count(), 1)
})

void t.test('moving and removing a tree does not affect names with a common prefix', async (t) => {
  const { writer, reader } = await newIndex(t)
  const name = (at: string, kind: IndexedName['kind'] = 'file'): IndexedName => {
    const full = asPath(at)
    return { parent: parentOf(full), name: full.slice(full.lastIndexOf('/') + 1), kind, size: 1 }
  }
  const names = async () => {
    const query = { words: ['x'], kind: 'any', below: asPath('/'), excluded: [] } as const
    return ((await reader.allIfFew(query)) ?? []).map(path).sort()
  }
  await writer.put(['/a', '/a%', '/a_', '/a-', '/a0', '/A'].map((at) => name(at, 'folder')))
  await writer.put(
    ['/a/x1', '/a/b/x2', '/a%/x3', '/a_/x4', '/a-/x5', '/a0/x6', '/A/x7', '/a/\u{10ffff}/x8'].map((at) => name(at)),
  )
  t.equal(await writer.move(asPath('/a'), asPath('/new')), true)
  t.same(
    await names(),
    ['/A/x7', '/a%/x3', '/a-/x5', '/a0/x6', '/a_/x4', '/new/b/x2', '/new/x1', '/new/\u{10ffff}/x8'].sort(),
  )
  t.equal(await writer.move(asPath('/nothing'), asPath('/a%')), false)
  await writer.put([name('/b', 'folder'), name('/b/x9')])
  t.equal(await writer.move(asPath('/b'), asPath('/new')), true, 'onto another tree')
  t.same(await names(), ['/A/x7', '/a-/x5', '/a0/x6', '/a_/x4', '/new/x9'])
  await writer.put([name('/new/k', 'folder'), name('/new/k/x10'), name('/new/k0/x11'), name('/new/k/m/x12')])
  await writer.remove(asPath('/new'), [asPath('/new/k/m')])
  t.same(await names(), ['/A/x7', '/a-/x5', '/a0/x6', '/a_/x4', '/new/k/m/x12'])
  await writer.remove(asPath('/'))
  t.equal(await writer.count(), 0)
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
