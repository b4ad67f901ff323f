/** Snapshots of a database of either engine, and the one before an upgrade. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, open, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { copyDatabase } from '../../src/database/copy.js'
import { migrations, newestVersion } from '../../src/database/migrations.js'
import { checkSnapshot, snapshotDatabase } from '../../src/database/snapshot.js'
import { openStore } from '../../src/database/store.js'
import { engines } from './engines.js'
import { dump, fill, within } from './filled-database.js'
import { userRow } from './store-rows.js'

const [sqlite, postgres] = engines
if (!sqlite || !postgres) throw new Error('there are two engines')

/** The path of a new file in a folder of its own. */
async function newFile(t: Test, name = 'snapshot.db'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-snapshot-'))
  t.teardown(() => rm(folder, { recursive: true }))
  return join(folder, name)
}

/** All migrations but the last. */
const older = migrations.slice(0, -1)

for (const engine of engines) {
  const { name, skip } = engine
  void t.test(`${name}: a snapshot has every row, and ids are not reused`, { skip }, async (t) => {
    const [location, file] = [await engine.newDatabase(t), await newFile(t)]
    await fill(location, 230)
    const before = await dump(location)
    t.equal(await snapshotDatabase(location, file), newestVersion())
    t.equal((await stat(file)).mode & 0o777, 0o600)
    t.equal(existsSync(`${file}-wal`), false, 'it is one file')
    t.strictSame(await dump(file), before)
    const store = await openStore(file)
    t.equal((await store.users.insert(userRow({ username: 'next' }))).id, 231)
    await store.close()
  })

  void t.test(`${name}: others write meanwhile, and a snapshot has whole transactions only`, { skip }, async (t) => {
    const [location, file] = [await engine.newDatabase(t), await newFile(t)]
    await fill(location, 300)
    const store = await openStore(location)
    t.teardown(() => store.close())
    let [written, isDone] = [0, false]
    const write = async () => {
      const number = String(written).padStart(6, '0')
      await store.settings.set(new Map([`one ${number}`, `other ${number}`].map((key) => [key, 'x'])))
      written++
    }
    await write()
    const snapshot = snapshotDatabase(location, file).finally(() => (isDone = true))
    while (!isDone) await write()
    await snapshot
    t.ok(written > 1, 'no change waits for the end of the snapshot')
    const keys = await within(file, (query) => query<{ key: string }>('settings').select('key'))
    const numbers = (word: string) =>
      keys.flatMap(({ key }) => (key.startsWith(`${word} `) ? [key.slice(word.length)] : [])).sort()
    t.same(numbers('one'), numbers('other'))
    t.ok(numbers('one').length >= 1, 'what was stored before is in it')
    t.equal(Number(numbers('one').at(-1)), numbers('one').length - 1, 'in the order of the changes')
  })

  void t.test(`${name}: before an upgrade, a snapshot of the old schema can be written`, { skip }, async (t) => {
    const [location, target] = [await engine.newDatabase(t), await engine.newDatabase(t)]
    const file = await newFile(t)
    const calls: number[] = []
    const beforeUpgrade = async (version: number, snapshot: (file: string) => Promise<number>) => {
      calls.push(version, await snapshot(file))
    }
    const old = await openStore(location, { steps: older, beforeUpgrade })
    // A table that the last step does not change.
    await old.settings.set(new Map([['kept', 'yes']]))
    await old.close()
    t.same(calls, [], 'a new database is no upgrade')
    const refused = openStore(location, { beforeUpgrade: () => Promise.reject(new Error('the disk is full')) })
    await t.rejects(refused, { code: 'unavailable', message: /the disk is full/ })
    const versions = await engine.query(location, 'select version from schema_version')
    t.match(versions, [{ version: newestVersion(older) }], 'nothing is changed without it')

    await (await openStore(location, { beforeUpgrade })).close()
    await (await openStore(location, { beforeUpgrade })).close()
    t.same(calls, [newestVersion(older), newestVersion(older)], 'it is called once, with the version')
    t.equal(await checkSnapshot(file), newestVersion(older))
    await copyDatabase(file, target)
    const restored = await openStore(target)
    t.same([...(await restored.settings.all())], [['kept', 'yes']])
    await restored.close()
  })

  void t.test(`${name}: a schema that is missing or newer is refused`, { skip }, async (t) => {
    const [empty, location] = [await engine.newDatabase(t), await engine.newDatabase(t)]
    const file = await newFile(t)
    await t.rejects(snapshotDatabase(empty, file), { code: 'not_found' })
    await (await openStore(location, { steps: [...migrations, async () => undefined] })).close()
    await t.rejects(snapshotDatabase(location, file), { code: 'unsupported', message: /written by a newer Tidegate/ })
    t.equal(existsSync(file), false)
  })
}

void t.test('a snapshot of a large PostgreSQL database needs little memory', { skip: postgres.skip }, async (t) => {
  const [location, file] = [await postgres.newDatabase(t), await newFile(t)]
  await (await openStore(location)).close()
  // 80 MB
  await postgres.query(
    location,
    `insert into properties (path, parent, namespace, name, value, language)
     select '/' || n, '/', 'n', 'x', repeat('x', 4000), '' from generate_series(1, 20000) as n`,
  )
  const module = new URL('../../src/database/snapshot.js', import.meta.url).href
  const script = `
    import { snapshotDatabase } from ${JSON.stringify(module)}
    await snapshotDatabase(${JSON.stringify(location)}, ${JSON.stringify(file)})
    console.log(process.resourceUsage().maxRSS)`
  const words = ['--max-old-space-size=50', '--input-type=module', '-e', script]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  t.ok(Number(stdout) < 200_000, `${stdout.trim()} KB`)
  t.match(await sqlite.query(file, 'select count(*) as count from properties'), [{ count: 20_000 }])
})

void t.test('checkSnapshot() ends the nodes, and refuses what is no snapshot', async (t) => {
  const location = await sqlite.newDatabase(t)
  const store = await openStore(location)
  await store.nodes.join({ id: 'one', name: 'host:1', version: '', addresses: '{}' })
  await store.users.insert(userRow({ username: 'ann' }))
  await store.close()
  const snapshot = async (name: string, ...statements: readonly string[]) => {
    const file = await newFile(t, name)
    await snapshotDatabase(location, file)
    for (const statement of statements) await sqlite.query(file, statement)
    return file
  }
  const good = await snapshot('good.db')
  t.equal(await checkSnapshot(good), newestVersion())
  t.match(await sqlite.query(good, 'select ended from nodes'), [{ ended: Number }])

  const foreign = { code: 'invalid', message: /views or triggers that Tidegate did not make/ }
  const view = ['alter table leases rename to others', 'create view leases as select * from others']
  await t.rejects(checkSnapshot(await snapshot('view.db', ...view)), foreign)
  const trigger = 'create trigger extra after update on guards begin delete from users; end'
  await t.rejects(checkSnapshot(await snapshot('trigger.db', trigger)), foreign)
  await t.rejects(checkSnapshot(await snapshot('virtual.db', 'create virtual table words using fts5(text)')), foreign)
  const orphan = `insert into ssh_keys (user_id, title, type, blob, fingerprint, added, last_used) values (99, '', '', x'', '', 0, 0)`
  await t.rejects(checkSnapshot(await snapshot('orphan.db', orphan)), { code: 'invalid', message: /is missing/ })
  const newer = `update schema_version set version = 999, oldest = 999`
  await t.rejects(checkSnapshot(await snapshot('newer.db', newer)), { code: 'unsupported', message: /newer Tidegate/ })
  const none = await snapshot('none.db', 'drop table schema_version')
  await t.rejects(checkSnapshot(none), { code: 'invalid', message: /no database of Tidegate/ })

  const lacking = await snapshot('lacking.db', 'alter table users drop column sso_id')
  await t.rejects(checkSnapshot(lacking), { code: 'invalid', message: /its database has no users\.sso_id/ })

  const damaged = await snapshot('damaged.db')
  const handle = await open(damaged, 'r+')
  for (let at = 4096; at < (await handle.stat()).size; at += 4096) await handle.write(Buffer.alloc(64, 0x5a), 0, 64, at)
  await handle.close()
  await t.rejects(checkSnapshot(damaged), { code: 'invalid', message: /its database is damaged/ })
  const text = await newFile(t)
  await writeFile(text, 'no database')
  await t.rejects(checkSnapshot(text), { code: 'invalid', message: /its database is damaged/ })
})
