/** How both databases find events: by an index, however many there are. */
import type { Knex } from 'knex'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { AuditTable } from '../../src/database/audit.js'
import { Database } from '../../src/database/database.js'
import { withConnection } from '../../src/database/open-engine.js'
import { openStore } from '../../src/database/store.js'
import { isPostgresUrl } from '../../src/database/store-url.js'
import { engines } from './engines.js'

/** A tenth of the rows are of `ann`, and of one folder; few are about one file. */
const rows = 60_000
const time = "1764000000000 + n * 1000, 'files-1', case when n % 5000 = 0 then 'admin.setting' else 'file.stored' end"
const others = "'done', case when n % 10 = 0 then 'ann' else 'ben' || n % 50 end"
const place = "case when n % 10 = 0 then '/team/' || n when n % 1000 = 1 then '/rare/file' else '/other/' || n end"
const target = "case when n % 20000 = 0 then '/moved' end"

const series = {
  SQLite: `(with recursive series(n) as (select 1 union all select n + 1 from series where n < ${rows}) select n from series)`,
  PostgreSQL: `generate_series(1, ${rows}) as n`,
}

async function fill(connection: Knex, engine: keyof typeof series): Promise<void> {
  await connection.raw(
    `insert into audit (event_id, time, node, kind, result, name, path, target)
     select 'id-' || n, ${time}, ${others}, ${place}, ${target} from ${series[engine]}`,
  )
  await connection.raw('analyze audit')
  // The table of a test is small enough to be read as a whole.
  if (engine === 'PostgreSQL') await connection.raw('set enable_seqscan = off')
}

/** The plans of all statements of `work`, as the database explains them. */
async function plansOf(
  connection: Knex,
  engine: keyof typeof series,
  work: (table: AuditTable) => Promise<unknown>,
): Promise<readonly string[]> {
  const statements: { readonly sql: string; readonly bindings: readonly Knex.Value[] }[] = []
  const listen = (statement: (typeof statements)[number]) => void statements.push(statement)
  connection.on('query', listen)
  await work(new AuditTable(new Database(connection)))
  connection.removeListener('query', listen)
  const plans: string[] = []
  for (const { sql, bindings } of statements) {
    const told: unknown = await (engine === 'PostgreSQL'
      ? connection.raw(`explain ${connection.raw(sql.replace(/\$\d+/g, '?'), bindings).toQuery()}`)
      : connection.raw(`explain query plan ${sql}`, bindings))
    plans.push(JSON.stringify(Array.isArray(told) ? told : (told as { rows: unknown }).rows))
  }
  return plans
}

/** Whether a plan reads the whole table. */
const readsAll = (plan: string): boolean => /Seq Scan on audit|"SCAN audit"/.test(plan)

for (const engine of engines) {
  void t.test(`every query of events uses an index on ${engine.name}`, { skip: engine.skip }, async (t: Test) => {
    const location = await engine.newDatabase(t)
    await (await openStore(location)).close()
    await withConnection(location, async (connection) => {
      const engineName = isPostgresUrl(location) ? 'PostgreSQL' : 'SQLite'
      await fill(connection, engineName)
      const before = { time: 1764000000000 + (rows / 2) * 1000, id: 'id-1' }
      const some = asPath('/rare/file')
      for (const [title, work] of [
        ['the newest', (table: AuditTable) => table.list({}, 100)],
        ['a page', (table: AuditTable) => table.list({}, 100, before)],
        ['a time', (table: AuditTable) => table.list({ from: before.time, to: before.time + 5000 }, 100)],
        ['a user', (table: AuditTable) => table.list({ user: 'ann' }, 100, before)],
        ['no user', (table: AuditTable) => table.list({ user: 'nobody' }, 100)],
        ['a rare kind', (table: AuditTable) => table.list({ kinds: ['admin.setting'] }, 100)],
        ['no result', (table: AuditTable) => table.list({ result: 'failed', address: '192.0.2.7' }, 100)],
        ['a folder with much', (table: AuditTable) => table.list({ path: asPath('/team') }, 100)],
        ['a path with little', (table: AuditTable) => table.list({ path: some, user: 'ben1' }, 100)],
        ['one path', (table: AuditTable) => table.list({ at: some }, 100, before)],
        ['a long path', (table: AuditTable) => table.list({ at: asPath(`/${'a'.repeat(700)}`) }, 100)],
        ['moves', (table: AuditTable) => table.movesTo([asPath('/moved'), asPath('/')], 100, before)],
        ['what follows', (table: AuditTable) => table.after(rows - 10, { kinds: ['admin.setting'] }, 100)],
        ['the last', (table: AuditTable) => table.last()],
      ] as const) {
        const plans = await plansOf(connection, engineName, work)
        t.ok(plans.length > 0)
        for (const plan of plans) t.notOk(readsAll(plan), `${title}: ${plan}`)
      }
      const table = new AuditTable(new Database(connection))
      t.equal((await table.list({ kinds: ['admin.setting'] }, 100)).events.length, 4, 'of the newest 20,000')
      t.equal((await table.list({ path: some }, 100)).events.length, 60)
    })
  })
}
