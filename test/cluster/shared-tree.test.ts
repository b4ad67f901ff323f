/** Two gateways on one PostgreSQL database show one tree, and exclude each other's changes. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { allPermissions, permissionBits } from '../../src/accounts/principal.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { asPath as p } from '../../src/base/path.js'
import { newStorage } from '../../src/database/new-storage.js'
import { startNodes, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { altered } from '../tree/tree-fixture.js'
import { thisServer } from '../database/engines.js'
import { ruleRow } from '../database/store-rows.js'

const skip = lacks('postgres', 'initdb')

/**
 * A backend without revisions of folders, which does not check `createOnly` atomically. All gateways see the same
 * files.
 */
function slowType(delay: number): AnyDriverType {
  const backend = new MemoryDriver(0)
  const slow = altered(backend, {
    folderRevision: undefined,
    open: undefined,
    write: async (path, source, options) => {
      await wait(delay)
      return backend.write(path, source, { ...options, createOnly: false })
    },
  })
  return { name: 'Slow', fields: {}, open: async () => slow }
}

async function start(t: Test, delay = 0) {
  const store = await (await thisServer()).createDatabase()
  const [one, two] = await startNodes(t, store, 2, { driver: { name: 'Slow' }, driverTypes: [slowType(delay)] })
  if (!one || !two) throw new Error('no gateway')
  return [one, two] as const
}

const authorization = (node: RunningGateway, user = 'admin', password = node.adminPassword) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
})

function dav(node: RunningGateway, method: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...authorization(node), ...(init.headers as object) }
  return fetch(`${node.davUrl}${path}`, { ...init, method, headers })
}

async function namesOf(node: RunningGateway, path = ''): Promise<string[]> {
  const text = await (await dav(node, 'PROPFIND', path, { headers: { depth: '1' } })).text()
  return [...text.matchAll(/href>\/dav\/([^<]*)</g)].map(([, name = '']) => name).filter((name) => name !== '')
}

const lockBody =
  '<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'

async function lock(node: RunningGateway, path: string): Promise<{ status: number; token: string }> {
  const { status, headers } = await dav(node, 'LOCK', path, { body: lockBody })
  return { status, token: headers.get('lock-token') ?? '' }
}

void t.test('a node sees what another one writes, moves and removes', { skip }, async (t) => {
  const [one, two] = await start(t)
  t.same(await namesOf(two), [])
  t.equal((await dav(one, 'PUT', 'a', { body: 'first' })).status, 201)
  t.equal(await (await dav(two, 'GET', 'a')).text(), 'first')
  t.equal((await dav(one, 'PUT', 'a', { body: 'second' })).status, 204)
  t.equal(await (await dav(two, 'GET', 'a')).text(), 'second')
  // A cached listing may be late.
  await wait(250)
  t.same(await namesOf(two), ['a'])
  t.equal((await dav(one, 'MOVE', 'a', { headers: { destination: '/dav/b' } })).status, 201)
  t.equal((await dav(two, 'GET', 'a')).status, 404)
  await wait(250)
  t.same(await namesOf(two), ['b'])
  t.equal((await dav(two, 'DELETE', 'b')).status, 204)
  t.equal((await dav(one, 'GET', 'b')).status, 404)
  await wait(250)
  t.same(await namesOf(one), [])
})

void t.test('many changes of a storage that is based on another one', { skip }, async (t) => {
  const [one] = await start(t, 20)
  const create = (mountPath: string, driver: string, paths = '') => {
    const addition = JSON.stringify({ paths, put_conflict_policy: 'first' })
    return one.gateway.storages.create(newStorage({ mountPath: p(mountPath), driver, addition }))
  }
  await create('/files', 'Slow')
  await create('/alias', 'Alias', '/files')
  await create('/deep', 'Alias', '/alias')
  // More than connections that hold locks, of which each change needs three.
  const puts = Array.from({ length: 40 }, (_, index) => dav(one, 'PUT', `deep/${index}`, { body: 'x' }))
  t.same([...new Set((await Promise.all(puts)).map(({ status }) => status))], [201])
})

void t.test('of concurrent requests that create a file only if it is new, one succeeds', { skip }, async (t) => {
  const [one, two] = await start(t, 20)
  for (let round = 0; round < 10; round++) {
    const create = (node: RunningGateway, body: string) =>
      dav(node, 'PUT', `new-${round}`, { body, headers: { 'if-none-match': '*' } })
    const answers = await Promise.all([create(one, 'one'), create(two, 'two'), create(one, 'one'), create(two, 'two')])
    t.same(answers.map(({ status }) => status).sort(), [201, 412, 412, 412])
    const winner = answers.findIndex(({ status }) => status === 201)
    t.equal(await (await dav(two, 'GET', `new-${round}`)).text(), winner % 2 === 0 ? 'one' : 'two')
  }
})

void t.test('a lock excludes changes by the other node at once, and ends there too', { skip }, async (t) => {
  const [one, two] = await start(t)
  for (let round = 0; round < 10; round++) {
    const path = `locked-${round}`
    const { status, token } = await lock(one, path)
    t.equal(status, 201)
    t.equal((await dav(two, 'PUT', path, { body: 'x' })).status, 423)
    t.equal((await dav(two, 'PUT', path, { body: 'x', headers: { if: `(${token})` } })).status, 204)
    t.equal((await dav(two, 'UNLOCK', path, { headers: { 'lock-token': token } })).status, 204)
    t.equal((await dav(one, 'PUT', path, { body: 'y' })).status, 204)
  }
})

void t.test('an admin breaks a lock of which this node has not heard yet', { skip }, async (t) => {
  const store = await (await thisServer()).createDatabase()
  const [node] = await startNodes(t, store, 1)
  if (!node) throw new Error('no gateway')
  const post = async (path: string, init: RequestInit) =>
    (await (await fetch(`${node.url}/api${path}`, { method: 'POST', ...init })).json()) as {
      readonly code: number
      readonly data: { readonly token: string }
    }
  const body = JSON.stringify({ username: 'admin', password: node.adminPassword })
  const { data } = await post('/auth/login', { headers: { 'content-type': 'application/json' }, body })
  t.equal((await lock(node, 'locked')).status, 201)
  const token = 'urn:uuid:00000000-0000-4000-8000-000000000000'
  // Without a notice, as before that of another node arrives.
  const server = await thisServer()
  await server.query('alter table locks disable trigger user', store)
  await server.query(`update locks set token = '${token}'`, store)
  await server.query('alter table locks enable trigger user', store)
  const breaking = `/admin/lock/break?token=${encodeURIComponent(token)}`
  const headers = { authorization: data.token }
  t.equal((await post(breaking, { headers })).code, 200)
  t.equal((await post(breaking, { headers })).code, 404)
})

void t.test('of concurrent requests for an exclusive lock, one is granted', { skip }, async (t) => {
  const [one, two] = await start(t)
  for (let round = 0; round < 10; round++) {
    await dav(one, 'PUT', `file-${round}`, { body: 'x' })
    const answers = await Promise.all([one, two, one, two].map((node) => lock(node, `file-${round}`)))
    t.same(answers.map(({ status }) => status).sort(), [200, 423, 423, 423])
  }
})

void t.test('a change of a tree and a change in it exclude each other', { skip }, async (t) => {
  const [one, two] = await start(t, 100)
  for (let round = 0; round < 5; round++) {
    await dav(one, 'MKCOL', 'folder')
    const [moved, put] = await Promise.all([
      dav(one, 'MOVE', 'folder', { headers: { destination: '/dav/moved' } }),
      dav(two, 'PUT', 'folder/file', { body: 'x' }),
    ])
    t.equal(moved.status, 201)
    // Either the file has moved with its folder, or the folder was gone.
    const now = await dav(one, 'GET', 'moved/file')
    t.same([put.status, now.status], put.status === 201 ? [201, 200] : [409, 404])
    await dav(one, 'DELETE', 'moved')
    await dav(one, 'DELETE', 'folder')
  }
})

void t.test('a rule that one node stores holds for the next change by the other', { skip }, async (t) => {
  const [one, two] = await start(t)
  await one.gateway.accounts.users.create({
    username: 'ada',
    password: 'secret-1',
    permission: allPermissions & ~permissionBits.skipPasswords,
    basePath: '/',
    role: 'general',
    disabled: false,
    ssoId: '',
  })
  const put = (name: string) => dav(two, 'PUT', name, { body: 'x', headers: authorization(two, 'ada', 'secret-1') })
  while ((await put('before')).status === 401) await wait(20)
  await one.gateway.rules.create(ruleRow({ path: p('/'), password: 'word', passwordSub: true }))
  t.not((await put('after')).status, 201)
})
