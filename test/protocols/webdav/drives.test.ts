/** Shares as WebDAV drives: who opens them, what is shown of the tree, and what visitors may change. */
import crypto from 'node:crypto'
import { once } from 'node:events'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import t, { type Test } from 'tap'
import { permissionBits, type Permission } from '../../../src/accounts/principal.js'
import { asPath } from '../../../src/base/path.js'
import { locksPerShare, maxShareLockSeconds } from '../../../src/locks/webdav-locks.js'
import type { ShareFields } from '../../../src/shares/shares.js'
import '../../fast-hashes.js'
import { startGateway, type RunningGateway } from '../../gateway.js'
import { until } from '../../until.js'
import { basic, lockinfo, propfind, proppatch, sender, texts, tokenOf, type Reply, type Send } from './dav-client.js'
import { replaySteps } from './traces/replay.js'
import { windowsOnShare } from './traces/windows.js'

const depth0 = { depth: '0' }
const depth1 = { depth: '1' }

/** One gateway for all tests. Ann, whose base folder is /home/ann, has files there, and shares of them. */
class Household {
  private constructor(
    readonly running: RunningGateway,
    readonly annId: number,
    readonly admin: Send,
    readonly ann: Send,
  ) {}

  static async open(t: Test): Promise<Household> {
    const running = await startGateway(t, { driver: { name: 'Memory' }, config: { trusted_proxies: ['127.0.0.1'] } })
    const { accounts } = running.gateway
    const may: readonly Permission[] = [
      'share',
      'write',
      'copy',
      'rename',
      'move',
      'remove',
      'webdavRead',
      'webdavManage',
    ]
    const user = await accounts.users.create({
      ...{ username: 'ann', password: 'password of ann', role: 'general', disabled: false, ssoId: '' },
      basePath: asPath('/home/ann'),
      permission: may.reduce((sum, permission) => sum + permissionBits[permission], 0),
    })
    const admin = sender(running)
    for (const folder of ['/home', '/home/ann']) await admin('MKCOL', folder)
    const ann = sender(running, { authorization: basic('ann', 'password of ann') })
    return new Household(running, user.id, admin, ann)
  }

  /** Shares paths of Ann's, as a drive to read from. */
  async share(paths: readonly string[], fields: Partial<ShareFields> & { readonly id?: string } = {}): Promise<string> {
    const { id = '', ...changed } = fields
    const defaults: ShareFields = {
      ...{ creatorId: this.annId, mode: 'read', code: 'code', expires: undefined, maxVisits: 0, disabled: false },
      ...{ remark: '', readme: '', header: '', orderBy: '', orderDirection: '', extractFolder: '', allowFrom: [] },
      ...{ webdav: true, uploadMaxBytes: 0, uploadMaxFiles: 0 },
    }
    const roots = paths.map((path) => asPath(`/home/ann${path}`))
    return (await this.running.gateway.shares.create(id, { ...defaults, ...changed }, roots)).id
  }

  /** Sends requests to the drive of a share with its credentials. All that is told is kept. */
  visitor(id: string, { code = 'code', told = [], agent = 'drive', address }: Visit = {}): Send {
    const send = sender(this.running, { authorization: basic(id, code), prefix: `/dav/@s/${id}` })
    const from = address === undefined ? {} : { 'x-forwarded-for': address }
    return async (method, path, headers = {}, body) => {
      const reply = await send(method, path, { 'user-agent': agent, ...from, ...headers }, body)
      told.push(JSON.stringify(reply.headers), reply.body)
      return reply
    }
  }

  url(id: string, path: string): string {
    return `${this.running.url}/dav/@s/${id}${path}`
  }

  /** Makes a folder of Ann's with files in it. */
  async fill(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
    await this.ann('MKCOL', folder)
    for (const [name, content] of Object.entries(files)) {
      const deep = name.lastIndexOf('/')
      if (deep > 0) await this.ann('MKCOL', `${folder}/${name.slice(0, deep)}`)
      const { status } = await this.ann('PUT', `${folder}/${name}`, {}, content)
      if (status !== 201) throw new Error(`PUT ${folder}/${name}: ${status}`)
    }
  }
}

interface Visit {
  readonly code?: string
  readonly told?: string[]
  readonly agent?: string
  readonly address?: string
}

/** Failed sign-ins of one network are limited. */
let addresses = 0
function elsewhere(send: Send): Send {
  return (method, path, headers = {}, body) => {
    addresses += 1
    return send(method, path, { ...headers, 'x-forwarded-for': `198.18.0.${addresses}` }, body)
  }
}

const hrefs = ({ body }: Reply) => texts(body, 'href').sort()

void t.test('shares as drives', async (t) => {
  const house = await Household.open(t)
  const { running, ann, admin } = house
  const { gateway } = running
  await house.fill('/docs', { 'a.txt': 'text of a', 'deep/b.txt': 'text of b' })
  await house.fill('/more', { 'c.txt': 'text of c' })
  await ann('PUT', '/single.txt', {}, 'single')
  await ann('PUT', '/secret.txt', {}, 'secret')

  await t.test('only the credentials of the share open it, and they open nothing else', async (t) => {
    const [id, other] = [await house.share(['/docs']), await house.share(['/more'], { code: 'other' })]
    const by = (authorization: string) => elsewhere(sender(running, { authorization }))
    const drive = `/@s/${id}/`
    for (const [name, authorization, reason] of [
      ['nobody', '', 'without credentials'],
      ['ann', basic('ann', 'password of ann'), 'the creator'],
      ['admin', basic('admin', running.adminPassword), 'an admin'],
      ['token', `Bearer ${gateway.settings.get('token')}`, 'the permanent token'],
      ['guest', basic('guest', ''), 'the guest'],
      ['other', basic(other, 'other'), 'another share'],
      ['wrong', basic(id, 'wrong'), 'a wrong code'],
      ['missing', basic(id, ''), 'no code'],
    ] as const) {
      for (const method of ['GET', 'PROPFIND', 'PUT', 'DELETE', 'LOCK']) {
        const { status, headers, body } = await by(authorization)(method, drive, depth0)
        t.equal(status, 401, `${name}: ${method} by ${reason}`)
        t.match(headers['www-authenticate'], /^Basic realm="/)
        t.match(headers, { 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex' })
        t.notMatch(body, /docs|a\.txt/)
      }
    }
    const visitor = by(basic(id, 'code'))
    t.equal((await visitor('PROPFIND', drive, depth0)).status, 207)
    t.equal((await visitor('PROPFIND', `/%40s/${id}`, depth0)).status, 207)
    for (const path of ['/', '/home', '/home/ann/docs/a.txt', `/@s/${other}/`, '/@s/none/']) {
      t.equal((await visitor('GET', path)).status, 401, path)
    }
    const nobody = by('')
    t.match(await nobody('OPTIONS', drive), { status: 200, headers: { dav: /\b1\b.*\b2\b/, allow: /PROPFIND/ } })
  })

  await t.test('what a connection has proved counts for one share alone', async (t) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const [one, two] = [await house.share(['/docs']), await house.share(['/more'], { code: '' })]
    // A share whose id is the name of an account, and without a code.
    await house.share(['/more'], { id: 'ann', code: '' })
    const statusOf = async (path: string, authorization: string | undefined) => {
      const headers = { ...depth0, ...(authorization !== undefined && { authorization }) }
      const asked = httpRequest(`${running.url}/dav${path}`, { agent, method: 'PROPFIND', headers })
      asked.end()
      const [response] = (await once(asked, 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      return response.statusCode
    }
    const [ofAnn, ofOne, ofTwo] = [basic('ann', 'password of ann'), basic(one, 'code'), basic(two, '')]
    t.equal(await statusOf(`/@s/${one}/`, ofOne), 207)
    t.equal(await statusOf(`/@s/${two}/`, ofOne), 401)
    t.equal(await statusOf(`/@s/${two}/`, ofTwo), 207)
    t.equal(await statusOf(`/@s/${one}/`, ofTwo), 401)
    t.equal(await statusOf(`/@s/${one}/`, undefined), 401)
    t.equal(await statusOf('/docs', ofOne), 401)
    t.equal(await statusOf('/docs', ofAnn), 207)
    t.equal(await statusOf(`/@s/${one}/`, ofAnn), 401)
    t.equal(await statusOf('/@s/ann/c.txt', ofAnn), 207, 'the share, which any password opens')
    t.equal(await statusOf('/@s/ann/docs', ofAnn), 404, 'not the tree')
    t.equal(await statusOf('/docs', basic('ann', '')), 401)
  })

  await t.test('a share without a code is opened by its id, with any password', async (t) => {
    const id = await house.share(['/docs'], { code: '' })
    for (const code of ['', 'anything']) {
      t.match(await house.visitor(id, { code })('GET', '/a.txt'), { status: 200, body: 'text of a' })
    }
  })

  await t.test(
    'a share that is no drive, or only to upload to, is as unknown as one that does not exist',
    async (t) => {
      const plain = await house.share(['/docs'], { webdav: false })
      const drop = await house.share(['/docs'], { mode: 'upload', webdav: false })
      // As an older version has stored it.
      await gateway.store.shares.update(drop, { webdav: true }, undefined, undefined)
      await gateway.shares.reload()
      for (const id of [plain, drop, 'none']) t.equal((await house.visitor(id)('PROPFIND', '/', depth0)).status, 401)
      await gateway.shares.update(plain, { webdav: true })
      t.equal((await house.visitor(plain)('PROPFIND', '/', depth0)).status, 207)
    },
  )

  await t.test('wrong codes are limited, and networks', async (t) => {
    const id = await house.share(['/docs'], { allowFrom: ['192.0.2.0/24'] })
    const from = (code: string, address: string) => house.visitor(id, { code, address })('PROPFIND', '/', depth0)
    t.equal((await from('code', '198.51.100.1')).status, 401, 'a network that may not open it')
    for (let guess = 0; guess < 8; guess++) t.equal((await from(`guess ${guess}`, '192.0.2.1')).status, 401)
    const locked = await from('code', '192.0.2.1')
    t.equal(locked.status, 429)
    t.ok(Number(locked.headers['retry-after']) > 0)
  })

  await t.test('a share that is not there is compared, limited and answered as one with another code', async (t) => {
    const there = await house.share(['/docs'])
    const elsewhere = await house.share(['/docs'], { allowFrom: ['198.51.100.0/24'] })
    const page = await house.share(['/docs'], { webdav: false })
    const digests = t.capture(crypto, 'createHash', crypto.createHash)
    syncBuiltinESMExports()
    t.teardown(syncBuiltinESMExports)
    const told = async (id: string, address: string) => {
      const answers: object[] = []
      for (let guess = 0; guess < 10; guess++) {
        digests()
        const visitor = house.visitor(id, { code: `guess ${guess}`, address })
        const { status, body, headers } = await visitor('PROPFIND', '/', depth0)
        answers.push({ status, body, headers: { ...headers, date: '' }, digests: digests().length })
      }
      return answers
    }
    const ofThere = await told(there, '192.0.2.61')
    t.match(ofThere[0], { status: 401, digests: 2 }, 'the digests of both codes are compared')
    t.match(ofThere[9], { status: 429 })
    t.same(await told('nowhere1', '192.0.2.62'), ofThere)
    t.same(await told(elsewhere, '192.0.2.63'), ofThere)
    t.same(await told(page, '192.0.2.64'), ofThere)
  })

  await t.test('a drive is one visit by its address and program', async (t) => {
    const id = await house.share(['/docs'], { maxVisits: 1 })
    t.equal((await house.visitor(id)('HEAD', '/a.txt')).status, 200)
    t.equal((await gateway.shares.use([id])).get(id)?.visits, 0, 'HEAD begins none')
    const drive = house.visitor(id)
    for (const method of ['PROPFIND', 'GET', 'HEAD', 'GET']) t.ok((await drive(method, '/a.txt', depth0)).status < 300)
    t.equal((await gateway.shares.use([id])).get(id)?.visits, 1)
    const other = house.visitor(id, { agent: 'another program' })
    t.equal((await other('GET', '/a.txt')).status, 410)
    t.equal((await drive('GET', '/a.txt')).status, 200)
  })

  await t.test('the folders above a drive are empty for its visitor', async (t) => {
    const id = await house.share(['/docs'], { maxVisits: 1 })
    const visitor = elsewhere(sender(running, { authorization: basic(id, 'code') }))
    for (const folder of ['', '/', '/@s', '/@s/']) {
      for (const depth of ['0', '1']) {
        const reply = await visitor('PROPFIND', folder, { depth })
        t.equal(reply.status, 207, folder)
        t.match(reply.headers, { 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex' })
        t.same(hrefs(reply), [folder.startsWith('/@s') ? '/dav/@s/' : '/dav/'])
        t.notMatch(reply.body, /home|docs|quota/)
      }
    }
    t.equal((await gateway.shares.use([id])).get(id)?.visits, 0, 'to ask for them is no visit')
    for (const method of ['GET', 'PUT', 'MKCOL', 'DELETE', 'PROPPATCH', 'LOCK', 'COPY', 'MOVE']) {
      t.equal((await visitor(method, '/')).status, 401, method)
      t.equal((await visitor(method, '/@s')).status, 405, method)
    }
    t.equal((await sender(running, { authorization: basic(id, 'wrong') })('PROPFIND', '/', depth0)).status, 401)
    t.equal((await sender(running, { authorization: basic('none', '') })('PROPFIND', '/', depth0)).status, 401)
    t.equal((await sender(running, { authorization: '' })('PROPFIND', '/@s', depth0)).status, 401)
    t.same(hrefs(await ann('PROPFIND', '/', depth0)), ['/dav/'])
    t.ok(hrefs(await ann('PROPFIND', '/', depth1)).includes('/dav/docs/'), 'an account comes before a share')
  })

  await t.test('the folder above the drives does not tell which shares exist', async (t) => {
    const there = await house.share(['/docs'])
    const others = {
      'a wrong code': there,
      'no drive': await house.share(['/docs'], { webdav: false }),
      'only for uploads': await house.share(['/docs'], { mode: 'upload', webdav: false }),
      ended: await house.share(['/docs'], { disabled: true }),
      'another network': await house.share(['/docs'], { allowFrom: ['192.0.2.0/24'] }),
      'too many wrong codes': await house.share(['/docs']),
    }
    const told = async (id: string, code: string, address?: string) => {
      const send = sender(running, { authorization: basic(id, code) })
      const from = address === undefined ? elsewhere(send) : send
      const forwarded = address === undefined ? {} : { 'x-forwarded-for': address }
      const { status, body, headers } = await from('PROPFIND', '/', { ...depth0, ...forwarded })
      return { status, body, headers: { ...headers, date: '' } }
    }
    const unknown = await told('none', 'code')
    t.equal(unknown.status, 401)
    for (const [name, id] of Object.entries(others)) {
      if (name === 'too many wrong codes') {
        const guess = (number: number) => house.visitor(id, { code: `${number}`, address: '198.18.1.1' })
        for (let number = 0; number < 8; number++) await guess(number)('PROPFIND', '/', depth0)
        t.same(await told(id, 'code', '198.18.1.1'), unknown, name)
      } else {
        t.same(await told(id, name === 'a wrong code' ? 'wrong' : 'code'), unknown, name)
      }
    }
    const tries = async (id: string, address: string) => {
      const statuses: number[] = []
      for (let number = 0; number < 10; number++) statuses.push((await told(id, `${number}`, address)).status)
      return statuses
    }
    const ofNone = await tries('none', '198.18.1.2')
    t.same(ofNone.slice(0, 6), [401, 401, 401, 401, 401, 429], 'the limit of sign-ins counts them')
    t.same(await tries(there, '198.18.1.3'), ofNone)
  })

  await t.test('a folder is listed and read, and no header or body tells where it is', async (t) => {
    await ann('PROPPATCH', '/docs/a.txt', {}, proppatch('<Z:note xmlns:Z="urn:z">of ann</Z:note>'))
    await ann('PROPPATCH', '/docs/a.txt', {}, proppatch('<D:displayname>named by ann</D:displayname>'))
    const locked = await ann('LOCK', '/docs/a.txt', depth0, lockinfo('exclusive'))
    const id = await house.share(['/docs'])
    const told: string[] = []
    const drive = house.visitor(id, { told })
    const at = (path: string) => `/dav/@s/${id}${path}`
    t.same(hrefs(await drive('PROPFIND', '/', depth0)), [at('/')])
    t.same(hrefs(await drive('PROPFIND', '', depth1)), ['/', '/a.txt', '/deep/'].map(at))
    t.same(hrefs(await drive('PROPFIND', '/')), ['/', '/a.txt', '/deep/', '/deep/b.txt'].map(at))
    t.same(texts((await drive('PROPFIND', '/', depth0)).body, 'displayname'), ['docs'])
    t.match(await drive('GET', '/a.txt', { range: 'bytes=5-6' }), { status: 206, body: 'of' })
    t.match(await drive('HEAD', '/deep'), { status: 200, body: '' })
    t.equal((await drive('GET', '/deep')).status, 405)
    const names = '<D:quota-available-bytes/><D:lockdiscovery/><D:displayname/>'
    const all = await drive('PROPFIND', '/a.txt', depth0, propfind(names))
    t.match(all.body, /<D:quota-available-bytes\/><\/D:prop><D:status>HTTP\/1\.1 404/)
    t.same(texts(all.body, 'displayname'), ['a.txt'])
    t.same(texts(all.body, 'lockdiscovery'), [''], 'locks of others are not shown')
    await drive('PROPFIND', '/a.txt', depth0, '<D:propfind xmlns:D="DAV:"><D:propname/></D:propfind>')
    for (const method of ['PUT', 'MKCOL', 'DELETE', 'PROPPATCH', 'LOCK', 'COPY', 'MOVE']) {
      const headers = { destination: house.url(id, '/to.txt') }
      t.equal((await drive(method, '/a.txt', headers)).status, 403, method)
    }
    for (const [method, path, status] of [
      ['PROPFIND', '/none', 404],
      ['GET', '/none/none', 404],
      ['GET', '/../secret.txt', 400],
      ['GET', '/%2e%2e/secret.txt', 400],
      ['GET', '/..%2fsecret.txt', 400],
      ['PROPFIND', '/%ff', 400],
    ] as const) {
      t.equal((await drive(method, path)).status, status, path)
    }
    t.match(await drive('GET', '/a.txt'), {
      headers: { 'referrer-policy': 'no-referrer', 'x-robots-tag': 'noindex', 'cache-control': 'private, no-store' },
    })
    for (const secret of ['/home', 'ann', 'Memory', 'of ann', 'mailto', tokenOf(locked).slice(1, -1), '/dav/docs']) {
      t.same(
        told.filter((text) => text.includes(secret)),
        [],
        secret,
      )
    }
    await ann('UNLOCK', '/docs/a.txt', { 'lock-token': tokenOf(locked) })
  })

  await t.test('what the creator may not show is not there', async (t) => {
    const id = await house.share(['/docs'])
    const drive = house.visitor(id)
    await gateway.grants.replace({ userId: house.annId }, [
      { path: asPath('/home/ann/docs/deep'), allow: [], deny: ['share'] },
    ])
    t.same(hrefs(await drive('PROPFIND', '/', depth1)), [`/dav/@s/${id}/`, `/dav/@s/${id}/a.txt`])
    t.equal((await drive('GET', '/deep/b.txt')).status, 404)
    await gateway.grants.replace({ userId: house.annId }, [])
    t.equal((await drive('GET', '/deep/b.txt')).status, 200)
  })

  await t.test('a shared file appears in a folder', async (t) => {
    const id = await house.share(['/single.txt'])
    const drive = house.visitor(id)
    const at = (path: string) => `/dav/@s/${id}${path}`
    t.same(hrefs(await drive('PROPFIND', '/', depth1)), ['/', '/single.txt'].map(at))
    const file = await drive('PROPFIND', '/single.txt', depth0)
    t.same(hrefs(file), [at('/single.txt')])
    t.same(texts(file.body, 'getcontenttype'), ['text/plain; charset=utf-8'])
    t.match(await drive('GET', '/single.txt'), {
      status: 200,
      body: 'single',
      headers: { 'content-type': /^text\/plain/, 'content-disposition': /single\.txt/ },
    })
    for (const path of ['/secret.txt', '/single.txt/x']) t.equal((await drive('GET', path)).status, 404, path)
    t.equal((await drive('PUT', '/single.txt', {}, 'x')).status, 403)
    t.equal((await drive('PUT', '/new.txt', {}, 'x')).status, 403)
  })

  await t.test('several files and folders appear in a folder, from which nothing leads to another', async (t) => {
    await ann('MKCOL', '/two%20&%202')
    const id = await house.share(['/docs', '/two & 2', '/single.txt'], { mode: 'both' })
    const drive = house.visitor(id)
    const at = (path: string) => `/dav/@s/${id}${path}`
    const roots = ['/', '/docs/', '/single.txt', '/two%20%26%202/'].map(at)
    t.same(hrefs(await drive('PROPFIND', '/', depth0)), [at('/')])
    t.same(hrefs(await drive('PROPFIND', '/', depth1)), roots)
    const whole = hrefs(await drive('PROPFIND', '/'))
    t.same(whole, [...roots, ...['/docs/a.txt', '/docs/deep/', '/docs/deep/b.txt'].map(at)].sort())
    t.same(hrefs(await drive('PROPFIND', '/two%20&%202', depth1)), [at('/two%20%26%202/')])
    t.match(await drive('GET', '/docs/deep/b.txt'), { status: 200, body: 'text of b' })
    t.match(await drive('GET', '/single.txt'), { status: 200, body: 'single' })
    t.equal((await drive('HEAD', '/')).status, 200)
    for (const method of ['GET', 'PUT', 'MKCOL', 'DELETE', 'PROPPATCH', 'LOCK', 'COPY', 'MOVE']) {
      t.equal((await drive(method, '/', { destination: house.url(id, '/docs/x') })).status, 405, method)
    }
    for (const method of ['PUT', 'MKCOL', 'LOCK']) t.equal((await drive(method, '/new')).status, 403, method)
    for (const name of ['/docs', '/two%20&%202', '/single.txt']) {
      for (const method of ['DELETE', 'PROPPATCH', 'PUT', 'LOCK', 'MOVE']) {
        const { status } = await drive(method, name, { destination: house.url(id, '/docs/x') })
        t.ok([403, 405, 502].includes(status), `${method} ${name}: ${status}`)
      }
    }
    for (const method of ['COPY', 'MOVE']) {
      for (const to of ['/two%20&%202/a.txt', '/new.txt', '/single.txt', '/']) {
        const { status } = await drive(method, '/docs/a.txt', { destination: house.url(id, to) })
        t.equal(status, 502, `${method} to ${to}`)
      }
    }
    t.equal((await drive('COPY', '/docs/a.txt', { destination: house.url(id, '/docs/copy.txt') })).status, 201)
    t.equal((await drive('PUT', '/two%20&%202/new.txt', {}, 'new')).status, 201)
    t.equal((await ann('GET', '/two%20%26%202/new.txt')).body, 'new')
    const token = tokenOf(await drive('LOCK', '/docs/copy.txt', depth0, lockinfo('exclusive')))
    const locked = await drive('PROPFIND', '/docs', depth1, propfind('<D:lockdiscovery/>'))
    t.match(locked.body, `<D:lockroot><D:href>${at('/docs/copy.txt')}</D:href></D:lockroot>`)
    const tagged = { if: `<${house.url(id, '/docs/copy.txt')}> (${token})` }
    t.equal((await drive('PUT', '/docs/copy.txt', tagged, 'changed')).status, 204)
    t.equal((await drive('UNLOCK', '/docs/copy.txt', { 'lock-token': token })).status, 204)
    await ann('DELETE', '/docs/copy.txt')
    await ann('DELETE', '/two%20&%202')
    t.notOk(hrefs(await drive('PROPFIND', '/', depth1)).includes(at('/two%20%26%202/')), 'what is missing is left out')
  })

  await t.test('visitors who may also change something add, replace and copy, and remove nothing', async (t) => {
    await house.fill('/open', { 'kept.txt': 'kept', 'folder/in.txt': 'in' })
    const id = await house.share(['/open'], { mode: 'both' })
    const drive = house.visitor(id)
    const to = (path: string) => ({ destination: house.url(id, path) })
    t.equal((await drive('PUT', '/new.txt', {}, 'new')).status, 201)
    t.equal((await drive('PUT', '/new.txt', {}, 'newer')).status, 204)
    t.equal((await drive('PUT', '/kept.txt', {}, 'replaced')).status, 204)
    t.equal((await drive('MKCOL', '/made')).status, 201)
    t.equal((await drive('MKCOL', '/none/made')).status, 409)
    t.equal((await drive('PUT', '/none/new.txt', {}, 'x')).status, 409)
    t.equal((await drive('COPY', '/folder', to('/made/folder'))).status, 201)
    t.match(await drive('GET', '/made/folder/in.txt'), { status: 200, body: 'in' })
    t.equal((await drive('COPY', '/new.txt', to('/kept.txt'))).status, 204, 'a copy replaces a file')
    t.equal((await drive('COPY', '/new.txt', { ...to('/kept.txt'), overwrite: 'F' })).status, 412)
    t.equal((await drive('COPY', '/made', to('/folder'))).status, 403, 'it replaces no folder')
    t.equal((await drive('COPY', '/new.txt', to('/folder'))).status, 403)
    t.equal((await drive('GET', '/folder/in.txt')).body, 'in')
    for (const path of ['/new.txt', '/made', '/']) t.equal((await drive('DELETE', path)).status, 403, path)
    for (const path of ['/renamed.txt', '/made/new.txt', '/kept.txt']) {
      t.equal((await drive('MOVE', '/new.txt', to(path))).status, 403, path)
    }
    for (const destination of ['/dav/new.txt', '/dav/@s', `/dav/@s/${id}x/new.txt`, `/dav/@s/${id}/../x`, '/']) {
      for (const method of ['MOVE', 'COPY']) {
        const { status } = await drive(method, '/new.txt', { destination: running.url + destination })
        t.ok([400, 502].includes(status), `${method} to ${destination}: ${status}`)
      }
    }
    t.equal((await ann('COPY', '/docs/a.txt', to('/from-tree.txt'))).status, 502, 'no account reaches a share')
    const outside = { destination: `${running.url}/dav/taken.txt` }
    t.equal((await ann('COPY', '/open/new.txt', outside)).status, 201, 'the tree does')
    const left = await ann('PROPFIND', '/open', depth1)
    t.same(
      hrefs(left),
      ['', 'folder/', 'kept.txt', 'made/', 'new.txt'].map((name) => `/dav/open/${name}`),
    )
    const { headers } = await drive('PUT', '/new.txt', { 'if-none-match': '*' }, 'x')
    t.equal(headers.location, undefined)
    t.equal((await drive('PUT', '/new.txt', { 'if-match': '"other"' }, 'x')).status, 412)
  })

  await t.test('the limits of uploads are those of copies too', async (t) => {
    await house.fill('/small', { 'folder/five': '12345' })
    const id = await house.share(['/small'], { mode: 'both', uploadMaxBytes: 12, uploadMaxFiles: 5 })
    const drive = house.visitor(id)
    const to = (path: string) => ({ destination: house.url(id, path) })
    t.equal((await drive('PUT', '/large', {}, 'x'.repeat(13))).status, 507)
    t.equal((await drive('PUT', '/six', {}, '123456')).status, 201)
    t.equal((await drive('COPY', '/folder', to('/copy'))).status, 201)
    t.equal((await drive('COPY', '/folder', to('/again'))).status, 507, 'bytes')
    t.equal((await drive('COPY', '/folder', { ...to('/empty'), depth: '0' })).status, 201, 'a folder alone')
    t.equal((await drive('PUT', '/one', {}, '1')).status, 201)
    t.equal((await drive('PUT', '/empty/nothing', {}, '')).status, 507, 'files')
    t.equal((await drive('MKCOL', '/more')).status, 507, 'a folder counts as a file')
    t.equal((await drive('LOCK', '/empty/locked', depth0, lockinfo('exclusive'))).status, 507)
    t.match((await gateway.shares.use([id])).get(id), { uploadedBytes: 12, uploadedFiles: 5 })
  })

  await t.test('dead properties are refused, and those that Windows keeps are short', async (t) => {
    await house.fill('/props', { 'a.txt': 'a' })
    const id = await house.share(['/props'], { mode: 'both' })
    const drive = house.visitor(id)
    const set = (properties: string) => drive('PROPPATCH', '/a.txt', {}, proppatch(properties))
    const long = 'x'.repeat(1000)
    for (const property of [
      '<Z:note xmlns:Z="urn:z">x</Z:note>',
      '<D:displayname>x</D:displayname>',
      `<M:Win32CreationTime>${long}</M:Win32CreationTime>`,
      '<M:Win32FileAttributes><D:href>x</D:href></M:Win32FileAttributes>',
      `<M:Win32FileAttributes xml:lang="${long}">00000020</M:Win32FileAttributes>`,
      '<M:Win32Other>x</M:Win32Other>',
    ]) {
      const reply = await set(property)
      t.equal(reply.status, 207)
      t.match(texts(reply.body, 'status'), [/403/], property.slice(0, 80))
    }
    const both = await set(
      '<Z:note xmlns:Z="urn:z">x</Z:note><D:getlastmodified>Sat, 20 Jun 2020 07:39:29 GMT</D:getlastmodified>',
    )
    t.match(texts(both.body, 'status').sort(), [/403/, /424/], 'all or nothing')
    const time = await set('<D:getlastmodified>Fri, 19 Jun 2020 06:30:10 GMT</D:getlastmodified>')
    t.match(texts(time.body, 'status'), [/200/])
    const shown = await drive('PROPFIND', '/a.txt', depth0)
    t.same(texts(shown.body, 'getlastmodified'), ['Fri, 19 Jun 2020 06:30:10 GMT'])
    t.equal(
      (await drive('PROPPATCH', '/', {}, proppatch('<M:Win32FileAttributes>1</M:Win32FileAttributes>'))).status,
      403,
    )
  })

  await t.test('locks are those of the tree, and each share holds its own', async (t) => {
    await house.fill('/locks', { 'a.txt': 'a', 'b.txt': 'b' })
    const id = await house.share(['/locks'], { mode: 'both' })
    const second = await house.share(['/locks'], { mode: 'both' })
    const [drive, other] = [house.visitor(id), house.visitor(second)]
    const lock = (send: Send, path: string, headers = {}) =>
      send('LOCK', path, { ...depth0, timeout: 'Second-604800', ...headers }, lockinfo('exclusive'))
    const granted = await lock(drive, '/a.txt')
    t.equal(granted.status, 200)
    const [seconds] = texts(granted.body, 'timeout')
    t.ok(Number(seconds?.replace('Second-', '')) <= maxShareLockSeconds)
    const token = tokenOf(granted)
    const by = { if: `(${token})` }
    for (const [send, path, name] of [
      [admin, '/home/ann/locks/a.txt', 'an admin'],
      [other, '/a.txt', 'another share'],
    ] as const) {
      t.equal((await send('PUT', path, {}, 'x')).status, 423, name)
      t.equal((await send('PUT', path, by, 'x')).status, 423, `${name} with the token`)
      t.equal((await send('UNLOCK', path, { 'lock-token': token })).status, 403, name)
      t.equal((await lock(send, path)).status, 423, name)
    }
    t.equal((await ann('PUT', '/locks/a.txt', by, 'x')).status, 423, 'the creator with the token')
    t.match((await other('PUT', '/a.txt', {}, 'x')).body, `<D:href>/dav/@s/${second}/a.txt</D:href>`)
    t.equal((await drive('PUT', '/a.txt', by, 'by the share')).status, 204)
    t.equal((await house.visitor(id, { agent: 'other' })('PUT', '/a.txt', by, 'by another visitor')).status, 204)
    t.equal((await drive('LOCK', '/a.txt', by)).status, 200, 'a refresh')
    t.equal((await drive('UNLOCK', '/a.txt', { 'lock-token': token })).status, 204)

    const ofAnn = tokenOf(await lock(ann, '/locks/b.txt'))
    const conflict = await lock(drive, '/b.txt')
    t.equal(conflict.status, 423)
    t.match(conflict.body, `<D:href>/dav/@s/${id}/b.txt</D:href>`)
    t.equal((await drive('PUT', '/b.txt', { if: `(${ofAnn})` }, 'x')).status, 423)
    t.equal((await drive('UNLOCK', '/b.txt', { 'lock-token': ofAnn })).status, 403)
    t.equal((await lock(drive, '/')).status, 403, 'what is shared is not locked')

    const held = await Promise.all(
      Array.from({ length: locksPerShare }, (_, number) => lock(drive, `/made ${number}`.replace(' ', '%20'))),
    )
    t.same(new Set(held.map(({ status }) => status)), new Set([201]))
    t.equal((await lock(drive, '/one-more')).status, 413)
    t.equal((await lock(other, '/one-more')).status, 201, 'another share has its own')
    t.equal((await lock(ann, '/locks/of-ann')).status, 201, 'and so has the creator')
    for (const { token: each } of gateway.locks.list()) await gateway.locks.break(each)
  })

  await t.test('the requests of Windows Explorer', async (t) => {
    await ann('MKCOL', '/windows')
    const id = await house.share(['/windows'], { mode: 'both' })
    const send = sender(running, { prefix: '', authorization: basic(id, 'code') })
    const anonymous = sender(running, { prefix: '', authorization: '' })
    await replaySteps(t, windowsOnShare(`/dav/@s/${id}`), { send, anonymous, dav: house.url(id, '') })
  })

  await t.test('an id of Han characters', async (t) => {
    const id = await house.share(['/docs'], { id: '分享-1', code: '密码' })
    const drive = sender(running, { authorization: basic(id, '密码'), prefix: `/dav/@s/${encodeURIComponent(id)}` })
    const prefix = `/dav/@s/${encodeURIComponent(id)}`
    t.same(
      hrefs(await drive('PROPFIND', '/', depth1)),
      ['/', '/a.txt', '/deep/'].map((path) => prefix + path),
    )
    t.equal((await drive('GET', '/a.txt')).status, 200)
  })

  await t.test('a drive ends with its share, and so does an open download', async (t) => {
    await ann('PUT', '/docs/large', {}, Buffer.alloc(32 * 1024 * 1024))
    const id = await house.share(['/docs'])
    const drive = house.visitor(id)
    const asked = httpRequest(house.url(id, '/large'), { headers: { authorization: basic(id, 'code') } })
    asked.end()
    const [response] = (await once(asked, 'response')) as [IncomingMessage]
    await once(response, 'data')
    response.pause()
    await gateway.shares.update(id, { disabled: true })
    response.on('error', () => undefined).resume()
    t.ok(await until(() => response.destroyed))
    t.notOk(response.complete, 'the download is cut off')
    t.equal((await drive('PROPFIND', '/', depth0)).status, 410)
    await gateway.shares.update(id, { disabled: false })
    t.equal((await drive('PROPFIND', '/', depth0)).status, 207)
    await gateway.accounts.users.update(house.annId, { disabled: true })
    t.equal((await drive('GET', '/a.txt')).status, 410)
    await gateway.accounts.users.update(house.annId, { disabled: false })
    await gateway.shares.update(id, { expires: new Date(Date.now() - 1000) })
    t.equal((await drive('GET', '/a.txt')).status, 410)
    await gateway.shares.delete(id)
    t.equal((await drive('GET', '/a.txt')).status, 401)
    await admin('DELETE', '/home/ann/docs/large')
  })
})
