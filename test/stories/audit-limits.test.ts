/** The audit at its limits: a full disk, a database that is away, and very many refusals. The daemon serves. */
import { execFile } from 'node:child_process'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { driverTypes } from '../../drivers/index.js'
import type { NumberedEvent } from '../../src/database/audit-rows.js'
import { openStore } from '../../src/database/store.js'
import { runFirst } from '../first-run.js'
import { startDaemon, startGateway, storageStarted, withoutNodes, type Daemon } from '../gateway.js'
import { resident } from '../resident-memory.js'
import { connectTo, storeOf } from '../store-location.js'
import { until } from '../until.js'
import { connect } from './task-client.js'
import t, { type Test } from 'tap'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

/** `npm run soak` has more. */
const refusals = Number(process.env.TIDEGATE_REFUSALS ?? 20_000)

type Served = Pick<Daemon, 'davUrl' | 'adminPassword'>

/** Sends a request of WebDAV as the administrator. Resolves to its status. */
async function dav({ davUrl, adminPassword }: Served, method: string, path: string, body?: Buffer): Promise<number> {
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const sent = body && { body: new Uint8Array(body) }
  const response = await fetch(davUrl + path, { method, headers: { authorization }, ...sent })
  await response.arrayBuffer()
  return response.status
}

async function allEvents(t: Test, dataFolder: string): Promise<readonly NumberedEvent[]> {
  const store = await openStore(await storeOf(dataFolder, t))
  t.teardown(() => store.close())
  const events: NumberedEvent[] = []
  for (let last = 0; ; last = events.at(-1)?.number ?? 0) {
    const { events: page } = await store.audit.after(last, {}, 1000)
    if (page.length === 0) return events
    events.push(...page)
  }
}

/** A small file system of its own, which ends with the test. Undefined if this process may not mount any. */
async function smallDisk(t: Test, mebibytes: number): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-small-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=700`, 'tmpfs', folder])
  } catch {
    return undefined
  }
  t.teardown(() => run('umount', ['-l', folder]))
  return folder
}

/** Writes a file until nothing more fits. */
async function fill(path: string): Promise<void> {
  const file = await open(path, 'w')
  try {
    for (const size of [mebibyte, 4096, 1]) {
      for (;;) {
        const written = await file.write(Buffer.alloc(size)).catch(() => undefined)
        if (written === undefined || written.bytesWritten < size) break
      }
    }
  } finally {
    await file.close()
  }
}

void t.test(
  'on a full disk files are read and removed, and every change is recorded',
  { skip: withoutNodes },
  async (t) => {
    const dataFolder = await smallDisk(t, 48)
    if (dataFolder === undefined) return void t.pass('this process may not mount a file system')
    const adminPassword = 'a password for tests'
    await runFirst(dataFolder, adminPassword, driverTypes, await storeOf(dataFolder, t))
    const daemon = await startDaemon(t, { dataFolder, adminPassword })
    await storageStarted(daemon)
    const expected: string[] = []
    const counts: Record<string, number> = {}
    const change = async (method: 'PUT' | 'MKCOL' | 'DELETE', path: string, size = 5) => {
      const status = await dav(daemon, method, path, method === 'PUT' ? Buffer.alloc(size) : undefined)
      counts[`${method} ${status}`] = (counts[`${method} ${status}`] ?? 0) + 1
      const kind = { PUT: 'file.stored', MKCOL: 'folder.made', DELETE: 'removed' }[method]
      if (status === 201 || status === 204) expected.push(`${kind} /${path}`)
      else t.equal(status, 507, `${method} ${path}`)
      return status
    }
    for (let number = 0; number < 200; number++) t.equal(await change('PUT', `before-${number}`), 201)
    const large = join(dataFolder, 'files', 'large')
    await fill(large)
    t.equal(await change('PUT', 'too-large', mebibyte), 507)
    for (let number = 0; number < 200; number++) {
      await change('PUT', `small-${number}`)
      await change('MKCOL', `folder-${number}`)
      t.equal(await change('DELETE', `before-${number}`), 204, 'what is removed makes room')
      // That room too.
      await fill(join(dataFolder, 'files', `large-${number}`))
      t.equal(await dav(daemon, 'GET', `before-199`), number === 199 ? 404 : 200)
    }
    t.comment(counts)
    t.equal(await change('DELETE', 'large'), 204)
    t.ok(await until(async () => (await change('PUT', `after-${performance.now()}`)) === 201))
    t.equal(await daemon.stop(), 0)
    const events = await allEvents(t, dataFolder)
    const done = events.filter(({ result, path }) => result === 'done' && path !== undefined)
    t.same(
      done.map(({ kind, path }) => `${kind} ${path}`),
      expected,
    )
    t.notMatch(daemon.log, /events of the audit were lost/)
  },
)

void t.test(
  'while the database is away and the files are full, nothing is added, and nothing is lost',
  { skip: withoutNodes },
  async (t) => {
    const running = await startGateway(t)
    const { gateway, dataFolder } = running
    const client = await connect(running)
    await client.post('/api/admin/setting/save', [{ key: 'audit_max_mib', value: '1' }])
    // Long paths, so that few events fill the files.
    const folder = Array.from({ length: 12 }, (_, index) => `${index}-${'x'.repeat(230)}`)
    for (let depth = 1; depth <= folder.length; depth++) {
      t.equal(await dav(running, 'MKCOL', folder.slice(0, depth).join('/')), 201)
    }
    const database = await connectTo(dataFolder)
    t.teardown(() => database.destroy())
    await database.raw('alter table audit rename to audit_away')
    const stored: string[] = []
    let status = 201
    for (let number = 0; number < 2000 && status === 201; number++) {
      const path = `${folder.join('/')}/${number}`
      status = await dav(running, 'PUT', path, Buffer.from('x'))
      if (status === 201) stored.push(`file.stored /${path}`)
    }
    t.equal(status, 507)
    t.ok(stored.length > 300 && stored.length < 500, `${stored.length} files`)
    t.equal(await dav(running, 'MKCOL', 'refused'), 507)
    t.equal(await dav(running, 'PROPFIND', ''), 207)
    const last = stored.at(-1)?.slice('file.stored /'.length) ?? ''
    t.equal(await dav(running, 'DELETE', last), 204, 'removals go on')
    await database.raw('alter table audit_away rename to audit')
    t.ok(await until(async () => (await dav(running, 'PUT', 'after', Buffer.from('x'))) === 201))
    t.equal(gateway.audit.lost, 0)
    await running.stop()
    const done = (await allEvents(t, dataFolder)).filter(
      ({ result, kind }) => result === 'done' && kind !== 'folder.made',
    )
    t.same(
      done.flatMap(({ kind, path }) => (path === undefined ? [] : `${kind} ${path}`)),
      [...stored, `removed /${last}`, 'file.stored /after'],
    )
  },
)

void t.test(
  'very many refusals from one network are counted, and the daemon serves',
  { skip: withoutNodes },
  async (t) => {
    // What the flood left in memory would end the daemon, or grow until the end.
    const daemon = await startDaemon(t, { environment: { NODE_OPTIONS: '--max-old-space-size=96' } })
    await storageStarted(daemon)
    const admin = await connect(daemon)
    const bob = { username: 'bob', password: 'a password', base_path: '/', permission: 0x100, role: 0 }
    await admin.post('/api/admin/user/create', bob)
    const agent = new Agent({ keepAlive: true, maxSockets: 32 })
    t.teardown(() => agent.destroy())
    const { hostname, port } = new URL(daemon.url)
    const ask = (headers: Record<string, string>, method: string, path: string) =>
      new Promise<number>((resolve, reject) => {
        const sent = request({ hostname, port, agent, method, path, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode ?? 0))
        })
        sent.once('error', reject).end()
      })
    const basic = (name: string, password: string) => ({
      authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
    })
    // Half of them have a wrong password; the others may not do what they ask for.
    const kinds = [
      () => ask(basic('bob', bob.password), 'MKCOL', '/dav/folder'),
      () => ask(basic(`nobody-${Math.random()}`, 'wrong'), 'PROPFIND', '/dav/'),
    ]
    const statuses = new Map<number, number>()
    let sent = 0
    const memory: number[] = []
    const step = Math.ceil(refusals / 20)
    const slowest: number[] = []
    const start = performance.now()
    const work = Array.from({ length: 32 }, async () => {
      while (sent < refusals) {
        const number = sent++
        if (number % step === 0) memory.push(await resident(daemon))
        const status = (await kinds[number % 2]?.()) ?? 0
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    })
    let isOver = false
    const others = (async () => {
      for (let number = 0; !isOver; number++) {
        const before = performance.now()
        // A sign-in from this address is refused now, and a session is not.
        await admin.post('/api/fs/mkdir', { path: `/of admin/${number}` })
        slowest.push(performance.now() - before)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    })()
    await Promise.all(work)
    const seconds = (performance.now() - start) / 1000
    isOver = true
    await others
    t.equal(await daemon.stop(), 0)
    const events = await allEvents(t, daemon.dataFolder)
    const refused = events.filter(({ result }) => result === 'refused')
    const counted = refused.reduce((sum, { count = 1 }) => sum + count, 0)
    const [early, late] = [Math.max(...memory.slice(0, 10)), Math.max(...memory.slice(10))]
    const told = [...statuses].map(([status, count]) => `${count} × ${status}`).join(', ')
    t.comment(`${refusals} requests in ${seconds.toFixed(1)} s, ${Math.round(refusals / seconds)} in a second: ${told}`)
    t.comment(`${refused.length} rows with ${counted} refusals`)
    t.comment(`memory in MiB: ${memory.map((bytes) => Math.round(bytes / mebibyte)).join(' ')}`)
    t.comment(`slowest change of another user: ${Math.max(...slowest).toFixed(0)} ms`)
    t.equal(counted, refusals)
    t.equal(
      events.filter(({ kind, path }) => kind === 'folder.made' && path?.startsWith('/of admin/')).length,
      slowest.length,
    )
    const minutes = Math.ceil(seconds / 60) + 1
    t.ok(refused.length <= 101 * 4 * minutes, `${refused.length} rows`)
    t.ok(late - early < 48 * mebibyte, 'memory stays')
    t.ok(Math.max(...slowest) < 5000)
  },
)
