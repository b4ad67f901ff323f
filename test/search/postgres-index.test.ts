/** What is particular to the search index in PostgreSQL: several processes, lost connections, versions. */
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { asPath, childOf } from '../../src/base/path.js'
import type { IndexedName } from '../../src/database/search/names.js'
import { openPostgresSearchIndex, type SearchIndex } from '../../src/database/search/search-index.js'
import { thisServer } from '../database/engines.js'
import { lacksPostgres } from './index-engines.js'

const skip = lacksPostgres

const file = (name: string, size = 1): IndexedName => ({ parent: asPath('/f'), name, kind: 'file', size })

async function found({ reader }: SearchIndex, word: string): Promise<readonly string[]> {
  const names = await reader.allIfFew({ words: [word], kind: 'any', below: asPath('/'), excluded: [] })
  return (names ?? []).map(({ parent, name }) => childOf(parent, name))
}

async function opened(t: Test, url: string): Promise<SearchIndex> {
  const index = await openPostgresSearchIndex({ connectionString: url })
  t.teardown(() => index.close())
  return index
}

async function connected(t: Test, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

void t.test('several processes open one index, and all of them find what one writes', { skip }, async (t) => {
  const url = await (await thisServer()).createDatabase()
  const [one, ...others] = await Promise.all([1, 2, 3, 4].map(() => opened(t, url)))
  await one?.writer.put([file('x1'), file('x2')])
  await one?.writer.setExtent('whole')
  for (const other of others) {
    t.same(await found(other, 'x'), ['/f/x1', '/f/x2'])
    t.equal(await other.writer.extent(), 'whole')
  }
})

void t.test('an index of another version is created anew', { skip }, async (t) => {
  const server = await thisServer()
  const url = await server.createDatabase()
  const before = await opened(t, url)
  await before.writer.put([file('x')])
  await before.writer.setExtent('whole')
  t.equal(await (await opened(t, url)).writer.count(), 1)
  await server.query("update search_state set value = '0' where key = 'version'", url)
  const index = await opened(t, url)
  t.equal(await index.writer.count(), 0)
  t.equal(await index.writer.extent(), 'nothing')
  await index.writer.put([file('x')])
  await index.writer.setPendingScans([asPath('/later')])
  await index.writer.clear()
  t.equal(await index.writer.count(), 0)
  t.same(await index.writer.pendingScans(), [])
  await index.writer.put([file('x')])
  t.equal(await (await opened(t, url)).writer.count(), 1, 'it has this version')
})

void t.test('searches wait for no write, and writes for no search', { skip }, async (t) => {
  const url = await (await thisServer()).createDatabase()
  const index = await opened(t, url)
  await index.writer.put([file('x1')])
  const client = await connected(t, url)
  await client.query('begin')
  await client.query('delete from search_names')
  t.same(await found(index, 'x'), ['/f/x1'])
  await client.query('rollback')
  await client.query('begin isolation level repeatable read')
  await client.query('select * from search_names, search_folders')
  await index.writer.put([file('x2')])
  t.equal(await index.writer.move(asPath('/f/x1'), asPath('/g/x3')), true)
  await client.query('commit')
  t.same(await found(index, 'x'), ['/f/x2', '/g/x3'])
})

void t.test('unchanged names are not written', { skip }, async (t) => {
  const server = await thisServer()
  const url = await server.createDatabase()
  const { writer } = await opened(t, url)
  const rows = () => server.query('select name, xmin::text, xmax::text from search_names order by name', url)
  await writer.put([file('x1'), file('x2')])
  const before = await rows()
  await writer.put([file('x1'), file('x2')])
  await writer.beginListing()
  await writer.stage([file('x1'), file('x2')])
  await writer.markComplete([asPath('/f')])
  await writer.applyStaged({ tellNew: true })
  t.same(await rows(), before)
  await writer.put([file('x1', 2)])
  const after = await rows()
  t.notSame(after[0], before[0])
  t.same(after[1], before[1])
})

void t.test('a listing whose connection is lost is refused, and the next one is applied', { skip }, async (t) => {
  const server = await thisServer()
  const url = await server.createDatabase()
  const index = await opened(t, url)
  const { writer } = index
  await writer.put([file('x1'), file('x2')])
  await writer.beginListing()
  await writer.stage([file('x1')])
  const others = 'from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
  while ((await server.query(`select pg_terminate_backend(pid) ${others}`, url)).length > 0) await delay(20)
  await t.rejects(writer.markComplete([asPath('/f')]))
  await t.rejects(writer.applyStaged({ tellNew: false }))
  t.same(await found(index, 'x'), ['/f/x1', '/f/x2'])
  await writer.beginListing()
  await writer.stage([file('x1')])
  await writer.markComplete([asPath('/f')])
  await writer.applyStaged({ tellNew: false })
  t.same(await found(index, 'x'), ['/f/x1'])
})

void t.test('folders without names are not stored', { skip }, async (t) => {
  const server = await thisServer()
  const url = await server.createDatabase()
  const { writer } = await opened(t, url)
  const folders = async () =>
    (await server.query('select parent from search_folders order by 1', url)).map(({ parent }) => parent)
  await writer.put(['/a', '/a/b', '/a/b/c', '/d'].map((parent) => ({ ...file('x'), parent: asPath(parent) })))
  await writer.remove(asPath('/a'), [asPath('/a/b/c')])
  t.same(await folders(), ['/a/b/c', '/d'])
  t.equal(await writer.move(asPath('/d/x'), asPath('/a/b')), true)
  t.same(await folders(), ['/a'])
  t.equal(await writer.move(asPath('/nothing'), asPath('/e/f')), false)
  await writer.beginListing()
  await writer.markComplete([asPath('/a')])
  await writer.applyStaged({ tellNew: false })
  t.same(await folders(), [])
})

void t.test('a database that does not respond makes the index unavailable', { skip }, async (t) => {
  const url = await (await thisServer()).createDatabase()
  await t.rejects(openPostgresSearchIndex({ connectionString: url.replace(/[^/]*$/, 'nowhere') }), {
    code: 'unavailable',
    reason: 'the search index on PostgreSQL cannot be used: database "nowhere" does not exist',
  })
})
