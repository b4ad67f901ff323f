/** The daemon stops even if a backend never responds. */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { openStore } from '../../src/database/store.js'
import { startDaemon, type Daemon } from '../gateway.js'
import { connectTo, storeOf, withoutSqlite } from '../store-location.js'
import { post, signIn } from '../security/world.js'
import { until } from '../until.js'

const program = fileURLToPath(new URL('../servers/stuck-daemon.js', import.meta.url))

interface Stuck {
  readonly daemon: Daemon
  readonly token: string
}

async function start(t: Test, driver: string): Promise<Stuck> {
  const daemon = await startDaemon(t, { program })
  const token = await signIn(daemon, 'admin', daemon.adminPassword)
  const row = { mount_path: '/stuck', driver, cache_expiration: 0, addition: '{}' }
  t.match(await post(daemon.url, '/api/admin/storage/create', row, token), { code: 200 })
  return { daemon, token }
}

/**
 * Whether the last connection to a database of SQLite was closed: its write-ahead log is then merged and removed. For
 * PostgreSQL, whether there are no other sessions.
 */
async function isClosed(folder: string, file = 'data.db'): Promise<boolean> {
  if (withoutSqlite !== false) {
    const database = await connectTo(folder)
    const others = 'datname = current_database() and pid <> pg_backend_pid()'
    const sessions: readonly unknown[] = await database('pg_stat_activity').whereRaw(others)
    await database.destroy()
    return sessions.length === 0
  }
  return access(join(folder, `${file}-wal`)).then(
    () => false,
    () => true,
  )
}

void t.test('the daemon stops although a driver never closes', async (t) => {
  const { daemon } = await start(t, 'Stuck in close')
  t.equal(await isClosed(daemon.dataFolder), false)
  t.equal(await daemon.stop(), 0)
  t.match(daemon.log, /"storages":\["\/stuck"\],"msg":"storages did not close in time"/)
  t.equal(await isClosed(daemon.dataFolder), true)
  await t.rejects(access(join(daemon.dataFolder, 'daemon.pid')), 'the data folder is released')
})

void t.test('the daemon stops although the driver call of a task never ends', async (t) => {
  const { daemon, token } = await start(t, 'Stuck in read')
  const fields = { src_dir: '/stuck', dst_dir: '/', names: ['file'] }
  t.match(await post(daemon.url, '/api/fs/copy', fields, token), { code: 200 })
  t.ok(await until(() => daemon.log.includes('a call is stuck')))
  t.equal(await daemon.stop(), 0)
  t.match(daemon.log, /"tasks":\[\{"id":"[\w-]+","kind":"copy",.*"msg":"tasks did not end in time/)
  t.equal(await isClosed(daemon.dataFolder), true)
  const store = await openStore(await storeOf(daemon.dataFolder))
  t.teardown(() => store.close())
  t.match(await store.tasks.all(), [{ kind: 'copy', state: 'running' }], 'the next start resumes it')
})

void t.test('the daemon stops although a walk of the search index never ends', async (t) => {
  const { daemon, token } = await start(t, 'Stuck in pages')
  const settings = [{ key: 'search_index', value: 'database' }]
  t.match(await post(daemon.url, '/api/admin/setting/save', settings, token), { code: 200 })
  t.match(await post(daemon.url, '/api/admin/index/build', {}, token), { code: 200 })
  t.ok(await until(() => daemon.log.includes('a call is stuck')))
  t.equal(await daemon.stop(), 0)
  t.match(daemon.log, /"msg":"search index: the last changes were not indexed in time"/)
  t.equal(await isClosed(daemon.dataFolder), true)
  t.equal(await isClosed(daemon.dataFolder, 'search.db'), true)
})
