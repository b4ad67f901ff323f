/** SQLite: what several connections to one new file have to wait for. */
import { join } from 'node:path'
import knex from 'knex'
import t from 'tap'
import { openStore } from '../../src/database/store.js'

void t.test('a new file is opened while another connection writes to it', async (t) => {
  const file = join(t.testdir(), 'tidegate.db')
  const other = knex({
    client: 'sqlite3',
    connection: { filename: file },
    useNullAsDefault: true,
    pool: { min: 1, max: 1 },
  })
  t.teardown(() => other.destroy())
  await other.raw('create table other (id integer)')
  await other.raw('begin immediate')
  await other.raw('insert into other values (1)')
  const opening = openStore(file)
  // Each takes a turn of the threads in which the file is opened too.
  for (let turn = 0; turn < 200; turn++) await other.raw('select 1')
  await other.raw('commit')
  const store = await opening
  await t.resolves(store.ping())
  await store.close()
})
