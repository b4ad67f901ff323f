/** Locks of visitors of a share: what others are told of them, and when they end. */
import t, { type Test } from 'tap'
import { permissionBits, type Permission } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import type { ShareFields } from '../../src/shares/shares.js'
import '../fast-hashes.js'
import { startGateway } from '../gateway.js'
import { basic, lockinfo, propfind, sender, texts, tokenOf, type Send } from '../protocols/webdav/dav-client.js'
import { flags, names, PacketClient, packetClient, string } from '../protocols/sftp/packet-client.js'
import { openChannel } from '../protocols/sftp/server-fixture.js'
import { until } from '../until.js'
import ssh2 from 'ssh2'

const depth0 = { depth: '0' }
const infinity = { depth: 'infinity' }

/** One gateway for all tests: Ann shares `/docs`, in which Bob works too. */
async function start(t: Test) {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const { accounts, shares } = running.gateway
  const may: readonly Permission[] = [
    'share',
    'write',
    'remove',
    'webdavRead',
    'webdavManage',
    'sftpRead',
    'sftpManage',
  ]
  const add = (username: string) =>
    accounts.users.create({
      ...{ username, password: `password of ${username}`, role: 'general', disabled: false, ssoId: '', basePath: '/' },
      permission: may.reduce((sum, permission) => sum + permissionBits[permission], 0),
    })
  const annId = (await add('ann')).id
  await add('bob')
  const admin = sender(running)
  await admin('MKCOL', '/docs')
  const share = async (fields: Partial<ShareFields> = {}) => {
    const defaults: ShareFields = {
      ...{ creatorId: annId, mode: 'both', code: '', expires: undefined, maxVisits: 0, disabled: false },
      ...{ remark: '', readme: '', header: '', orderBy: '', orderDirection: '', extractFolder: '', allowFrom: [] },
      ...{ webdav: true, uploadMaxBytes: 0, uploadMaxFiles: 0 },
    }
    return (await shares.create('', { ...defaults, ...fields }, [asPath('/docs')])).id
  }
  const user = (username: string) => sender(running, { authorization: basic(username, `password of ${username}`) })
  const visitor = (id: string) => sender(running, { authorization: basic(id, ''), prefix: `/dav/@s/${id}` })
  return { running, admin, ann: user('ann'), bob: user('bob'), share, visitor }
}

/** Locks a file as davfs2 does, with the user name as the owner. */
async function locked(visitor: Send, path: string, id: string): Promise<string> {
  const reply = await visitor('LOCK', path, depth0, lockinfo('exclusive').replace('mailto:someone', id))
  if (reply.status > 201) throw new Error(`LOCK: ${reply.status}`)
  return tokenOf(reply)
}

void t.test('locks of visitors', async (t) => {
  const { running, admin, ann, bob, share, visitor } = await start(t)
  const { gateway, url, sftpPort } = running

  const api = async (username: string) => {
    const post = async (path: string, init: RequestInit) => {
      const response = await fetch(url + path, init)
      return (await response.json()) as { code: number; message: string; data: { token: string } }
    }
    const headers = { 'content-type': 'application/json' }
    const password = username === 'admin' ? running.adminPassword : `password of ${username}`
    const login = { method: 'POST', headers, body: JSON.stringify({ username, password }) }
    const { token: authorization } = (await post('/api/auth/login', login)).data
    return (method: string, path: string, body: string, more: Record<string, string> = {}) =>
      post(path, { method, body, headers: { ...headers, authorization, ...more } })
  }

  await t.test('users other than the creator are not told which share it is', async (t) => {
    const id = await share()
    await locked(visitor(id), '/file.txt', id)
    const told: string[] = []
    const tells = async (send: Send, method: string, path: string, headers = {}, body = '') => {
      const reply = await send(method, path, headers, body)
      told.push(JSON.stringify(reply.headers), reply.body)
      return reply
    }
    const properties = propfind('<D:lockdiscovery/>')
    t.equal((await tells(bob, 'PUT', '/docs/file.txt', {}, 'x')).status, 423)
    t.equal((await tells(bob, 'LOCK', '/docs/file.txt', depth0, lockinfo('exclusive'))).status, 423)
    t.equal((await tells(bob, 'LOCK', '/docs', infinity, lockinfo('exclusive'))).status, 207)
    t.equal((await tells(bob, 'DELETE', '/docs', infinity)).status, 207)
    t.same(texts((await tells(bob, 'PROPFIND', '/docs/file.txt', depth0, properties)).body, 'lockscope'), [''])
    await tells(bob, 'PROPFIND', '/docs', { depth: '1' }, properties)

    const ofBob = await api('bob')
    const put = (send: typeof ofBob) => send('PUT', '/api/fs/put', 'x', { 'file-path': '/docs/file.txt' })
    const message = 'locked by a visitor of a share'
    t.match(await put(ofBob), { code: 423, message })
    told.push(JSON.stringify(await ofBob('POST', '/api/fs/remove', JSON.stringify({ dir: '/', names: ['docs'] }))))

    const client = new ssh2.Client()
    t.teardown(() => client.end())
    await new Promise<void>((resolve, reject) => {
      client.once('ready', resolve).once('error', reject)
      const by = { username: 'bob', password: 'password of bob', ident: packetClient }
      client.connect({ host: '127.0.0.1', port: sftpPort, ...by })
    })
    const packets = new PacketClient(await openChannel(client))
    await packets.start()
    const { body } = await packets.ask(names.remove, string('/docs/file.txt'))
    t.match(body.toString(), 'locked by a visitor of a share')
    told.push(body.toString())
    t.type(await packets.open('/docs/file.txt', flags.write), 'number')

    t.notMatch(told.join('\n'), id, 'the link is a secret')
    t.match((await put(await api('ann'))).message, `locked by share:${id}`, 'the creator knows it')
    t.match((await put(await api('admin'))).message, `locked by share:${id}`, 'and so does an admin')
    t.match((await ann('PROPFIND', '/docs/file.txt', depth0, properties)).body, `<D:href>${id}</D:href>`)
    t.match((await admin('PROPFIND', '/docs/file.txt', depth0, properties)).body, `<D:href>${id}</D:href>`)
    for (const { token } of gateway.locks.list()) await gateway.locks.break(token)
  })

  await t.test('they end with the share, and when it is changed', async (t) => {
    const { shares, locks, store } = gateway
    const ends: readonly (readonly [string, (id: string) => Promise<unknown>])[] = [
      ['deleted', (id) => shares.delete(id)],
      ['disabled', (id) => shares.update(id, { disabled: true })],
      ['another code', (id) => shares.update(id, { code: 'new' })],
      ['another id', (id) => shares.update(id, { id: `${id}-2` })],
    ]
    for (const [how, end] of ends) {
      const [id, other] = [await share(), await share()]
      await locked(visitor(id), '/a.txt', id)
      await locked(visitor(other), '/b.txt', other)
      await end(id)
      t.equal((await bob('PUT', '/docs/a.txt', {}, 'x')).status, 204, how)
      t.equal((await bob('PUT', '/docs/b.txt', {}, 'x')).status, 423, 'that of another share stays')
      await shares.delete(other)
      t.ok(await until(async () => (await store.locks.all()).length === 0))
      t.same(locks.list(), [])
    }
  })

  await t.test('none outlives the end of its share', async (t) => {
    const expires = new Date(Date.now() + 600_000)
    const id = await share({ expires })
    await locked(visitor(id), '/a.txt', id)
    t.same(
      gateway.locks.list().map((lock) => lock.expires),
      [expires],
    )
    await gateway.shares.delete(id)
  })

  await t.test('the creator of the share releases them', async (t) => {
    const [id, other] = [await share(), await share()]
    await locked(visitor(id), '/a.txt', id)
    const shown = await ann('PROPFIND', '/docs/a.txt', depth0, propfind('<D:lockdiscovery/>'))
    const token = `<${texts(shown.body, 'locktoken').join('')}>`
    t.equal((await bob('UNLOCK', '/docs/a.txt', { 'lock-token': token })).status, 403)
    t.equal((await visitor(other)('UNLOCK', '/a.txt', { 'lock-token': token })).status, 403)
    t.equal((await ann('PUT', '/docs/a.txt', { if: `(${token})` }, 'x')).status, 423, 'it is not a lock of hers')
    t.equal((await ann('UNLOCK', '/docs/a.txt', { 'lock-token': token })).status, 204)
    t.equal((await bob('PUT', '/docs/a.txt', {}, 'x')).status, 204)
  })

  await t.test('a share that ended while nobody could tell has none after the next start', async (t) => {
    const [id, other] = [await share(), await share()]
    await locked(visitor(id), '/a.txt', id)
    await locked(visitor(other), '/b.txt', other)
    await gateway.store.shares.delete(id)
    await running.stop()
    const again = await startGateway(t, { dataFolder: running.dataFolder })
    t.same(
      again.gateway.locks.list().map(({ path }) => path),
      ['/docs/b.txt'],
    )
  })
})
