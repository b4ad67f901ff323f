/** `tidegate store copy` as an admin runs it: between daemons, beside one, and killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { CopyResult } from '../../src/database/copy.js'
import { migrations } from '../../src/database/migrations.js'
import { openStore } from '../../src/database/store.js'
import { withoutPassword } from '../../src/database/store-url.js'
import { startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { proppatch, propfind, sender } from '../protocols/webdav/dav-client.js'
import { connect, ended } from '../stories/task-client.js'
import { thisServer } from '../database/engines.js'
import { main, outcomeOf } from './outcome.js'

const skip = lacks('postgres', 'initdb')

/** Starts `tidegate store copy`. The passwords of URLs are passed as an admin passes them. */
function startCopy(from: string, to: string, ...flags: readonly string[]) {
  const password = [from, to].map((place) => /^postgres:\/\/\w+:(\w+)@/.exec(place)?.[1]).find(Boolean)
  const words = ['store', 'copy', withoutPassword(from), withoutPassword(to), ...flags]
  return spawn(process.execPath, [main, ...words], {
    env: { ...process.env, TIDEGATE_STORE: 'postgres://nowhere.invalid/x', ...(password && { PGPASSWORD: password }) },
  })
}

async function copy(from: string, to: string, ...flags: readonly string[]) {
  const child = startCopy(from, to, ...flags)
  return outcomeOf(child)
}

/** What a client sees of the rows of each kind. */
async function seen(daemon: Daemon) {
  const client = await connect(daemon)
  const { host_keys: hostKeys } = ((await client.get('/api/me/access')) as { sftp: { host_keys: unknown } }).sftp
  return {
    users: await client.get('/api/admin/user/list'),
    storages: await client.get('/api/admin/storage/list'),
    rules: await client.get('/api/admin/meta/list'),
    tasks: await client.get('/api/task/upload/done'),
    settings: await client.get('/api/admin/setting/get?key=site_title'),
    properties: (await sender(daemon)('PROPFIND', '/later.txt', { depth: '0' }, propfind('<p xmlns="urn:p"/>'))).body,
    content: (await client.read('/later.txt')).toString(),
    hostKeys,
  }
}

/** Gives the daemon rows of each kind. */
async function use(daemon: Daemon): Promise<void> {
  const client = await connect(daemon)
  const user = {
    username: 'ann',
    password: 'a word of hers',
    base_path: '/',
    role: 0,
    permission: 0x300,
    disabled: false,
  }
  await client.post('/api/admin/user/create', user)
  const disk = join(daemon.dataFolder, 'disk')
  await mkdir(disk)
  const addition = JSON.stringify({ root_folder_path: disk })
  await client.post('/api/admin/storage/create', { mount_path: '/disk', driver: 'Local', addition })
  await client.post('/api/admin/meta/create', { id: 0, path: '/disk', readme: 'hello', r_sub: true, hide: '\\.tmp$' })
  await client.post('/api/admin/setting/save', [{ key: 'site_title', value: 'Tides' }])
  await client.upload('/later.txt', Buffer.from('a tide'))
  await ended(client, 'upload')
  const { status } = await sender(daemon)('PROPPATCH', '/later.txt', {}, proppatch('<p xmlns="urn:p">é &amp; è</p>'))
  if (status !== 207) throw new Error(`PROPPATCH: ${status}`)
}

/** A data folder whose database has many rows, and is not used by a daemon. */
async function largeFolder(t: Test): Promise<string> {
  const folder = t.testdir()
  const store = await openStore(join(folder, 'data.db'))
  await store.settings.set(new Map(Array.from({ length: 30_000 }, (_, number) => [`key ${number}`, 'x'.repeat(500)])))
  await store.close()
  return folder
}

void t.test('an installation moves to PostgreSQL and back', { skip }, async (t) => {
  const url = await (await thisServer()).createDatabase()
  const sqlite = { environment: { TIDEGATE_STORE: '' } }
  // The folder of a first run may have its database elsewhere.
  const dataFolder = join(t.testdir(), 'data')
  const first = await startDaemon(t, { dataFolder, ...sqlite })
  await use(first)
  const before = await seen(first)
  t.match(before, {
    users: { content: { length: 3 } },
    storages: { content: { length: 2 } },
    rules: { content: [{ path: '/disk' }] },
    tasks: [{ error: '' }],
    settings: { value: 'Tides' },
    properties: /é &amp; è/,
    content: 'a tide',
    hostKeys: [{ type: 'ssh-ed25519' }, { type: 'ssh-rsa' }],
  })

  await t.test('not while a daemon uses the database', async (t) => {
    for (const from of [dataFolder, join(dataFolder, 'data.db')]) {
      t.match(await copy(from, url), { status: 1, err: /another tidegate \(process \d+\) serves the data folder/ })
    }
  })
  t.equal(await first.stop(), 0)

  const { status, out, err } = await copy(dataFolder, url)
  t.equal(status, 0, err)
  t.match(out, /^TABLE +ROWS\nusers +3\n/)
  t.match(out, /\n\d+ rows are copied, and equal on both sides\.\n$/)
  t.equal(existsSync(join(dataFolder, 'daemon.pid')), false)

  const second = await startDaemon(t, { dataFolder, environment: { TIDEGATE_STORE: url } })
  t.strictSame(await seen(second), before)
  t.match(await copy(url, join(dataFolder, 'back.db')), { status: 1, err: /is used by the node .+: stop it/ })
  await (await connect(second)).post('/api/admin/setting/save', [{ key: 'site_title', value: 'Ebbs' }])
  const changed = await seen(second)
  t.match(changed, { settings: { value: 'Ebbs' } })
  t.equal(await second.stop(), 0)

  const refused = await copy(url, dataFolder)
  t.match(refused, { status: 1, err: /data\.db is not empty, it has rows in users, .*: name a new one/ })
  const back = join(dataFolder, 'back.db')
  const json = await copy(url, back, '--json')
  t.equal(json.status, 0, json.err)
  const shown = JSON.parse(json.out) as { from: string; to: string; tables: readonly CopyResult[] }
  t.match(shown, { from: withoutPassword(url), to: back })
  t.match(
    shown.tables.find(({ table }) => table === 'users'),
    { rows: 3 },
  )
  await rename(join(dataFolder, 'data.db'), join(dataFolder, 'old.db'))
  const again = await copy(url, dataFolder)
  t.equal(again.status, 0, again.err)
  const third = await startDaemon(t, { dataFolder, ...sqlite })
  t.strictSame(await seen(third), changed)
})

void t.test('what cannot be a source or a target is refused with a sentence', async (t) => {
  const folder = await largeFolder(t)
  for (const [from, to, outcome] of [
    [join(folder, 'missing'), join(folder, 'new.db'), { status: 1, err: /there is no data\.db in .*missing/ }],
    [join(folder, 'missing.db'), join(folder, 'new.db'), { status: 1, err: /there is no missing\.db in / }],
    [folder, join(folder, 'data.db'), { status: 2, err: /both are the same database/ }],
    [folder, 'mysql://x/y', { status: 2, err: /mysql:\/\/x\/y is neither a path nor a URL of PostgreSQL/ }],
  ] as const) {
    t.match(await copy(from, to), outcome)
    t.equal(existsSync(join(folder, 'new.db')), false)
  }
  const older = join(folder, 'older.db')
  await (await openStore(older, { steps: migrations.slice(0, -1) })).close()
  const outcome = await copy(older, join(folder, 'new.db'))
  t.match(outcome, { status: 1, err: /older\.db is of an older version: start the daemon of this version there once/ })
  await rm(join(folder, 'new.db'))
  await writeFile(join(folder, 'text.db'), 'no database')
  t.match(await copy(join(folder, 'text.db'), join(folder, 'new.db')), { status: 1, err: /text\.db cannot be used: / })
  const child = spawn(process.execPath, [main, 'store', 'copy', folder, 'postgres://ada:secret@127.0.0.1:1/x'])
  let err = ''
  child.stderr.on('data', (text: Buffer) => (err += text.toString()))
  const [status] = (await once(child, 'close')) as [number | null]
  t.equal(status, 2)
  t.match(err, /other users can see a password on the command line: set PGPASSWORD or PGPASSFILE/)
  t.notMatch(err, /secret/)
})

void t.test('a copy to SQLite that is killed leaves an empty database, and can be repeated', async (t) => {
  const folder = await largeFolder(t)
  const target = join(folder, 'other')
  const child = startCopy(folder, target)
  const wal = join(target, 'data.db-wal')
  while (child.exitCode === null && (!existsSync(wal) || statSync(wal).size < 1_000_000)) await wait(1)
  child.kill('SIGKILL')
  await once(child, 'close')
  const store = await openStore(join(target, 'data.db'))
  t.equal((await store.settings.all()).size, 0)
  await store.close()
  const { status, err } = await copy(folder, target)
  t.equal(status, 0, err)
  const again = await openStore(join(target, 'data.db'))
  t.equal((await again.settings.all()).size, 30_000)
  await again.close()
})

void t.test(
  'a copy to PostgreSQL that is killed leaves an empty database, and can be repeated',
  { skip },
  async (t) => {
    const folder = await largeFolder(t)
    const server = await thisServer()
    const url = await server.createDatabase()
    const child = startCopy(folder, url)
    const statement = "select 1 from pg_stat_activity where query like 'insert into \"settings\"%' and datname = '"
    const isInserting = async () => (await server.query(`${statement}${url.split('/').at(-1)}'`)).length > 0
    while (child.exitCode === null && !(await isInserting())) await wait(1)
    child.kill('SIGKILL')
    await once(child, 'close')
    const rows = await server.query('select count(*)::integer as count from settings', url)
    t.same(rows, [{ count: 0 }])
    const { status, out, err } = await copy(folder, url)
    t.equal(status, 0, err)
    t.match(out, /\nsettings +30000\n/)
  },
)
