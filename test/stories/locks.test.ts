/** Locks belong to the tree: every protocol respects them, they survive a restart, and an admin can break them. */
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { webdav } from '../../protocols/webdav/index.js'
import { permissionBits, type Permission, type Principal } from '../../src/accounts/principal.js'
import { root } from '../../src/base/path.js'
import { startDaemon, startGateway, withoutNodes, type RunningGateway } from '../gateway.js'
import { connectTo } from '../store-location.js'
import { processorTime } from '../processor-time.js'
import { basic, lockinfo, propfind, sender, texts, tokenOf } from '../protocols/webdav/dav-client.js'
import { connectHttp, connectSftp, type ProtocolClient, type Where } from './protocols.js'

async function otherProtocols(where: Where, password: string): Promise<readonly ProtocolClient[]> {
  const who = { username: 'admin', password }
  return [await connectHttp(where, who), await connectSftp(where, who)]
}

async function closeAll(protocols: readonly ProtocolClient[]): Promise<void> {
  await Promise.all(protocols.map((protocol) => protocol.close()))
}

/** Whether an API call of the admin succeeded. */
async function adminCall({ url, adminPassword }: Pick<RunningGateway, 'url' | 'adminPassword'>) {
  const post = async (path: string, token: string, body?: object) => {
    const response = await fetch(`${url}/api${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: token },
      ...(body && { body: JSON.stringify(body) }),
    })
    return (await response.json()) as { readonly code: number; readonly data: { readonly token: string } }
  }
  const { data } = await post('/auth/login', '', { username: 'admin', password: adminPassword })
  return async (path: string) => (await post(path, data.token)).code
}

void t.test('a lock survives a killed daemon, and blocks changes by all protocols', async (t) => {
  const first = await startDaemon(t)
  const send = sender(first)
  await send('MKCOL', '/folder')
  await send('PUT', '/folder/file', {}, 'old')
  const locked = await send('LOCK', '/folder', { timeout: 'Second-600' }, lockinfo('exclusive'))
  const token = tokenOf(locked)
  await first.kill()

  const second = await startDaemon(t, { dataFolder: first.dataFolder })
  const again = sender(second)
  const { body } = await again('PROPFIND', '/folder/file', { depth: '0' }, propfind('<D:lockdiscovery/>'))
  t.match(body, token.slice(1, -1))
  t.match(body, /mailto:someone/)
  t.ok(Number(/Second-(\d+)/.exec(body)?.[1]) <= 600)
  t.equal((await again('PUT', '/folder/file', {}, 'new')).status, 423)
  const protocols = await otherProtocols(second, second.adminPassword)
  for (const protocol of protocols) {
    t.equal(await protocol.put('/folder/file', Buffer.from('new')), 'locked', `${protocol.protocol}: an old file`)
    t.equal(await protocol.put('/folder/new', Buffer.from('new')), 'locked', `${protocol.protocol}: a new one`)
    t.equal(await protocol.makeFolder('/folder/below'), 'locked', `${protocol.protocol}: a folder`)
    t.equal(await protocol.rename('/folder/file', '/folder/other'), 'locked', `${protocol.protocol}: a rename`)
    t.equal(await protocol.remove('/folder/file'), 'locked', `${protocol.protocol}: a removal`)
  }
  t.equal((await again('PUT', '/folder/file', { if: `<${second.davUrl}folder> (${token})` }, 'mine')).status, 204)
  t.equal((await again('UNLOCK', '/folder', { 'lock-token': token })).status, 204)
  for (const protocol of protocols) t.equal(await protocol.put('/folder/file', Buffer.from(protocol.protocol)), 'done')
  await closeAll(protocols)
})

void t.test('locks by WebDAV', async (t) => {
  const running = await startGateway(t)
  const send = sender(running)
  const protocols = await otherProtocols(running, running.adminPassword)
  t.teardown(() => closeAll(protocols))

  await t.test('other protocols cannot move or remove a folder that contains a locked file', async (t) => {
    for (const folder of ['/top', '/top/in']) await send('MKCOL', folder)
    await send('PUT', '/top/in/file', {}, 'kept')
    const token = tokenOf(await send('LOCK', '/top/in/file', {}, lockinfo('exclusive')))
    for (const protocol of protocols) {
      t.equal(await protocol.rename('/top', '/elsewhere'), 'locked', `${protocol.protocol}: a move of a parent`)
      t.equal(await protocol.rename('/top/in', '/top/out'), 'locked', `${protocol.protocol}: a rename of a parent`)
    }
    t.equal(await protocols[0]?.remove('/top'), 'locked')
    t.equal((await send('GET', '/top/in/file')).body, 'kept')
    t.equal((await send('MOVE', '/top', { destination: '/dav/gone', if: `</dav/top/in/file> (${token})` })).status, 201)
    t.equal((await send('PUT', '/gone/in/file', {}, 'free')).status, 204, 'the lock was not moved')
    await running.gateway.locks.reload()
    t.same(running.gateway.locks.list(), [])
  })

  await t.test(
    'a lock that an admin breaks while its owner uploads stops the upload, and nothing is stored',
    async (t) => {
      const admin = await adminCall(running)
      await send('PUT', '/broken', {}, 'old')
      const token = tokenOf(await send('LOCK', '/broken', {}, lockinfo('exclusive')))
      const upload = slowPut(running, '/broken', { if: `(${token})` })
      await upload.begun
      t.equal(await admin(`/admin/lock/break?token=${encodeURIComponent(token.slice(1, -1))}`), 200)
      t.equal(await upload.finish(), 412)
      t.equal((await send('GET', '/broken')).body, 'old')
      t.equal(await protocols[0]?.put('/broken', Buffer.from('new')), 'done')
    },
  )

  await t.test('a lock does not expire while its owner uploads, and expires afterwards', async (t) => {
    await send('PUT', '/slow', {}, 'old')
    const token = tokenOf(await send('LOCK', '/slow', { timeout: 'Second-1' }, lockinfo('exclusive')))
    const upload = slowPut(running, '/slow', { if: `(${token})` })
    await upload.begun
    await wait(1800)
    t.equal((await send('PUT', '/slow', {}, 'theirs')).status, 423)
    t.equal(await upload.finish(), 204)
    await wait(1200)
    t.equal((await send('PUT', '/slow', {}, 'free')).status, 204)
  })

  await t.test('a lock blocks an upload that began before it', async (t) => {
    await send('PUT', '/race', {}, 'old')
    const upload = slowPut(running, '/race', {})
    await upload.begun
    const token = tokenOf(await send('LOCK', '/race', {}, lockinfo('exclusive')))
    t.equal(await upload.finish(), 423)
    t.equal((await send('GET', '/race')).body, 'old')
    await send('UNLOCK', '/race', { 'lock-token': token })
  })

  await t.test('a user who may not change a file cannot lock it', async (t) => {
    await send('PUT', '/file', {}, 'x')
    const as = async (name: string, permissions: readonly Permission[]) => {
      const permission = permissions.reduce((sum, each) => sum | permissionBits[each], 0)
      const password = 'a password of theirs'
      const user = {
        username: name,
        password,
        basePath: root,
        role: 'general',
        permission,
        disabled: false,
        ssoId: '',
      } as const
      await running.gateway.accounts.users.create(user)
      return sender(running, { authorization: basic(name, password) })
    }
    const reader = await as('reader', ['webdavRead', 'write'])
    const looker = await as('looker', ['webdavRead', 'webdavManage'])
    const writer = await as('writer', ['webdavRead', 'webdavManage', 'write'])
    const wish = lockinfo('exclusive')
    t.equal((await reader('LOCK', '/file', {}, wish)).status, 403)
    t.equal((await looker('LOCK', '/file', {}, wish)).status, 403)
    t.equal((await looker('LOCK', '/new', {}, wish)).status, 403)
    t.equal((await send('GET', '/new')).status, 404)
    const token = tokenOf(await writer('LOCK', '/file', {}, wish))
    t.equal((await reader('UNLOCK', '/file', { 'lock-token': token })).status, 403)
    t.equal(
      (await send('UNLOCK', '/file', { 'lock-token': token })).status,
      403,
      'an admin breaks a lock of another path',
    )
    t.equal((await writer('UNLOCK', '/file', { 'lock-token': token })).status, 204)
  })

  // It measures the processor time of one process.
  await t.test('ten thousand locks in one folder do not slow other requests', { skip: withoutNodes }, async (t) => {
    const { gateway } = running
    const principal = await gateway.accounts.signIn.byPassword(
      { username: 'admin', password: { plain: running.adminPassword }, address: '127.0.0.1' },
      webdav,
    )
    await send('MKCOL', '/many')
    await send('PUT', '/many/file-7', {}, 'x')
    await send('PUT', '/free', {}, 'x')
    const times = async () => {
      const of = (...request: Parameters<typeof send>) => processorTime(() => send(...request), 5)
      return [
        await of('PUT', '/free', {}, 'y'),
        await of('LOCK', '/free', {}, lockinfo('shared')),
        await of('PROPFIND', '/many', { depth: '1' }),
      ]
    }
    const few = await times()
    const heap = process.memoryUsage().heapUsed
    await fillLocks(running.dataFolder, principal, 9_981)
    await gateway.locks.reload()
    t.ok(process.memoryUsage().heapUsed - heap < 50 * 2 ** 20)
    const many = await times()
    t.comment(`processor time of PUT, LOCK and PROPFIND, in ms: ${few.join(', ')}, then ${many.join(', ')}`)
    for (const [index, time] of many.entries()) t.ok(time < 10 * (few[index] ?? 0), `${time} ms`)
    t.equal((await send('PUT', '/many/file-7', {}, 'y')).status, 423)
    const told = await send('DELETE', '/many')
    t.equal(told.status, 207)
    t.equal(texts(told.body, 'status')[0], 'HTTP/1.1 423 Locked')
    t.equal((await send('LOCK', '/many', {}, lockinfo('shared'))).status, 207)
    for (let index = 0; index < 9; index++) await send('LOCK', `/more-${index}`, {}, lockinfo('shared'))
    const refused = await send('LOCK', '/one-more', {}, lockinfo('exclusive'))
    t.ok(refused.status >= 400, 'the number of locks is limited')
  })
})

/** Creates locks as LOCK requests would, without a disk sync for each. */
async function fillLocks(dataFolder: string, { userId, username }: Principal, count: number): Promise<void> {
  const database = await connectTo(dataFolder)
  const rows = Array.from({ length: count }, (_, index) => ({
    token: `urn:uuid:${randomUUID()}`,
    path: `/many/file-${index}`,
    user_id: userId,
    username,
    scope: 'exclusive',
    deep: true,
    owner: '',
    expires: Date.now() + 600_000,
  }))
  await database.batchInsert('locks', rows, 500)
  await database.destroy()
}

interface SlowPut {
  /** Resolves when the protocol has begun to read. */
  readonly begun: Promise<void>
  /** Sends the rest of the body. Resolves to the status. */
  finish(): Promise<number>
}

/** Sends half of a body, and the rest on demand. */
function slowPut(running: RunningGateway, path: string, headers: Readonly<Record<string, string>>): SlowPut {
  const { hostname, port } = new URL(running.url)
  const half = 'x'.repeat(300_000)
  const sent = request({
    hostname,
    port,
    method: 'PUT',
    path: `/dav${path}`,
    headers: {
      authorization: basic('admin', running.adminPassword),
      'content-length': 2 * half.length,
      expect: '100-continue',
      ...headers,
    },
  })
  sent.flushHeaders()
  const status = new Promise<number>((resolve, reject) => {
    sent.on('response', (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    sent.on('error', reject)
  })
  const begun = new Promise<void>((resolve) => {
    sent.on('continue', () => sent.write(half, () => resolve()))
  })
  return {
    begun,
    finish: () => {
      sent.end(half)
      return status
    },
  }
}
