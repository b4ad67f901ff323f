/**
 * A move between two storages copies item by item. Meanwhile grants and folder rules hold at both paths in every
 * process: in two workers, and on three nodes.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { Agent, request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { openStore } from '../../src/database/store.js'
import { thisServer } from '../database/engines.js'
import { startDaemon, startNodes, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { storeOf } from '../store-location.js'
import { connect, type Client } from '../stories/task-client.js'
import { until } from '../until.js'
import { mountSlow, setSpeed } from './slow-storages.js'

type Place = Pick<Daemon, 'davUrl' | 'url' | 'adminPassword'>

/** Fresh connections to one address, of which one reaches each worker. */
const connections = 8
/** KiB per second: the large file takes much longer than the small ones. */
const slow = '200'
const sizes = { small: 1000, large: 4 * 1024 * 1024 }
const annPassword = 'a password of ann'
/** At the old path, the folders that Ann does not see and that have a password. */
const closed = ['denied', 'locked'] as const
/** What Ann is answered for these: the one is not found, the other needs a password. */
const refused = '403,404'

let remote: Promise<Daemon> | undefined
const theRemote = () => (remote ??= startDaemon(t))

/** Folders with small files and one large file, and a storage to which they are moved slowly. */
async function stage(t: Test, place: Place): Promise<Client> {
  const folder = join(t.testdir({ left: {} }), 'left')
  for (const name of closed) {
    await mkdir(join(folder, 'tree', name), { recursive: true })
    await writeFile(join(folder, 'tree', name, 'small'), randomBytes(sizes.small))
  }
  await writeFile(join(folder, 'tree', 'large'), randomBytes(sizes.large))
  const client = await connect(place)
  await setSpeed(client, slow)
  await mountSlow(client, folder, await theRemote())
  await client.post('/api/admin/user/create', {
    username: 'ann',
    password: annPassword,
    base_path: '/',
    role: 0,
    permission: permissionBits.webdavRead,
    grants: [{ path: '/left/tree/denied', allow: [], deny: ['see'] }],
  })
  await client.post('/api/admin/meta/create', { path: '/left/tree/locked', password: 'secret', p_sub: true })
  return client
}

/** The status of a request over a connection of its own. */
function ask(place: Place, method: string, path: string, { ann = true, destination = '' } = {}): Promise<number> {
  const who = ann ? `ann:${annPassword}` : `admin:${place.adminPassword}`
  const headers = {
    authorization: `Basic ${Buffer.from(who).toString('base64')}`,
    ...(destination !== '' && { destination: `${place.davUrl.slice(0, -1)}${destination}` }),
  }
  return new Promise((resolve, reject) => {
    const sent = request(`${place.davUrl.slice(0, -1)}${path}`, { method, headers, agent: new Agent() })
    sent.on('error', reject)
    sent.on('response', (response: IncomingMessage) => {
      response.resume().on('close', () => resolve(response.statusCode ?? 0))
    })
    sent.end()
  })
}

/** What each process answers to these requests. */
async function answers(places: readonly Place[], asked: (place: Place) => Promise<readonly number[]>): Promise<string> {
  const all = Array.from({ length: connections }, async (_, at) => {
    const place = places[at % places.length]
    return place === undefined ? [] : asked(place)
  })
  return [...new Set((await Promise.all(all)).flat())].sort().join()
}

/** What is answered for the small files below a folder. */
function small(places: readonly Place[], folder: string, ann: boolean): Promise<string> {
  return answers(places, (place) =>
    Promise.all(closed.map((name) => ask(place, 'GET', `${folder}/${name}/small`, { ann }))),
  )
}

/** Begins the move in the first process. Resolves when the small files are seen by an admin at the new path. */
async function beginMove(t: Test, places: readonly [Place, ...Place[]], target: string) {
  const large = (place: Place) => ask(place, 'HEAD', '/left/tree/large').then((status) => [status])
  const isKnown = async () =>
    (await answers(places, large)) === '200' && (await small(places, '/left/tree', true)) === refused
  t.ok(await until(isKnown), 'all have the storage and its rules')
  const moved = ask(places[0], 'MOVE', '/left/tree', { ann: false, destination: target })
  moved.catch(() => undefined)
  t.ok(await until(async () => (await small(places, target, false)) === '200'), 'the small files are there')
  t.equal(await small(places, target, true), refused)
  return { moved }
}

/** Ann is let in nowhere while the folder is moved, nor afterwards. */
async function testMove(t: Test, places: readonly [Place, ...Place[]], client: Client, target: string): Promise<void> {
  const { moved } = await beginMove(t, places, target)
  t.equal(await small(places, '/left/tree', true), refused)
  await setSpeed(client, '-1')
  t.equal(await moved, 201)
  t.equal(await small(places, target, true), refused)
  t.equal(await small(places, target, false), '200')
}

void t.test('on three nodes', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const [one, two, three] = await startNodes(t, await (await thisServer()).createDatabase(), 3)
  if (!one || !two || !three) throw new Error('no gateway')
  const client = await stage(t, one)
  await testMove(t, [one, two, three], client, '/far/by-nodes')
  t.same(await two.gateway.store.moves.ofOthers(), [])
})

const run = promisify(execFile)

void t.test('in two workers, also when the one that moves is killed', { skip: lacks('ps') }, async (t) => {
  const daemon = await startDaemon(t, { environment: { TIDEGATE_WORKERS: '2' } })
  const client = await stage(t, daemon)
  const location = await storeOf(daemon.dataFolder)
  const store = await openStore(location)
  t.teardown(() => store.close())
  t.ok(await killMover(t, daemon, location), 'the database knows which node moves it')
  t.ok(await until(async () => (await store.moves.ofOthers()).length === 0), 'the move ends with its node')
  t.equal(await small([daemon], '/left/tree', true), refused)
  t.equal(await small([daemon], '/left/tree', false), '200', 'nothing was removed')
  // What was copied stays as a copy does.
  t.equal(await ask(daemon, 'DELETE', '/far/by-workers', { ann: false }), 204)
  await testMove(t, [daemon], client, '/far/by-workers')
})

/** Kills the worker that moves the folder. Returns whether it was found. */
async function killMover(t: Test, daemon: Daemon, location: string): Promise<boolean> {
  const { moved } = await beginMove(t, [daemon], '/far/by-workers')
  const reader = await openStore(location)
  const nodes = await reader.nodes.all()
  await reader.close()
  for (const { id, name } of nodes) {
    // Only its own node does not take the move for one of others.
    const own = await openStore(location, { node: id })
    const isOwn = (await own.moves.ofOthers()).length === 0
    await own.close()
    if (!isOwn) continue
    const pid = Number(name.split(':').at(-1))
    const { stdout } = await run('ps', ['-o', 'ppid=', '-p', String(pid)])
    if (Number(stdout) !== daemon.pid) throw new Error(`${pid} is no worker of the daemon`)
    process.kill(pid, 'SIGKILL')
    await t.rejects(moved)
    return true
  }
  return false
}
