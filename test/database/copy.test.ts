/** Copies of a database into an empty one, within and between the engines. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { ownTables } from '../../src/database/copied-tables.js'
import { copyDatabase } from '../../src/database/copy.js'
import { isPostgres } from '../../src/database/dialect.js'
import { migrate, migrations } from '../../src/database/migrations.js'
import { openEngine } from '../../src/database/open-engine.js'
import { openStore } from '../../src/database/store.js'
import { engines } from './engines.js'
import { dump, fill, tables, within } from './filled-database.js'
import { storageRow, userRow } from './store-rows.js'
import t, { type Test } from 'tap'

const [sqlite, postgres] = engines
if (!sqlite || !postgres) throw new Error('there are two engines')
const { skip } = postgres

for (const from of engines) {
  for (const to of engines) {
    const skip = from.skip || to.skip
    void t.test(`${from.name} to ${to.name}: every row is copied, and ids are not reused`, { skip }, async (t) => {
      const [source, target] = [await from.newDatabase(t), await to.newDatabase(t)]
      // More than two pages, whose keys do not sort as text.
      const count = 230
      await fill(source, count)
      const before = await dump(source)
      const results = await copyDatabase(source, target)
      t.same(
        results.map(({ table }) => table),
        tables.map(({ name }) => name),
      )
      for (const { table, rows } of results) t.ok([count, count - 1].includes(rows), `${table}: ${rows}`)
      t.strictSame(await dump(target), before)
      t.strictSame(await dump(source), before, 'the source is unchanged')
      const store = await openStore(target)
      t.equal((await store.users.insert(userRow({ username: 'next' }))).id, count + 1)
      const { id } = await store.storages.insert(storageRow({ mountPath: asPath('/next') }))
      t.equal(id, count + 1)
      t.equal(
        await store.intents.insert({
          storageId: id,
          kind: 'move',
          from: asPath('/a'),
          to: asPath('/b'),
        }),
        count + 1,
      )
      await store.close()
      await t.rejects(copyDatabase(source, target), { code: 'exists', message: /it has rows in users, / })
    })
  }
}

for (const engine of engines) {
  const { name, skip } = engine
  void t.test(`${name}: copies have all tables and columns of the schema`, { skip }, async (t) => {
    await within(await engine.newDatabase(t), async (query) => {
      const statement = isPostgres(query)
        ? 'select table_name as name from information_schema.tables where table_schema = current_schema()'
        : "select name from sqlite_master where type = 'table' and name not like 'sqlite!_%' escape '!'"
      const answer = await query.raw<{ rows?: readonly { name: string }[] } & readonly { name: string }[]>(statement)
      const found = (answer.rows ?? answer).map((table) => table.name)
      t.same(
        found.filter((table) => !ownTables.includes(table)).sort(),
        tables.map((table) => table.name).sort(),
        'add a table of one engine to `ownTables`, if its rows must not be copied',
      )
      for (const table of tables) {
        t.same(
          Object.keys(await query(table.name).columnInfo()).sort(),
          table.columns.map((column) => column.name).sort(),
        )
        t.ok(table.key.length > 0)
      }
    })
  })

  void t.test(`${name}: a source without a schema is refused, and unchanged`, { skip }, async (t) => {
    const [source, target] = [await engine.newDatabase(t), await sqlite.newDatabase(t)]
    await t.rejects(copyDatabase(source, target), {
      code: 'not_found',
      message: /there is no database of Tidegate in /,
    })
    const opening = openEngine(source, 'a test', async (connection) => {
      t.equal(await connection.schema.hasTable('schema_version'), false)
      throw new GatewayError('aborted')
    })
    await t.rejects(opening, { code: 'aborted' })
  })

  void t.test(`${name}: a target with a row is refused before its schema is changed`, { skip }, async (t) => {
    const [source, target] = [await sqlite.newDatabase(t), await engine.newDatabase(t)]
    await fill(source, 1)
    const older = await openEngine(target, 'a test', async (connection) => {
      await migrate(connection, migrations.slice(0, 1))
    })
    await older.durable.run((query) => query('settings').insert({ key: 'a', value: 'b' }))
    await older.close()
    await t.rejects(copyDatabase(source, target), {
      code: 'exists',
      message: /it has rows in settings: name a new one/,
    })
    const same = await openEngine(target, 'a test', async (connection) => {
      t.equal(await connection.schema.hasTable('recovery_codes'), false)
    })
    await same.close()
  })
}

void t.test('PostgreSQL: a row that it cannot store is named, and nothing is copied', { skip }, async (t) => {
  const source = await sqlite.newDatabase(t)
  await fill(source, 250)
  const target = await postgres.newDatabase(t)
  for (const [row, message] of [
    [
      { path: '/a', value: 'x\0y' },
      'the row of properties with path "/a", namespace "n", name "name" cannot be stored: its text contains the character NUL',
    ],
    [
      { path: '/a\0b' },
      'the row of properties with path "/a\\u0000b", namespace "n", name "name" cannot be stored: its text contains the character NUL',
    ],
    [
      { path: `/${randomBytes(3000).toString('hex')}` },
      /^the row of properties with path "\/\w+", .* cannot be stored: index row /,
    ],
  ] as const) {
    const property = { ...{ parent: '/', namespace: 'n', name: 'name', value: '', language: '' }, ...row }
    await within(source, (query) => query('properties').insert(property))
    await t.rejects(copyDatabase(source, target), { code: 'invalid', message })
    await within(source, (query) => query('properties').where({ path: row.path }).delete())
  }
  await within(target, async (query) => {
    for (const { name } of tables) t.same(await query(name).select(), [], name)
  })
  await copyDatabase(source, target)
  t.strictSame(await dump(target), await dump(source))
})

void t.test('SQLite to SQLite: the character NUL is copied', async (t) => {
  const [source, target] = [await sqlite.newDatabase(t), await sqlite.newDatabase(t)]
  await within(source, (query) => query('settings').insert({ key: 'a\0b', value: 'c\0d' }))
  await copyDatabase(source, target)
  const rows = await within(target, (query) => query('settings').select())
  t.strictSame(rows, [{ key: 'a\0b', value: 'c\0d' }])
})

void t.test('PostgreSQL: a database that a living node uses is neither source nor target', { skip }, async (t) => {
  const [used, other, target] = [
    await postgres.newDatabase(t),
    await sqlite.newDatabase(t),
    await sqlite.newDatabase(t),
  ]
  await fill(other, 1)
  const store = await openStore(used)
  t.teardown(() => store.close())
  await store.nodes.join({ id: 'one', name: 'host:1', version: '', addresses: '{}' })
  const refusal = {
    code: 'busy',
    message:
      /the database postgres:\/\/tide@[^:]+:\d+\/\w+ is used by the node host:1: stop it; if it was killed, wait 25 s/,
  }
  await t.rejects(copyDatabase(used, target), refusal)
  await t.rejects(copyDatabase(other, used), refusal)
  await within(used, (query) => query('nodes').decrement('heartbeat', 25_000))
  await t.rejects(copyDatabase(other, used), { code: 'exists' })
  await copyDatabase(used, target)
  t.match(await within(target, (query) => query('nodes').select()), [{ id: 'one', ended: null }])
})

void t.test('a change of the source waits for the end of the copy', async (t) => {
  const [source, target] = [await sqlite.newDatabase(t), await sqlite.newDatabase(t)]
  await fill(source, 1500)
  const store = await openStore(source)
  t.teardown(() => store.close())
  const copying = copyDatabase(source, target)
  while (!existsSync(`${target}-wal`) || statSync(`${target}-wal`).size < 1_000_000) await wait(1)
  // A change is refused after ten seconds, in which a busy machine may not have copied everything.
  const change = async (): Promise<void> =>
    store.settings.set(new Map([['written', 'meanwhile']])).catch(async (error: unknown) => {
      if (!isGatewayError(error, 'busy')) throw error
      await change()
    })
  await change()
  const copied = await within(target, (query) => query('settings').select('key'))
  t.equal(copied.length, 1500, 'the copy is complete, without the change')
  await copying
})

void t.test('the copy of a large database needs little memory', { skip }, async (t) => {
  const [source, ...targets] = [await sqlite.newDatabase(t), await sqlite.newDatabase(t), await postgres.newDatabase(t)]
  await within(source, async (query) => {
    // 160 MB
    await query.raw(
      `insert into properties (path, parent, namespace, name, value, language)
       with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 40000)
       select '/' || n, '/', 'n', 'x', printf('%.4000c', 'x'), '' from numbers`,
    )
  })
  for (const target of targets) await copyWithin(t, source, target)
})

/** Copies in a process whose heap is smaller than the database. */
async function copyWithin(t: Test, from: string, to: string): Promise<void> {
  const module = new URL('../../src/database/copy.js', import.meta.url).href
  const script = `
    import { copyDatabase } from ${JSON.stringify(module)}
    const results = await copyDatabase(${JSON.stringify(from)}, ${JSON.stringify(to)})
    console.log(results.find(({ table }) => table === 'properties').rows, process.resourceUsage().maxRSS)`
  const words = ['--max-old-space-size=80', '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  const [rows, kilobytes] = stdout.trim().split(' ').map(Number)
  t.equal(rows, 40_000)
  t.ok((kilobytes ?? 0) < 250_000, `${kilobytes} KB`)
}
