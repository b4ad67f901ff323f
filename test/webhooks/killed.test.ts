/** Webhooks of daemons that are killed: nothing that was answered is lost. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { thisServer } from '../database/engines.js'
import { prepareNodes, startDaemon, type Daemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { until } from '../until.js'
import { accept, startReceiver, verify, type Receiver } from './receiver.js'

interface Told {
  readonly data: { readonly token: string; readonly secret: string }
}

async function post({ url }: Daemon, path: string, body: object, authorization = ''): Promise<Told['data']> {
  const headers = { 'content-type': 'application/json', authorization }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return ((await response.json()) as Told).data
}

/** Resolves to the secret of a webhook that gets all stored files. */
async function addHook(daemon: Daemon, { url }: Receiver): Promise<string> {
  const { token } = await post(daemon, '/api/auth/login', { username: 'admin', password: daemon.adminPassword })
  const { url: origin } = daemon
  await fetch(`${origin}/api/admin/setting/save`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: token },
    body: JSON.stringify([{ key: 'egress_networks', value: '127.0.0.0/8' }]),
  })
  return (await post(daemon, '/api/admin/webhook/create', { name: 'all', url, kinds: ['file.stored'] }, token)).secret
}

/** Stores a file. Resolves to whether it was answered. */
async function put({ davUrl, adminPassword }: Daemon, name: string): Promise<boolean> {
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const response = await fetch(davUrl + name, { method: 'PUT', body: name, headers: { authorization } }).catch(
    () => null,
  )
  return response?.status === 201
}

function pathsOf({ received }: Receiver): ReadonlySet<string> {
  return new Set(received.map(({ event }) => event.subject ?? ''))
}

/** Whether the receiver has got all of these files. */
async function hasGot(t: Test, receiver: Receiver, secret: string, names: readonly string[]): Promise<void> {
  t.ok(await until(() => names.every((name) => pathsOf(receiver).has(`/${name}`))))
  for (const message of receiver.received) verify(secret, message)
}

void t.test('after kill -9 what was stored is delivered by the next start', async (t) => {
  const receiver = await startReceiver(t, () => undefined)
  const first = await startDaemon(t)
  const secret = await addHook(first, receiver)
  const names = Array.from({ length: 30 }, (_, index) => `file ${index}`)
  const [early = '', ...others] = names
  t.ok(await put(first, early))
  t.ok(await until(() => receiver.received.length > 0), 'one delivery hangs')
  // Some of these are in the table when the daemon is killed, the last ones in its file only.
  for (const name of others) t.ok(await put(first, name))
  await first.kill()
  receiver.script = accept
  await startDaemon(t, { dataFolder: first.dataFolder })
  await hasGot(t, receiver, secret, names)
})

void t.test(
  'a killed node delivers no more, and another one does',
  { skip: lacks('postgres', 'initdb') },
  async (t) => {
    const files = await mkdtemp(join(tmpdir(), 'tidegate-shared-'))
    t.teardown(() => rm(files, { recursive: true, force: true, maxRetries: 3 }))
    const store = await (await thisServer()).createDatabase()
    const folders = await prepareNodes(t, store, 2, files)
    const environment = { TIDEGATE_STORE: store }
    const one = await startDaemon(t, { dataFolder: folders[0] ?? '', environment })
    const two = await startDaemon(t, { dataFolder: folders[1] ?? '', environment })
    const receiver = await startReceiver(t)
    const secret = await addHook(one, receiver)
    // The other node has to know the webhook.
    t.ok(await until(async () => (await put(two, `warm ${performance.now()}`)) && receiver.received.length > 0))
    const names = Array.from({ length: 10 }, (_, index) => `file ${index}`)
    // Only these hang: others that are on the way must not take their turns.
    receiver.script = (answer, turn, message) => {
      if (message.event.subject?.startsWith('/file ') !== true) accept(answer, turn, message)
    }
    for (const name of names.slice(0, 5)) t.ok(await put(two, name))
    t.ok(await until(() => pathsOf(receiver).has('/file 0')))
    await one.kill()
    receiver.script = accept
    for (const name of names.slice(5)) t.ok(await put(two, name))
    await hasGot(t, receiver, secret, names)
  },
)
