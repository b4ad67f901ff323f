/**
 * The audit has what clients did, by every protocol, each thing once: also what a daemon had answered that was killed
 * the moment after.
 */
import { randomInt } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import type { AuditFilter, NumberedEvent } from '../../src/database/audit-rows.js'
import { openStore } from '../../src/database/store.js'
import type { Store } from '../../src/database/tables.js'
import { startDaemon, startGateway, storageStarted, withoutNodes, type Daemon } from '../gateway.js'
import { storeOf } from '../store-location.js'
import { until } from '../until.js'
import { connectAll, openSftp, type ProtocolClient } from './protocols.js'
import { connect } from './task-client.js'

/** `npm run soak` has more. */
const operations = Number(process.env.TIDEGATE_AUDIT_OPERATIONS ?? 300)
const kills = Math.max(2, Math.ceil(operations / 500))

async function eventsOf(store: Pick<Store, 'audit'>, filter: AuditFilter = {}): Promise<readonly NumberedEvent[]> {
  const events: NumberedEvent[] = []
  for (let number = 0; ; number = events.at(-1)?.number ?? 0) {
    const page = await store.audit.after(number, filter, 1000)
    if (page.length === 0) return events
    events.push(...page)
  }
}

const treeKinds = ['file.stored', 'file.replaced', 'folder.made', 'link.made', 'moved', 'copied', 'removed'] as const

const newUser = {
  password: 'a password',
  basePath: asPath('/'),
  role: 'general',
  permission: 0xffff,
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
    await client.close()
  }
  await until(async () => (await eventsOf(store, { user: 'bob', kinds: treeKinds })).length >= 9)
  const events = await eventsOf(store, { user: 'bob', kinds: treeKinds })
  t.equal(events.length, 9)
  for (const { result, error, decidedBy, actor } of events) {
    t.equal(result, 'refused')
    t.equal(error, 'denied')
    t.match(decidedBy, /^the permission |^right$|^protocol$/, `${actor.protocol}: ${decidedBy}`)
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

/** A client that makes random changes in its own folder, and what it was told of them. */
class Worker {
  readonly expected: { readonly text: string; readonly isSure: boolean }[] = []
  #files: string[] = []
  #count = 0

  constructor(readonly protocol: ProtocolClient['protocol']) {}

  get folder(): string {
    return `/${this.protocol}`
  }

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
    const answer = await Promise.race([work.catch(() => 'failed'), wait(20_000, 'failed', { ref: false })])
    if (answer !== 'done' && answer !== 'failed') throw new Error(`${this.protocol}: ${text}: ${String(answer)}`)
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
      t.fail(`${worker.protocol}: ${text} is not recorded; there is ${events[at]}`)
      return
    }
  }
  t.same(events.slice(at), [], `${worker.protocol}: nothing else is recorded`)
}

void t.test('of random changes with kills between them, each is recorded once', { skip: withoutNodes }, async (t) => {
  let daemon: Daemon = await startDaemon(t)
  const { dataFolder, adminPassword } = daemon
  const who = { username: 'admin', password: adminPassword }
  await storageStarted(daemon)
  let clients = await connectAll(daemon, who)
  const workers = clients.map(({ protocol }) => new Worker(protocol))
  for (const client of clients) await client.makeFolder(`/${client.protocol}`)
  for (let round = 0; round <= kills; round++) {
    let isKilled = false
    const work = workers.map(async (worker, index) => {
      const client = clients[index]
      for (let count = 0; count < operations / 3 / (kills + 1) && client && !isKilled; count++)
        await worker.step(client)
    })
    if (round < kills) {
      await wait(randomInt(50, 400))
      isKilled = true
      await daemon.kill()
      await Promise.all(work)
      daemon = await startDaemon(t, { dataFolder, adminPassword })
      await storageStarted(daemon)
      clients = await connectAll(daemon, who)
    } else await Promise.all(work)
  }
  for (const client of clients) await client.close()
  t.equal(await daemon.stop(), 0)
  const store = await openStore(await storeOf(dataFolder, t))
  t.teardown(() => store.close())
  const done = (await eventsOf(store, { kinds: treeKinds })).filter(({ result }) => result === 'done')
  for (const worker of workers) {
    const own = done.filter(({ path }) => path?.startsWith(`${worker.folder}/`) === true)
    // By their ids, which are in the order of time: rows are in that of groups.
    const sorted = [...own].sort((one, other) => (one.id < other.id ? -1 : 1))
    compare(t, worker, sorted.map(told))
    t.ok(worker.expected.length > 0)
  }
})
