/** A request for a hidden entry gets the same response as one for a missing entry. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { allPermissions, permissionBits } from '../../src/accounts/principal.js'
import { asPath, root } from '../../src/base/path.js'
import { nodesOfTests, startGateway, type RunningGateway } from '../gateway.js'
import { ruleRow } from '../database/store-rows.js'
import { sourceOf } from '../tree/tree-fixture.js'
import { openSftp } from './protocols.js'
import { http } from '../../protocols/http/index.js'

const permission = allPermissions & ~(permissionBits.seeHidden | permissionBits.skipPasswords)
const user = { username: 'ada', password: 'a good password' }

/** A hidden name, and a missing name of the same length. */
const pairs = [
  ['/ruled/secret.txt', '/ruled/absent.txt'],
  ['/ruled/secret dir', '/ruled/absent dir'],
  ['/ruled/secret dir/in', '/ruled/absent dir/in'],
] as const
/** The folders of the second pair; nothing can be created in either. */
const [, [hiddenFolder, missingFolder]] = pairs

async function hiding(t: Parameters<typeof startGateway>[0]): Promise<RunningGateway> {
  const running = await startGateway(t)
  const { gateway } = running
  const account = { ...user, basePath: root, role: 'general', permission, disabled: false, ssoId: '' } as const
  await gateway.accounts.users.create(account)
  const admin = gateway.as(await gateway.accounts.tokens.principalOf(gateway.settings.get('token'), http))
  const options = { signal: new AbortController().signal }
  for (const folder of ['/ruled', '/ruled/secret dir', '/open']) await admin.mkdir(asPath(folder), options)
  for (const file of ['/ruled/secret.txt', '/ruled/secret dir/in', '/ruled/seen', '/open/file']) {
    await admin.write(asPath(file), sourceOf(file), options)
  }
  await gateway.rules.create(ruleRow({ path: asPath('/ruled'), hide: '^secret', hideSub: true }))
  return running
}

void t.test('WebDAV', async (t) => {
  const { davUrl } = await hiding(t)
  const base = davUrl.replace(/\/$/, '')
  const urlOf = (path: string) => base + path.split('/').map(encodeURIComponent).join('/')
  const send = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
    const response = await fetch(urlOf(path), {
      method,
      headers: { Authorization: `Basic ${btoa(`${user.username}:${user.password}`)}`, ...headers },
      ...(body === undefined ? {} : { body }),
    })
    const fields = [...response.headers].filter(([name]) => name !== 'date')
    return { status: response.status, fields, body: (await response.text()).replaceAll(encodeURI(path), 'PATH') }
  }
  const patch = '<propertyupdate xmlns="DAV:"><set><prop><a xmlns="x:">1</a></prop></set></propertyupdate>'
  const to = { Destination: urlOf('/open/new') }
  const requests: readonly (readonly [string, Record<string, string>?, string?])[] = [
    ['GET'],
    ['HEAD'],
    ['PROPFIND', { Depth: '0' }],
    ['PROPFIND', { Depth: '1' }],
    ['PROPPATCH', {}, patch],
    ['DELETE'],
    ['MOVE', to],
    ['COPY', to],
    ['UNLOCK', { 'Lock-Token': '<opaquelocktoken:0>' }],
  ]
  for (const [hidden, missing] of pairs) {
    for (const [method, headers, body] of requests) {
      const expected = await send(method, missing, headers, body)
      t.ok(expected.status >= 400, `${method} of a missing name fails`)
      t.same(await send(method, hidden, headers, body), expected, `${method} ${hidden}`)
    }
  }
  const lockInfo = '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
  for (const [method, body] of [['PUT', 'content'], ['MKCOL'], ['LOCK', lockInfo]] as const) {
    const expected = await send(method, `${missingFolder}/new`, {}, body)
    t.equal(expected.status, 409)
    t.same(await send(method, `${hiddenFolder}/new`, {}, body), expected, `${method} in a hidden folder`)
  }
  for (const method of ['MOVE', 'COPY']) {
    const answerTo = (folder: string) => send(method, '/open/file', { Destination: urlOf(`${folder}/new`) })
    t.same(await answerTo(hiddenFolder), await answerTo(missingFolder), `${method} into a hidden folder`)
  }
})

void t.test('the answer about a lock on a hidden entry names the nearest folder that the user sees', async (t) => {
  const { davUrl, url, gateway } = await hiding(t)
  const admin = gateway.as(await gateway.accounts.tokens.principalOf(gateway.settings.get('token'), http))
  const options = { signal: new AbortController().signal }
  await admin.mkdir(asPath('/ruled/sub'), options)
  for (const path of ['/ruled/sub/secret.txt', '/ruled/sub/secret dir/in', '/ruled/sub/seen']) {
    await admin.write(asPath(path), sourceOf(path), { ...options, parents: true })
  }
  const base = davUrl.replace(/\/$/, '')
  const authorization = `Basic ${btoa(`${user.username}:${user.password}`)}`
  const send = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
    const fields = { Authorization: authorization, ...headers }
    const response = await fetch(base + path, { method, headers: fields, ...(body === undefined ? {} : { body }) })
    return { status: response.status, body: await response.text() }
  }
  const wanted = '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
  const discovery = '<propfind xmlns="DAV:"><prop><lockdiscovery/></prop></propfind>'
  const onto = { Destination: `${base}/ruled/sub` }
  const ofFolder = { status: 423, body: '<D:href>/dav/ruled/sub</D:href>' }
  const headers = { 'Content-Type': 'application/json' }
  const call = async (path: string, body: object, token = '') => {
    const sent = { method: 'POST', headers: { ...headers, Authorization: token }, body: JSON.stringify(body) }
    return (await (await fetch(`${url}/api/${path}`, sent)).json()) as { code: number; message: string; data: never }
  }
  const { token } = (await call('auth/login', user)).data as { token: string }
  for (const [locked, deep] of [
    ['/ruled/sub/secret.txt', false],
    ['/ruled/sub/secret dir', true],
    ['/ruled/sub/secret dir/in', false],
  ] as const) {
    const { lock } = await admin.lock(asPath(locked), { scope: 'exclusive', deep, owner: '', seconds: 60 }, options)
    // Which of two reasons a refusal gives is decided by what the node has heard of.
    if (nodesOfTests > 1) await wait(1000)
    for (const [method, path, fields, body] of [
      ['DELETE', '/ruled/sub', {}],
      ['LOCK', '/ruled/sub', { Depth: 'infinity' }, wanted],
      ['COPY', '/open', onto],
      ['COPY', '/open/file', onto],
      ['MOVE', '/open/file', onto],
    ] as const) {
      const answer = await send(method, path, fields, body)
      t.equal(answer.status, ofFolder.status, `${method} ${path}, locked: ${locked}`)
      t.ok(answer.body.includes(ofFolder.body), answer.body)
      t.notMatch(answer.body, /secret/)
    }
    for (const [method, body] of [['DELETE'], ['LOCK', wanted]] as const) {
      const answer = await send(method, '/ruled', {}, body)
      t.equal(answer.status, 207)
      t.ok(answer.body.includes(ofFolder.body), 'the member that the user sees is reported')
      t.notMatch(answer.body, /secret/)
    }
    const listed = await send('PROPFIND', '/ruled/sub', { Depth: '1' }, discovery)
    t.equal(listed.status, 207)
    t.notMatch(listed.body, /activelock|secret/, 'nothing that the user sees is locked')
    t.match(await call('fs/remove', { dir: '/ruled', names: ['sub'] }, token), {
      code: 423,
      message: 'locked by admin',
    })
    await gateway.locks.break(lock.token)
  }
})

void t.test('SFTP', async (t) => {
  const { sftpPort } = await hiding(t)
  const { client, sftp } = await openSftp({ sftpPort }, user)
  t.teardown(() => client.end())
  type Done = (error?: Error | null) => void
  const requests: Readonly<Record<string, (path: string, done: Done) => void>> = {
    stat: (path, done) => sftp.stat(path, done),
    lstat: (path, done) => sftp.lstat(path, done),
    read: (path, done) => sftp.open(path, 'r', done),
    'read and write': (path, done) => sftp.open(path, 'r+', done),
    opendir: (path, done) => sftp.opendir(path, done),
    readlink: (path, done) => sftp.readlink(path, done),
    setstat: (path, done) => sftp.setstat(path, { mode: 0o600 }, done),
    unlink: (path, done) => sftp.unlink(path, done),
    rmdir: (path, done) => sftp.rmdir(path, done),
    rename: (path, done) => sftp.rename(path, '/open/new', done),
    'posix rename': (path, done) => sftp.ext_openssh_rename(path, '/open/new', done),
  }
  const creations: typeof requests = {
    mkdir: (folder, done) => sftp.mkdir(`${folder}/new`, done),
    create: (folder, done) => sftp.open(`${folder}/new`, 'w', done),
    'rename into': (folder, done) => sftp.rename('/open/file', `${folder}/new`, done),
  }
  const answer = (request: (done: Done) => void) =>
    new Promise((resolve) => {
      request((error) => resolve(error ? [(error as { code?: number }).code, error.message] : 'done'))
    })
  for (const [name, request] of Object.entries(requests)) {
    for (const [hidden, missing] of pairs) {
      const expected = await answer((done) => request(missing, done))
      t.not(expected, 'done', `${name} of a missing name fails`)
      t.same(await answer((done) => request(hidden, done)), expected, `${name} ${hidden}`)
    }
  }
  for (const [name, request] of Object.entries(creations)) {
    const expected = await answer((done) => request(missingFolder, done))
    t.not(expected, 'done', `${name} a missing folder fails`)
    t.same(await answer((done) => request(hiddenFolder, done)), expected, `${name} a hidden folder`)
  }
})

void t.test('the HTTP API does not list, find or count a hidden entry, and rejects every use with 403', async (t) => {
  const { url, gateway } = await hiding(t)
  await gateway.settings.set(new Map([['search_index', 'database']]))
  await gateway.search.build()
  await gateway.search.idle()
  let token = ''
  const call = async (path: string, body: object): Promise<{ code: number; message: string; data: never }> => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(`${url}/api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await response.json()) as never
  }
  token = ((await call('auth/login', user)).data as { token: string }).token
  t.match(await call('fs/list', { path: '/ruled' }), { data: { total: 1, content: [{ name: 'seen' }] } })
  t.match(await call('fs/dirs', { path: '/ruled' }), { data: [] })
  const search = { parent: '/', keywords: 'se', scope: 0, page: 1, per_page: 10 }
  t.match(await call('fs/search', search), { data: { total: 1, content: [{ name: 'seen' }] } })
  const denied = 'password is incorrect or you have no permission'
  for (const [path, fields] of [
    ['fs/get', { path: '/ruled/secret.txt' }],
    ['fs/list', { path: '/ruled/secret dir' }],
    ['fs/rename', { path: '/ruled/secret.txt', name: 'found' }],
    ['fs/mkdir', { path: '/ruled/secret dir/new' }],
    ['fs/move', { src_dir: '/ruled', dst_dir: '/open', names: ['secret.txt'] }],
    ['fs/move', { src_dir: '/open', dst_dir: '/ruled/secret dir', names: ['file'] }],
    ['fs/copy', { src_dir: '/ruled', dst_dir: '/open', names: ['secret.txt'] }],
    ['fs/remove', { dir: '/ruled', names: ['secret.txt'] }],
  ] as const) {
    const answer = await call(path, fields)
    t.match(answer, { code: 403, message: denied }, `${path} ${JSON.stringify(fields)}`)
    const absent = JSON.parse(JSON.stringify(fields).replaceAll('secret', 'secret absent')) as typeof fields
    t.strictSame(await call(path, absent), answer, `${path}: a name that the rule hides, where nothing is`)
  }
})
