/** `tidegate backup`, `restore` and `export` as an admin runs them: beside a daemon under load, and killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { protocols } from '../../protocols/index.js'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { asPath } from '../../src/base/path.js'
import { check } from '../../src/cli/check.js'
import { exportOf } from '../../src/cli/backup.js'
import { createProgram } from '../../src/cli/program.js'
import { loadConfig } from '../../src/installation/config.js'
import { restoreBackup } from '../../src/installation/restore.js'
import { newStorage } from '../../src/database/new-storage.js'
import { openStore } from '../../src/database/store.js'
import { startGateway, startNodes, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { lockinfo, proppatch, sender, tokenOf } from '../protocols/webdav/dav-client.js'
import { engines, thisServer } from '../database/engines.js'
import { grantRow, groupRow, ruleRow, shareRow, userRow } from '../database/store-rows.js'
import { withoutSqlite } from '../store-location.js'
import { connect } from '../stories/task-client.js'
import { main, outcomeOf } from './outcome.js'

const key = (await generateKeyPair('ed25519', { comment: 'someone@somewhere' })).public
const scratch = '.tidegate-scratch-'

/** Starts a command. `store`: a URL of PostgreSQL; empty: SQLite in the data folder. */
function start(words: readonly string[], store = '') {
  return spawn(process.execPath, [main, ...words], { env: { ...process.env, TIDEGATE_STORE: store } })
}

async function tidegate(words: readonly string[], store = '') {
  const child = start(words, store)
  return outcomeOf(child)
}

async function newFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-backup-'))
  t.teardown(() => rm(folder, { recursive: true }))
  return folder
}

/** What the daemon has acknowledged in one round. */
interface Round {
  readonly name: string
  readonly lock: string
}

/**
 * Uploads five files, and adds an account, a key, a rule, a property and a lock, at most 20 times a second, until
 * `isDone`. Appends each round that the daemon has acknowledged to `rounds`.
 */
async function load(running: RunningGateway, rounds: Round[], isDone: () => boolean): Promise<void> {
  const client = await connect(running)
  const send = sender(running)
  const status = async (expected: number, answer: ReturnType<typeof send>) => {
    const reply = await answer
    if (reply.status !== expected) throw new Error(`${reply.status}: ${reply.body}`)
    return reply
  }
  for (let number = 0; !isDone(); number++) {
    const pause = wait(50)
    const name = `round-${number}`
    const user = { username: name, password: 'a password', base_path: '/', role: 0, permission: 0x300, disabled: false }
    const [locked] = await Promise.all([
      status(201, send('PUT', `/${name}`, {}, 'x')).then(async () => {
        await status(207, send('PROPPATCH', `/${name}`, {}, proppatch('<p xmlns="urn:p">tide</p>')))
        return status(200, send('LOCK', `/${name}`, { timeout: 'Second-3600' }, lockinfo('exclusive')))
      }),
      client.post('/api/admin/user/create', user),
      client.post('/api/me/sshkey/add', { title: name, key }),
      client.post('/api/admin/meta/create', { id: 0, path: `/${name}`, readme: 'hello' }),
      ...[1, 2, 3, 4].map((other) => status(201, send('PUT', `/${name}-${other}`, {}, 'x'))),
      pause,
    ])
    rounds.push({ name, lock: tokenOf(locked).slice(1, -1) })
  }
}

/** What a database lacks of these rounds. */
async function missing(location: string, rounds: readonly Round[]): Promise<readonly string[]> {
  const store = await openStore(location)
  try {
    const users = new Set((await store.users.all()).map(({ username }) => username))
    const keys = new Set((await store.keys.all()).map(({ title }) => title))
    const rules = new Set<string>((await store.rules.all()).map(({ path }) => path))
    const locks = new Set((await store.locks.all()).map(({ token }) => token))
    const found: string[] = []
    for (const { name, lock } of rounds) {
      const [property] = await store.properties.of(asPath(`/${name}`))
      const has = { user: users.has(name), key: keys.has(name), rule: rules.has(`/${name}`), lock: locks.has(lock) }
      const all = { ...has, property: property?.value.includes('tide') === true }
      found.push(...Object.entries(all).flatMap(([what, isThere]) => (isThere ? [] : [`${what} of ${name}`])))
    }
    return found
  } finally {
    await store.close()
  }
}

const daemons: Readonly<
  Record<string, (t: Test) => Promise<{ readonly running: RunningGateway; readonly store: string }>>
> = {
  SQLite: async (t) => ({ running: await startGateway(t), store: '' }),
  PostgreSQL: async (t) => {
    const store = await (await thisServer()).createDatabase()
    const [running] = await startNodes(t, store, 1)
    if (!running) throw new Error('there is one node')
    return { running, store }
  },
}

for (const { name, skip } of engines) {
  const options = { skip: name === 'SQLite' ? withoutSqlite : skip }
  void t.test(`${name}: a backup under load has all that was acknowledged before`, options, async (t) => {
    const begun = await daemons[name]?.(t)
    if (!begun) throw new Error('there is no such daemon')
    const { running, store } = begun
    const folder = await newFolder(t)
    const file = join(folder, 'backup.tar.gz')
    const data = ['--data', running.dataFolder]
    const rounds: Round[] = []
    let isDone = false
    const loading = load(running, rounds, () => isDone)
    loading.catch(() => undefined)
    while (rounds.length < 5) await Promise.race([wait(10), loading])
    const before = [...rounds]
    const { status, out, err } = await tidegate(['backup', file, ...data], store)
    isDone = true
    await loading
    t.equal(status, 0, err)
    t.match(out, /^Not in a backup: the files of storages, and the search index\.\n/)
    t.ok(rounds.length > before.length, 'the daemon goes on meanwhile')
    t.equal((await stat(file)).mode & 0o777, 0o600)
    t.same(await readdir(folder), ['backup.tar.gz'])

    const restored = join(folder, 'restored')
    if (name === 'SQLite') {
      const used = await tidegate(['restore', file, ...data])
      t.match(used, { status: 1, err: /another tidegate \(process \d+\) serves the data folder/ })
      const first = await tidegate(['restore', file, '--data', restored, '--json'])
      t.equal(first.status, 0, first.err)
      t.match(JSON.parse(first.out), { data: restored, format: 1, tables: [{ table: 'users' }] })
    } else {
      await restoreBackup(file, { data: restored, store: '' })
    }
    t.same(await missing(join(restored, 'data.db'), before), [])
    await assertSound(t, restored)

    await t.test('restored into PostgreSQL', { skip: lacks('postgres', 'initdb') }, async (t) => {
      const url = await (await thisServer()).createDatabase()
      const node = join(folder, 'node')
      await restoreBackup(file, { data: node, store: url })
      t.same(await missing(url, before), [])
      await assertSound(t, node, url)
      if (store !== '') await t.rejects(restoreBackup(file, { data: join(folder, 'other'), store }), { code: 'busy' })
    })
    if (name === 'SQLite') await useRestored(t, restored, before)
  })
}

/** Runs `tidegate check` in this process. */
async function assertSound(t: Test, data: string, store = ''): Promise<void> {
  const flags = { data, http: '127.0.0.1:0', sftp: '127.0.0.1:0' }
  const findings = await check(await loadConfig({ flags, environment: { TIDEGATE_STORE: store }, protocols }))
  t.ok(findings.length > 3)
  t.same(
    findings.filter(({ ok }) => ok !== true),
    [],
  )
}

/** A daemon on the restored data folder knows users, keys, host keys and locks. */
async function useRestored(t: Test, dataFolder: string, [round]: readonly Round[]): Promise<void> {
  const running = await startGateway(t, { dataFolder })
  const login = JSON.stringify({ username: round?.name, password: 'a password' })
  const headers = { 'Content-Type': 'application/json' }
  const answer = await fetch(`${running.url}/api/auth/login`, { method: 'POST', headers, body: login })
  t.match(await answer.json(), { code: 200 })
  t.match(await sender(running)('PUT', `/${round?.name}`, {}, 'x'), { status: 423 })
}

void t.test('the help of the command says what a backup lacks', async (t) => {
  let shown = ''
  const command = createProgram().commands.find((each) => each.name() === 'backup')
  command?.configureOutput({ writeOut: (text) => (shown += text) }).outputHelp()
  t.match(shown, /Not in a backup: the files of storages, and the search index/)
})

void t.test('an export has the configuration, and secrets only if asked', { skip: withoutSqlite }, async (t) => {
  const folder = await newFolder(t)
  const store = await openStore(join(folder, 'data.db'))
  const ann = await store.users.insert(
    userRow({ username: 'ann', passwordHash: 'SECRET-1', otpSecret: 'SECRET-2', grantedOnly: true }),
  )
  const sales = await store.groups.insert(groupRow({ name: 'sales' }))
  await store.groups.setMembers(sales.id, [ann.id])
  await store.grants.insert(grantRow({ groupId: sales.id, path: asPath('/sales'), allow: ['read'] }))
  const s3 = {
    bucket: 'tides',
    secret_access_key: 'SECRET-3',
    unknown: 'SECRET-4',
    endpoint: 'https://a:SECRET-5@host',
  }
  await store.storages.insert(newStorage({ mountPath: asPath('/s3'), driver: 'S3', addition: JSON.stringify(s3) }))
  const other = newStorage({ mountPath: asPath('/other'), driver: 'Other', addition: '{"password":"SECRET-6"}' })
  await store.storages.insert(other)
  await store.rules.insert(ruleRow({ path: asPath('/a'), password: 'SECRET-7' }))
  await store.shares.insert(
    shareRow({ id: 'abc', creatorId: ann.id, code: 'SECRET-12' }),
    [asPath('/b'), asPath('/a')],
    0,
  )
  const url = 'http://admin:SECRET-8@localhost:8080/'
  const secrets = { token: 'SECRET-9', aria2_secret: 'SECRET-10', qbittorrent_url: url, not_known: 'SECRET-11' }
  await store.settings.set(new Map(Object.entries({ site_title: 'Tides', ...secrets })))
  const plain = JSON.stringify(await exportOf(store, false))
  await store.close()
  t.notMatch(plain, /SECRET/)
  t.match(JSON.parse(plain), {
    users: [{ username: 'ann', role: 'general', two_step: true, granted_only: true }],
    groups: [{ name: 'sales', members: [ann.id] }],
    storages: [
      { mount_path: '/s3', driver: 'S3', addition: { bucket: 'tides' } },
      { mount_path: '/other', addition: {} },
    ],
    rules: [{ path: '/a', has_password: true, read_users: [] }],
    shares: [{ id: 'abc', creator_id: ann.id, has_password: true, files: [{ path: '/b' }, { path: '/a' }] }],
    grants: [{ group_id: sales.id, path: '/sales', allow: ['read'], deny: [] }],
    settings: { site_title: 'Tides', qbittorrent_url: 'http://admin@localhost:8080/' },
  })
  const file = join(folder, 'export.json')
  t.match(await tidegate(['export', file, '--with-secrets', '--data', folder]), { status: 0, out: '' })
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const text = await readFile(file, 'utf8')
  for (let number = 1; number <= 12; number++) t.match(text, new RegExp(`SECRET-${number}["@]`))
})

void t.test('commands that are killed leave nothing that is taken for whole', { skip: withoutSqlite }, async (t) => {
  const folder = await newFolder(t)
  const [data, file] = [join(folder, 'data.db'), join(folder, 'backup.tar.gz')]
  await (await openStore(data)).close()
  // 10 MB that cannot be compressed well.
  const values =
    'with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000) select i, hex(randomblob(1000))'
  await engines[0]?.query(data, `insert into settings (key, value) ${values} from n`)

  let backup = start(['backup', file, '--data', folder])
  const isWriting = async () => {
    const [found] = (await readdir(folder)).filter((name) => name.startsWith(scratch))
    return found !== undefined && existsSync(join(folder, found, 'written'))
  }
  while (backup.exitCode === null && !(await isWriting())) await wait(1)
  backup.kill('SIGKILL')
  await once(backup, 'close')
  t.notOk(existsSync(file))
  t.equal((await readdir(folder)).filter((name) => name.startsWith(scratch)).length, 1, 'it was killed half-way')
  await rm(join(folder, (await readdir(folder)).find((name) => name.startsWith(scratch)) ?? ''), { recursive: true })
  backup = start(['backup', file, '--data', folder])
  while (backup.exitCode === null && !(await isWriting())) await wait(1)
  backup.kill('SIGTERM')
  t.same(await once(backup, 'close'), [null, 'SIGTERM'])
  t.notOk(
    (await readdir(folder)).some((name) => name.startsWith(scratch)),
    'one that is interrupted removes its files',
  )
  t.match(await tidegate(['backup', file, '--data', folder]), { status: 0 })
  t.same(
    (await readdir(folder)).filter((name) => name.startsWith(scratch)),
    [],
  )

  const target = join(folder, 'restored')
  const restore = start(['restore', file, '--data', target])
  const wal = join(target, 'data.db-wal')
  while (restore.exitCode === null && (!existsSync(wal) || statSync(wal).size < 1_000_000)) await wait(1)
  restore.kill('SIGKILL')
  await once(restore, 'close')
  const store = await openStore(join(target, 'data.db'))
  t.equal((await store.settings.all()).size, 0)
  await store.close()
  await restoreBackup(file, { data: target, store: '' })
  t.same((await readdir(target)).sort(), ['data.db', 'files'])
})
