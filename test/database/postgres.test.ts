/** What only the store on PostgreSQL does: it survives a restart of the server, and accepts databases of any locale. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { openStore } from '../../src/database/store.js'
import { withoutPassword } from '../../src/database/store-url.js'
import { lacks } from '../programs.js'
import { makeCertificate } from '../servers/certificates.js'
import { startPostgres } from '../servers/postgres.js'
import { thisServer } from './engines.js'
import { ruleRow, shareRow, userRow } from './store-rows.js'

const skip = lacks('postgres', 'initdb')

void t.test('reads and writes wait for a server that restarts', { skip }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const store = await openStore(await server.createDatabase())
  t.teardown(() => store.close())
  const reported: string[] = []
  store.onForeignChange('rules', () => void reported.push('rules'))
  await store.settings.set(new Map([['a', '1']]))
  await server.kill()
  const calls = [store.settings.all(), store.settings.set(new Map([['b', '2']]))]
  await wait(500)
  await server.restart()
  await Promise.all(calls)
  t.same([...(await store.settings.all())].sort(), [
    ['a', '1'],
    ['b', '2'],
  ])
  // Changes that were committed without a connection that listens would otherwise be missed.
  while (reported.length === 0) await wait(20)
})

void t.test('without a server, calls fail within seconds as unavailable', { skip }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const store = await openStore(await server.createDatabase())
  t.teardown(() => store.close())
  await server.kill()
  const begin = performance.now()
  await t.rejects(store.users.insert(userRow({ username: 'ada' })), { code: 'unavailable' })
  t.ok(performance.now() - begin < 15_000)
})

void t.test('a server that accepts connections and does not answer is unavailable', { skip }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const store = await openStore(await server.createDatabase())
  t.teardown(() => store.close())
  await server.kill()
  const silent = createServer().listen(server.port, '127.0.0.1')
  t.teardown(() => silent.close())
  await once(silent, 'listening')
  await t.rejects(store.users.insert(userRow({ username: 'ada' })), { code: 'unavailable' })
})

void t.test(
  'many visits of a share, which wait for one another, leave connections to all else',
  { skip },
  async (t) => {
    const server = await thisServer()
    const url = await server.createDatabase()
    const store = await openStore(url)
    t.teardown(() => store.close())
    const { id: creatorId } = await store.users.insert(userRow({ username: 'ada' }))
    await store.shares.insert(shareRow({ id: 's', creatorId, maxVisits: 30 }), [], 0)
    // As a node that is slow.
    const held = server.query(`begin; update share_use set accessed = accessed; select pg_sleep(2); commit`, url)
    await wait(300)
    const visits = Array.from({ length: 40 }, (_, number) => {
      const name = String(number)
      return store.shareVisits.enter('s', { cookie: name, issued: name, client: name }, 60_000)
    })
    const uploads = Array.from({ length: 40 }, () => store.shareUploads.reserve('s', 1, 1))
    let areHeld = true
    void held.then(() => (areHeld = false))
    await store.nodes.all()
    await store.settings.set(new Map([['a', '1']]))
    t.ok(areHeld, 'nobody else has waited')
    t.equal((await Promise.all(visits)).filter((visit) => visit === 'begun').length, 30)
    t.equal((await Promise.all(uploads)).filter((id) => id !== undefined).length, 40)
  },
)

void t.test('paths sort by bytes, whatever the locale of the database', { skip }, async (t) => {
  const server = await thisServer()
  await server.query(
    `create database english template template0 locale_provider icu icu_locale 'en' locale 'C.UTF-8' encoding 'UTF8'`,
  )
  const store = await openStore(server.urlOf('english'))
  t.teardown(() => store.close())
  for (const path of ['/a', '/a b', '/a/x', '/A', '/a-b', '/á'])
    await store.rules.insert(ruleRow({ path: asPath(path) }))
  await store.rules.move(asPath('/a'), asPath('/z'))
  const paths = (await store.rules.all()).map(({ path }) => path)
  t.same(paths.sort(), ['/A', '/a b', '/a-b', '/z', '/z/x', '/á'])
})

void t.test('a database that cannot be used is named without its password', { skip }, async (t) => {
  const server = await thisServer()
  const url = await server.createDatabase()
  await t.rejects(openStore(url.replace(/:[^:@]+@/, ':a-wrong-word@')), {
    code: 'unavailable',
    message: /^(?!.*a-wrong-word).*postgres:\/\/tide@127\.0\.0\.1:\d+\/\w+ cannot be used: .*password/,
  })
  for (const password of ['sEc#ReT1', '12/sEcReT', 'sE?c@ReT']) {
    const mistaken = `postgres://tide:${password}@127.0.0.1:1/x`
    t.equal(withoutPassword(mistaken), 'postgres://tide@127.0.0.1:1/x', 'a password that is not escaped')
  }
  t.equal(withoutPassword('postgres://db:5432/x'), 'postgres://db:5432/x')
  await t.rejects(openStore(withoutPassword(url)), {
    code: 'unavailable',
    message: /no password was found: .*PGPASSFILE/,
  })
  await t.rejects(openStore(server.urlOf('missing')), { code: 'unavailable', message: /"missing" does not exist/ })
  await server.query(`create database latin template template0 encoding 'LATIN1' locale 'C'`)
  await t.rejects(openStore(server.urlOf('latin')), { code: 'unsupported', message: /UTF8 is needed/ })
})

void t.test('withoutPassword() removes passwords only', async (t) => {
  t.equal(withoutPassword('postgres://ada:se%40cret@db/x?sslmode=disable'), 'postgres://ada@db/x?sslmode=disable')
  t.equal(
    withoutPassword('postgresql://db/x?user=ada&password=secret&sslmode=disable'),
    'postgresql://db/x?user=ada&password=…&sslmode=disable',
  )
  for (const url of ['postgres://ada@db:5432/x', 'postgres://[::1]:5432/x', '/var/lib/tidegate/data.db']) {
    t.equal(withoutPassword(url), url)
  }
})

void t.test('TLS: the certificate of the server is verified', { skip }, async (t) => {
  const folder = t.testdir()
  const { certificate, key } = await makeCertificate(folder)
  const server = await startPostgres([], { certificate, key })
  t.teardown(() => server.stop())
  const url = await server.createDatabase()
  const store = await openStore(`${url}?sslmode=verify-full&sslrootcert=${certificate}`)
  await store.settings.set(new Map([['a', '1']]))
  const rows = await server.query(
    'select ssl from pg_stat_ssl join pg_stat_activity using (pid) where usename is not null',
    url,
  )
  t.ok(rows.some(({ ssl }) => ssl === true))
  await store.close()
  await t.rejects(openStore(`${url}?sslmode=verify-full`), { code: 'unavailable', message: /self-signed certificate/ })
})
