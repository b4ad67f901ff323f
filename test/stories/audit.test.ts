/**
 * The audit has what clients did, by every protocol, each thing once: also what a daemon had answered that was killed
 * the moment after.
 */
import { randomInt } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { allPermissions } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import type { AuditFilter, NumberedEvent } from '../../src/database/audit-rows.js'
import { openStore } from '../../src/database/store.js'
import type { Store } from '../../src/database/tables.js'
import { thisServer } from '../database/engines.js'
import {
  prepareNodes,
  startDaemon,
  startGateway,
  storageStarted,
  withoutNodes,
  workersOf,
  type Addresses,
  type Daemon,
} from '../gateway.js'
import { lacks } from '../programs.js'
import { storeOf } from '../store-location.js'
import { until } from '../until.js'
import { connectAll, openSftp, type ProtocolClient } from './protocols.js'
import { connect } from './task-client.js'
import t, { type Test } from 'tap'

/** `npm run soak` has more. */
const operations = Number(process.env.TIDEGATE_AUDIT_OPERATIONS ?? 300)
const kills = Math.max(2, Math.ceil(operations / 300))

async function eventsOf(store: Pick<Store, 'audit'>, filter: AuditFilter = {}): Promise<readonly NumberedEvent[]> {
  const events: NumberedEvent[] = []
  for (let number = 0; ;) {
    const page = await store.audit.after(number, filter, 1000)
    events.push(...page.events)
    if (page.last === number) return events
    number = page.last
  }
}

const treeKinds = ['file.stored', 'file.replaced', 'folder.made', 'link.made', 'moved', 'copied', 'removed'] as const

const newUser = {
  password: 'a password',
  basePath: asPath('/'),
  role: 'general',
  permission: allPermissions,
  disabled: false,
  ssoId: '',
} as const

/** What an event says of a change. */
const told = ({ kind, result, path, target, error }: NumberedEvent) =>
  [kind, path, target, result === 'done' ? undefined : `${result}: ${error}`]
    .filter((part) => part !== undefined)
    .join(' ')

void t.test('what each protocol changes is recorded with who did it', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const { store } = gateway
  const { id } = await gateway.accounts.users.create({ ...newUser, username: 'ann', basePath: asPath('/home/ann') })
  const who = { username: 'ann', password: 'a password' }
  const clients = await connectAll(running, who)
  for (const client of clients) {
    const folder = `/${client.protocol}`
    t.equal(await client.makeFolder(folder), 'done')
    t.equal(await client.put(`${folder}/a`, Buffer.from('12345')), 'done')
    t.equal(await client.put(`${folder}/a`, Buffer.from('1234567')), 'done')
    t.equal(await client.rename(`${folder}/a`, `${folder}/b`), 'done')
    t.equal(await client.remove(`${folder}/b`), 'done')
    t.equal(await client.remove(folder), 'done')
    await client.close()
  }
  await until(async () => (await eventsOf(store, { user: 'ann', kinds: treeKinds })).length >= 18)
  for (const { protocol } of clients) {
    const folder = `/home/ann/${protocol}`
    // The client of SFTP tries to remove a folder as a file first.
    const events = await eventsOf(store, { user: 'ann', path: asPath(folder), kinds: treeKinds, result: 'done' })
    t.same(
      events.map(told),
      [
        `folder.made ${folder}`,
        `file.stored ${folder}/a`,
        `file.replaced ${folder}/a`,
        `moved ${folder}/a ${folder}/b`,
        `removed ${folder}/b`,
        `removed ${folder}`,
      ],
      protocol,
    )
    for (const { actor, storage, node } of events) {
      t.match(actor, { userId: id, name: 'ann', protocol, address: '127.0.0.1' })
      t.match(actor.credential, protocol === 'http' ? /^token:/ : 'password')
      t.equal(storage, '/')
      t.match(node, /:\d+$/)
    }
    t.same(
      events.map(({ entry, size }) => [entry, size]),
      [
        ['folder', undefined],
        ['file', 5],
        ['file', 7],
        ['file', 7],
        ['file', 7],
        ['folder', undefined],
      ],
    )
  }
  const signIns = await eventsOf(store, { user: 'ann', kinds: ['signin.ok'] })
  t.same(signIns.map(({ actor }) => actor.protocol).sort(), ['http', 'sftp', 'webdav'])
})

void t.test('a refusal is recorded once, with what has refused it', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const { store } = gateway
  const admin = await connect(running)
  await gateway.accounts.users.create({ ...newUser, username: 'bob', permission: 0x700 })
  await admin.post('/api/fs/mkdir', { path: '/x' })
  const clients = await connectAll(running, { username: 'bob', password: 'a password' })
  for (const client of clients) {
    t.equal(await client.put(`/x/${client.protocol}`, Buffer.from('x')), 'refused')
    t.equal(await client.makeFolder(`/x/f-${client.protocol}`), 'refused')
    t.equal(await client.remove('/x'), 'refused')
    t.equal(await client.rename('/x', '/y'), 'refused')
    await client.close()
  }
  await until(async () => (await eventsOf(store, { user: 'bob', kinds: treeKinds })).length >= 12)
  const events = await eventsOf(store, { user: 'bob', kinds: treeKinds })
  t.equal(events.length, 12)
  const renamed = events.find(({ kind, actor }) => kind === 'moved' && actor.protocol === 'http')
  t.equal(renamed?.decidedBy, 'the permission rename', 'a rename asks for another right than a move')
  for (const { result, error, decidedBy, actor } of events) {
    t.equal(result, 'refused')
    t.equal(error, 'denied')
    t.match(decidedBy, /^the permission |^right$|^protocol$/, `${actor.protocol}: ${decidedBy}`)
  }
})

void t.test('a refusal by a grant names the user or the group that it is of', async (t) => {
  const running = await startGateway(t)
  const { gateway } = running
  const { accounts, store } = gateway
  const admin = await connect(running)
  const { id } = await accounts.users.create({ ...newUser, username: 'cal' })
  for (const path of ['/own', '/of-group']) await admin.post('/api/fs/mkdir', { path })
  const group = { name: 'readers', permission: 0, members: [id] }
  const { id: groupId } = (await admin.post('/api/admin/group/create', group)) as { id: number }
  const grant = { allow: [], deny: ['write'] }
  await gateway.grants.replace({ userId: id }, [{ ...grant, path: '/own' }])
  await gateway.grants.replace({ groupId }, [{ ...grant, path: '/of-group' }])
  const [client] = await connectAll(running, { username: 'cal', password: 'a password' })
  for (const folder of ['/own', '/of-group']) t.equal(await client?.put(`${folder}/x`, Buffer.from('x')), 'refused')
  await until(async () => (await eventsOf(store, { user: 'cal', result: 'refused' })).length >= 2)
  t.same(
    (await eventsOf(store, { user: 'cal', result: 'refused' })).map(({ decidedBy }) => decidedBy),
    ['the grant of cal at /own', 'the grant of the group readers at /of-group'],
  )
})

void t.test('who is no admin and calls what admins may is recorded as refused', async (t) => {
  const running = await startGateway(t)
  const { gateway, url } = running
  await gateway.accounts.users.create({ ...newUser, username: 'dan' })
  const dan = await connect({ url, adminPassword: 'a password' }, 'dan')
  const saved = [{ key: 'site_title', value: 'of dan' }]
  await t.rejects(dan.post('/api/admin/setting/save', saved), /403 You are not an admin/)
  await t.rejects(dan.post('/api/admin/setting/save', { settings: 7 }), /403 You are not an admin/)
  await t.rejects(dan.get('/api/admin/audit'), /403 You are not an admin/)
  await until(async () => (await eventsOf(gateway.store, { result: 'refused' })).length >= 2)
  const events = await eventsOf(gateway.store, { result: 'refused' })
  t.equal(events.length, 2)
  for (const { kind, actor, error, fields, subject } of events) {
    t.same([kind, actor.name, error, fields, subject], ['admin.setting', 'dan', 'admins_only', undefined, undefined])
  }
})

void t.test('sign-ins, administration and visits are recorded, without secrets', async (t) => {
  const running = await startGateway(t)
  const { gateway, url } = running
  const { store } = gateway
  const admin = await connect(running)
  const secret = 'Secret-of-the-test-9'
  const signIn = (username: string, password: string) =>
    fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ username, password }),
    })
  await signIn('admin', secret)
  await signIn(secret, 'x')
  const eve = { username: 'eve', password: secret, base_path: '/', permission: 0 }
  await admin.post('/api/admin/user/create', eve)
  const saved = [{ key: 'qbittorrent_url', value: `http://a:${secret}@x/` }]
  await admin.post('/api/admin/setting/save', { settings: saved })
  await t.rejects(admin.post('/api/admin/user/create', eve))
  await openSftp(running, { username: 'nobody', password: secret }).catch(() => undefined)
  await until(async () => (await eventsOf(store)).length >= 7)
  const events = await eventsOf(store)
  t.notMatch(JSON.stringify(events), /Secret-of/)
  const facts = events.map(({ kind, result, error, subject, actor }) =>
    [kind, result, error, subject, actor.name].filter((part) => part !== undefined).join(' '),
  )
  t.ok(facts.includes('signin.ok done admin'), facts.join('\n'))
  t.ok(facts.includes('signin.refused refused wrong_credentials admin'), facts.join('\n'))
  t.ok(facts.includes('signin.refused refused wrong_credentials '), facts.join('\n'))
  t.ok(facts.includes('admin.user done eve admin'), facts.join('\n'))
  t.ok(
    facts.some((fact) => /^admin\.user refused \w+ eve admin$/.test(fact)),
    facts.join('\n'),
  )
  t.same(events.find(({ kind }) => kind === 'admin.setting')?.fields, ['qbittorrent_url'])
})

void t.test('what is administered is recorded by its name, also when a request has an id only', async (t) => {
  const running = await startGateway(t)
  const { store } = running.gateway
  const admin = await connect(running)
  const told = async (kinds: AuditFilter['kinds'], count: number) => {
    await until(async () => (await eventsOf(store, { kinds })).length >= count)
    return (await eventsOf(store, { kinds })).map(({ subject }) => subject)
  }
  await admin.post('/api/admin/user/create', { username: 'eve', password: 'a password', base_path: '/', permission: 0 })
  const { id } = running.gateway.accounts.users.byName('eve') ?? { id: 0 }
  await admin.post('/api/admin/user/update', { id, username: 'eva' })
  await admin.post('/api/admin/user/update', { id, username: 'eva', permission: 1 })
  await admin.post(`/api/admin/user/delete?id=${id}`, {})
  t.same(await told(['admin.user'], 4), ['eve', 'eve → eva', 'eva', 'eva'])

  const group = (await admin.post('/api/admin/group/create', { name: 'readers', permission: 0 })) as { id: number }
  await admin.post('/api/admin/group/update', { id: group.id, name: 'writers', permission: 0 })
  await admin.post(`/api/admin/group/delete?id=${group.id}`, {})
  t.same(await told(['admin.group'], 3), ['readers', 'readers → writers', 'writers'])

  const [storage] = running.gateway.storages.list()
  await admin.post(`/api/admin/storage/disable?id=${storage?.id}`, {})
  await admin.post(`/api/admin/storage/enable?id=${storage?.id}`, {})
  t.same(await told(['admin.storage'], 2), ['/', '/'])

  await admin.post('/api/admin/meta/create', { path: '/a' })
  const [rule] = running.gateway.rules.list()
  await admin.post(`/api/admin/meta/delete?id=${rule?.id}`, {})
  t.same(await told(['admin.rule'], 2), ['/a', '/a'])

  const hook = { name: 'index', url: 'http://192.0.2.1/' }
  const { id: hookId } = (await admin.post('/api/admin/webhook/create', hook)) as { id: number }
  await admin.post(`/api/admin/webhook/delete?id=${hookId}`, {})
  t.same(await told(['admin.webhook'], 2), ['index', 'index'])

  await admin.post('/api/fs/mkdir', { path: '/shared' })
  const made = await admin.post('/api/share/create', { files: ['/shared'] })
  const { id: shareId, pseudonym } = made as { id: string; pseudonym: string }
  await admin.post(`/api/share/delete?id=${shareId}`, {})
  t.same(await told(['share.made', 'share.removed'], 2), [pseudonym, pseudonym])
  await t.rejects(admin.post('/api/admin/user/delete?id=99999', {}))
  t.equal((await told(['admin.user'], 5)).at(-1), '99999', 'where there is none')
})

/** A client that makes random changes in its own folder, and what it was told of them. */
class Worker {
  readonly expected: { readonly text: string; readonly isSure: boolean }[] = []
  #files: string[] = []
  #count = 0

  constructor(readonly folder: string) {}

  async step(client: ProtocolClient): Promise<void> {
    const { folder } = this
    const fresh = `${folder}/${this.#count++}`
    const index = randomInt(this.#files.length + 1)
    const file = this.#files[index]
    const choice = randomInt(5)
    const change = (text: string, work: Promise<unknown>) => this.#told(text, work)
    if (file === undefined || choice === 0) {
      if (await change(`file.stored ${fresh}`, client.put(fresh, Buffer.from('new')))) this.#files.push(fresh)
      return
    }
    if (choice === 1) {
      if (!(await change(`file.replaced ${file}`, client.put(file, Buffer.from('other'))))) this.#files.splice(index, 1)
    } else if (choice === 2) {
      this.#files.splice(index, 1)
      if (await change(`moved ${file} ${fresh}`, client.rename(file, fresh))) this.#files.push(fresh)
    } else if (choice === 3) {
      this.#files.splice(index, 1)
      await change(`removed ${file}`, client.remove(file))
    } else await change(`folder.made ${fresh}`, client.makeFolder(fresh))
  }

  /** False if the connection has broken: whether the change was made is not known. */
  async #told(text: string, work: Promise<unknown>): Promise<boolean> {
    const answered = new AbortController()
    // A connection that a killed worker was just given is never answered.
    const late = wait(20_000, 'failed', { signal: answered.signal }).catch(() => 'failed')
    const answer = await Promise.race([work.catch(() => 'failed'), late])
    answered.abort()
    if (answer !== 'done' && answer !== 'failed') throw new Error(`${text}: ${String(answer)}`)
    this.expected.push({ text, isSure: answer === 'done' })
    return answer === 'done'
  }
}

/** Fails unless the events are what the worker did, in its order; what it is not sure of may be missing. */
function compare(t: Test, worker: Worker, events: readonly string[]): void {
  let at = 0
  for (const { text, isSure } of worker.expected) {
    if (events[at] === text) at++
    else if (isSure) {
      t.fail(`${text} is not recorded; there is ${events[at]}`)
      return
    }
  }
  t.same(events.slice(at), [], `${worker.folder}: nothing else is recorded`)
}

/** Processes that serve one tree, some of which are killed. */
interface Served {
  /** Where clients connect now. */
  addresses(): readonly Addresses[]
  /** Calls `now` and kills something at once. Resolves when clients can connect again. */
  kill(now: () => void): Promise<void>
  /** Ends all. Resolves to the location of the database. */
  stop(): Promise<string>
}

/** Makes `operations` random changes by all protocols with kills between them, and compares the audit with them. */
async function compareRandomChanges(t: Test, served: Served, adminPassword: string): Promise<void> {
  const connectEach = () =>
    Promise.all(served.addresses().map((each) => connectAll(each, { username: 'admin', password: adminPassword })))
  let clients = (await connectEach()).flat()
  const workers: Worker[] = []
  for (const [index, client] of clients.entries()) {
    const folder = `/${client.protocol}-${index}`
    workers.push(new Worker(folder))
    t.equal(await client.makeFolder(folder), 'done')
  }
  let count = 0
  for (let round = 0; round <= kills; round++) {
    const last = Math.ceil((operations * (round + 1)) / (kills + 1))
    let isOver = false
    const work = workers.map(async (worker, index) => {
      for (let client = clients[index]; client && !isOver; count++) await worker.step(client)
    })
    const all = Promise.all(work)
    await Promise.race([all, until(() => count >= last)])
    const end = () => {
      isOver = true
    }
    // Each of them is asking when something is killed.
    if (round < kills) await served.kill(end)
    end()
    await all
    for (const client of clients) void client.close().catch(() => undefined)
    if (round < kills) clients = (await connectEach()).flat()
  }
  const store = await openStore(await served.stop())
  t.teardown(() => store.close())
  const done = (await eventsOf(store, { kinds: treeKinds })).filter(({ result }) => result === 'done')
  t.ok(count >= operations)
  const unsure = workers.flatMap(({ expected }) => expected.filter(({ isSure }) => !isSure)).length
  t.comment(`${count} operations, ${kills} kills, ${unsure} operations without an answer, ${done.length} events`)
  t.equal(new Set(done.map(({ id }) => id)).size, done.length)
  for (const worker of workers) {
    const own = done.filter(({ path }) => path?.startsWith(`${worker.folder}/`) === true)
    // By their time: rows are in the order of groups. Clocks do not tell what several processes did in a millisecond.
    const place = new Map(worker.expected.map(({ text }, index) => [text, index]))
    const placeOf = (event: NumberedEvent) => place.get(told(event)) ?? -1
    const sorted = [...own].sort((one, other) => one.time - other.time || placeOf(one) - placeOf(other))
    compare(t, worker, sorted.map(told))
    t.ok(worker.expected.length > 0)
  }
}

void t.test('of random changes with kills between them, each is recorded once', { skip: withoutNodes }, async (t) => {
  let daemon: Daemon = await startDaemon(t)
  const { dataFolder, adminPassword } = daemon
  await storageStarted(daemon)
  const served: Served = {
    addresses: () => [daemon],
    async kill(now) {
      now()
      await daemon.kill()
      daemon = await startDaemon(t, { dataFolder, adminPassword })
      await storageStarted(daemon)
    },
    async stop() {
      t.equal(await daemon.stop(), 0)
      return storeOf(dataFolder, t)
    },
  }
  await compareRandomChanges(t, served, adminPassword)
})

const withoutWorkers = withoutNodes || lacks('ps')

void t.test('so is each that a killed worker had answered', { skip: withoutWorkers }, async (t) => {
  const daemon = await startDaemon(t, { environment: { TIDEGATE_WORKERS: '2' } })
  const location = await storeOf(daemon.dataFolder, t)
  const store = await openStore(location)
  t.teardown(() => store.close())
  await storageStarted(daemon)
  const served: Served = {
    addresses: () => [daemon],
    async kill(now) {
      const pids = await workersOf(daemon)
      const killed = pids[randomInt(pids.length)] ?? 0
      now()
      process.kill(killed, 'SIGKILL')
      const isReplaced = async () => {
        const alive = (await store.nodes.all()).filter(
          ({ ended, addresses }) => ended === undefined && addresses !== '{}',
        )
        const now = await workersOf(daemon)
        return (
          now.length === 2 && now.every((pid) => pid !== killed && alive.some(({ name }) => name.endsWith(`:${pid}`)))
        )
      }
      while (!(await isReplaced())) await wait(50)
    },
    async stop() {
      t.equal(await daemon.stop(), 0)
      t.same(await readdir(join(daemon.dataFolder, 'audit')), [], 'no line waits for another start')
      return location
    },
  }
  await compareRandomChanges(t, served, daemon.adminPassword)
})

/** Two nodes that share a database and a storage, each with a data folder of its own. */
async function startTwo(t: Test) {
  const files = await mkdtemp(join(tmpdir(), 'tidegate-shared-'))
  t.teardown(() => rm(files, { recursive: true, force: true, maxRetries: 3 }))
  const store = await (await thisServer()).createDatabase()
  const folders = await prepareNodes(t, store, 2, files)
  const start = (index: number) =>
    startDaemon(t, { dataFolder: folders[index] ?? '', environment: { TIDEGATE_STORE: store } })
  return { store, start, nodes: [await start(0), await start(1)] as [Daemon, Daemon] }
}

const withoutPostgres = withoutNodes || lacks('postgres', 'initdb')

void t.test('so is each that a killed node had answered', { skip: withoutPostgres }, async (t) => {
  const { store, start, nodes } = await startTwo(t)
  for (const node of nodes) await storageStarted(node)
  let turn = 0
  const served: Served = {
    addresses: () => nodes,
    async kill(now) {
      const index = turn++ % 2
      now()
      await nodes[index]?.kill()
      nodes[index] = await start(index)
      for (const node of nodes) await storageStarted(node)
    },
    async stop() {
      for (const node of nodes) t.equal(await node.stop(), 0)
      return store
    },
  }
  await compareRandomChanges(t, served, nodes[0].adminPassword)
})

void t.test('the last lines of a killed node come when it returns', { skip: withoutPostgres }, async (t) => {
  const { store: location, start, nodes } = await startTwo(t)
  const [one, other] = nodes
  for (const node of nodes) await storageStarted(node)
  const store = await openStore(location)
  t.teardown(() => store.close())
  const authorization = `Basic ${Buffer.from(`admin:${one.adminPassword}`).toString('base64')}`
  const put = async ({ davUrl }: Daemon, name: string) =>
    (await fetch(davUrl + name, { method: 'PUT', body: 'x', headers: { authorization } })).status
  const recorded = async () =>
    (await eventsOf(store, { kinds: ['file.stored'] })).map(({ path }) => String(path)).sort()
  t.equal(await put(one, 'early'), 201)
  t.ok(await until(async () => (await recorded()).length === 1))
  // Nothing can be stored now, so that the lines are in the file of the node alone when it is killed.
  const query = (statement: string) => thisServer().then((server) => server.query(statement, location))
  await query('alter table audit rename to audit_away')
  t.same(await Promise.all([put(one, 'late-1'), put(one, 'late-2')]), [201, 201])
  await one.kill()
  await query('alter table audit_away rename to audit')
  t.equal(await put(other, 'of the other'), 201)
  t.ok(await until(async () => (await recorded()).length === 2))
  t.same(await recorded(), ['/early', '/of the other'])
  await start(0)
  t.same(await recorded(), ['/early', '/late-1', '/late-2', '/of the other'])
})
