/** Requirements of RFC 4918 that no conformance suite checks. */
import { readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parseXml, serializeContent } from '../../../protocols/webdav/xml.js'
import { permissionBits } from '../../../src/accounts/principal.js'
import { asPath, root } from '../../../src/base/path.js'
import { startGateway } from '../../gateway.js'
import { basic, find, lockinfo, propfind, proppatch, sender, texts, tokenOf } from './dav-client.js'

const base = '/dav'

void t.test('details of RFC 4918', async (t) => {
  const running = await startGateway(t, { driver: { name: 'Memory' } })
  const send = sender(running)
  const password = 'a password of bob'
  const permission = permissionBits.webdavRead | permissionBits.webdavManage | permissionBits.write
  const user = {
    username: 'bob',
    password,
    basePath: root,
    role: 'general',
    permission,
    disabled: false,
    ssoId: '',
  } as const
  await running.gateway.accounts.users.create(user)
  const bob = sender(running, { authorization: basic('bob', password) })
  const properties = async (path: string, names: string) =>
    (await send('PROPFIND', path, { depth: '0' }, propfind(names))).body

  await t.test('§9.1: allprop, propname, prop and include', async (t) => {
    await send('PUT', '/file', {}, 'x')
    await send('PROPPATCH', '/file', {}, proppatch('<n xmlns="urn:x">1</n><n xmlns="urn:y">2</n>'))
    const ask = async (body: string) => send('PROPFIND', '/file', { depth: '0' }, body)
    const all = await ask('<propfind xmlns="DAV:"><allprop/></propfind>')
    t.same((await send('PROPFIND', '/file', { depth: '0' })).body, all.body, 'no body means allprop')
    t.same(texts(all.body, 'n'), ['1', '2'])
    t.same(texts(all.body, 'quota-used-bytes'), [])
    const more = await ask(
      '<propfind xmlns="DAV:"><allprop/><include><Win32LastModifiedTime xmlns="urn:schemas-microsoft-com:"/></include></propfind>',
    )
    t.equal(texts(more.body, 'Win32LastModifiedTime').length, 1)
    const names = await ask('<propfind xmlns="DAV:"><propname/></propfind>')
    t.same(texts(names.body, 'n'), ['', ''])
    t.equal((await ask('<propfind xmlns="DAV:"><prop/></propfind>')).status, 207)
    t.equal((await ask('<propfind xmlns="DAV:"/>')).status, 400)
    t.equal((await ask('<propfind xmlns="DAV:"><prop/><allprop/></propfind>')).status, 400)
    t.equal((await ask('<propfind xmlns="DAV:"><surprise xmlns="urn:z"/><propname/></propfind>')).status, 207, '§17')
  })

  await t.test('§4.3: a value is stored with its mixed content, attributes, prefixes and language', async (t) => {
    const value =
      'text <b:one xmlns:b="urn:b" b:at="1" plain="&lt;&quot;">in<!-- gone --> <two xmlns="">out</two></b:one>' +
      ' &amp; <![CDATA[<raw>]]> é 世 😀 '
    const kept =
      'text <b:one xmlns:b="urn:b" b:at="1" plain="&lt;&quot;">in <two>out</two></b:one> &amp; &lt;raw&gt; é 世 😀 '
    const set =
      '<D:propertyupdate xmlns:D="DAV:" xml:lang="fr"><D:set><D:prop>' +
      `<v xmlns="urn:v">${value}</v><w xmlns="urn:v" xml:lang="en">x</w></D:prop></D:set></D:propertyupdate>`
    t.match((await send('PROPPATCH', '/file', {}, set)).body, /200 OK/)
    const [v] = find(parseXml(await properties('/file', '<v xmlns="urn:v"/>')), 'v')
    t.equal(v && serializeContent(v), kept)
    t.equal(v?.language, 'fr')
    t.equal(find(parseXml(await properties('/file', '<w xmlns="urn:v"/>')), 'w')[0]?.language, 'en')
    t.equal((await send('PROPPATCH', '/file', {}, proppatch('<none>x</none>'))).status, 207, 'no namespace')
    t.same(texts(await properties('/file', '<none/>'), 'none'), ['x'])
  })

  await t.test('§9.2: properties change in order, all or none; oversized requests are rejected', async (t) => {
    await send('PUT', '/props', {}, 'x')
    const both =
      '<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><p xmlns="urn:p">1</p></D:prop></D:set>' +
      '<D:remove><D:prop><p xmlns="urn:p"/></D:prop></D:remove>' +
      '<D:set><D:prop><p xmlns="urn:p">2</p><q xmlns="urn:p">3</q></D:prop></D:set></D:propertyupdate>'
    t.equal((await send('PROPPATCH', '/props', {}, both)).status, 207)
    t.same(texts(await properties('/props', '<p xmlns="urn:p"/>'), 'p'), ['2'])
    const mixed = await send(
      'PROPPATCH',
      '/props',
      {},
      proppatch('<p xmlns="urn:p">4</p><D:resourcetype/>', '<q xmlns="urn:p"/>'),
    )
    t.same(texts(mixed.body, 'status'), ['HTTP/1.1 403 Forbidden', 'HTTP/1.1 424 Failed Dependency'])
    t.same(texts(await properties('/props', '<p xmlns="urn:p"/><q xmlns="urn:p"/>'), 'q'), ['3'])
    t.equal((await send('PROPPATCH', '/props', {}, proppatch('', '<gone xmlns="urn:p"/>'))).status, 207, '§14.23')
    const large = proppatch(`<p xmlns="urn:p">${'x'.repeat(200_000)}</p>`)
    t.match(await send('PROPPATCH', '/props', {}, large), { status: 207, body: /200 OK/ })
    const more = proppatch(`<r xmlns="urn:p">${'x'.repeat(200_000)}</r><q xmlns="urn:p">5</q>`)
    t.equal((await send('PROPPATCH', '/props', {}, more)).status, 507)
    t.same(texts(await properties('/props', '<q xmlns="urn:p"/>'), 'q'), ['3'])
    t.equal((await send('PROPPATCH', '/nothing', {}, both)).status, 404)
  })

  await t.test('PROPFIND of a folder works even if the dead properties of its members are large', async (t) => {
    await send('MKCOL', '/much')
    const names = Array.from({ length: 40 }, (_, index) => `/much/file-${index}`)
    for (const name of names) {
      await send('PUT', name, {}, 'x')
      const large = `<n xmlns="urn:p">${name}</n><p xmlns="urn:p">${'x'.repeat(150_000)}</p>`
      await send('PROPPATCH', name, {}, proppatch(large))
    }
    for (const depth of ['1', 'infinity']) {
      const { body } = await send('PROPFIND', '/much', { depth }, propfind('<n xmlns="urn:p"/>'))
      t.same(
        texts(body, 'n')
          .filter((text) => text !== '')
          .sort(),
        [...names].sort(),
      )
    }
  })

  await t.test('§9.3, §9.7: MKCOL and PUT respond with 405, 409 and 415', async (t) => {
    t.equal((await send('MKCOL', '/file')).status, 405)
    t.equal((await send('MKCOL', '/none/x')).status, 409)
    t.equal((await send('MKCOL', '/m', { 'content-type': 'text/plain' }, 'x')).status, 415)
    t.equal((await send('PUT', '/none/x', {}, 'x')).status, 409)
    await send('MKCOL', '/folder')
    t.equal((await send('PUT', '/folder', {}, 'x')).status, 405)
  })

  await t.test('§9.6: DELETE reports each member that it could not remove, and removes the others', async (t) => {
    for (const folder of ['/d', '/d/in']) await send('MKCOL', folder)
    for (const file of ['/d/one', '/d/in/two', '/d/in/three']) await send('PUT', file, {}, 'x')
    const token = tokenOf(await bob('LOCK', '/d/in/two', {}, lockinfo('exclusive')))
    const { status, body } = await send('DELETE', '/d')
    t.equal(status, 207)
    t.same(texts(body, 'href').slice(0, 1), [`${base}/d/in/two`])
    t.same(texts(body, 'status'), ['HTTP/1.1 423 Locked'])
    t.equal((await send('GET', '/d/in/two')).body, 'x')
    t.equal((await bob('UNLOCK', '/d/in/two', { 'lock-token': token })).status, 204)
    t.equal((await send('DELETE', '/d')).status, 204)
  })

  await t.test('§9.8: COPY of a folder, shallow and deep, over an existing one', async (t) => {
    for (const folder of ['/c', '/c/in', '/e']) await send('MKCOL', folder)
    await send('PUT', '/c/in/file', {}, 'new')
    await send('PROPPATCH', '/c/in/file', {}, proppatch('<p xmlns="urn:p">copied</p>'))
    await send('PUT', '/e/old', {}, 'old')
    t.equal((await send('COPY', '/c', { destination: `${base}/e`, overwrite: 'F' })).status, 412)
    t.equal((await send('GET', '/e/old')).body, 'old')
    t.equal((await send('COPY', '/c', { destination: `${base}/e/`, overwrite: 'T' })).status, 204)
    t.equal((await send('GET', '/e/old')).status, 404)
    t.same(texts(await properties('/e/in/file', '<p xmlns="urn:p"/>'), 'p'), ['copied'])
    t.equal((await send('COPY', '/c', { destination: `${base}/e2`, depth: '0' })).status, 201)
    t.equal((await send('GET', '/e2/in/file')).status, 404)
    t.equal((await send('COPY', '/c', { destination: `${base}/e`, depth: '0' })).status, 204)
    t.same(texts((await send('PROPFIND', '/e', { depth: '1' })).body, 'displayname'), ['e'])
    t.equal((await send('COPY', '/c', { destination: `${base}/none/e` })).status, 409)
    t.equal((await send('COPY', '/c', { destination: `${base}/c` })).status, 403)
    t.equal((await send('COPY', '/none', { destination: `${base}/e` })).status, 404)
    t.equal(
      (await send('COPY', '/c', { destination: `${base}/x`, depth: '1' })).status,
      201,
      'as webdavclient3 sends it',
    )
    t.equal((await send('GET', '/x/in/file')).body, 'new')
    t.equal((await send('COPY', '/c', { destination: 'http://other.example/dav/x' })).status, 502)
  })

  await t.test('§7.5, §9.8: a lock on the target requires its token, and locks are not copied', async (t) => {
    await send('PUT', '/source', {}, 'x')
    await send('PUT', '/target', {}, 'y')
    const token = tokenOf(await send('LOCK', '/target', {}, lockinfo('exclusive')))
    const destination = `${base}/target`
    t.equal((await send('COPY', '/source', { destination })).status, 423)
    t.equal((await send('MOVE', '/source', { destination })).status, 423)
    t.equal((await send('COPY', '/source', { destination, if: `<${destination}> (${token})` })).status, 204)
    t.match(await properties('/target', '<D:lockdiscovery/>'), token.slice(1, -1), 'the lock stays')
    t.equal((await send('COPY', '/target', { destination: `${base}/other` })).status, 201)
    t.match(await properties('/other', '<D:lockdiscovery/>'), '<D:lockdiscovery/>')
    await send('MOVE', '/target', { destination: `${base}/moved`, if: `(${token})` })
    t.match(await properties('/moved', '<D:lockdiscovery/>'), '<D:lockdiscovery/>', '§7.5: a lock is not moved')
    t.equal((await send('PUT', '/target', {}, 'free')).status, 201)
  })

  await t.test('§9.10: a deep LOCK of a folder with a locked member fails and reports the member', async (t) => {
    for (const folder of ['/l', '/l/in']) await send('MKCOL', folder)
    await send('PUT', '/l/in/file', {}, 'x')
    const token = tokenOf(await bob('LOCK', '/l/in/file', {}, lockinfo('exclusive')))
    const refused = await send('LOCK', '/l', {}, lockinfo('exclusive'))
    t.equal(refused.status, 207)
    t.same(texts(refused.body, 'status'), ['HTTP/1.1 423 Locked', 'HTTP/1.1 424 Failed Dependency'])
    t.same(texts(refused.body, 'href'), [`${base}/l/in/file`, `${base}/l/in/file`, `${base}/l`])
    t.equal(refused.headers['lock-token'], undefined)
    t.equal(
      (await send('LOCK', '/l', { depth: '0' }, lockinfo('exclusive'))).status,
      200,
      'a lock of depth 0 does not conflict',
    )
    t.match(await send('LOCK', '/l/in/file', {}, lockinfo('shared')), {
      status: 423,
      body: `<D:no-conflicting-lock><D:href>${base}/l/in/file</D:href></D:no-conflicting-lock>`,
    })
    t.equal((await bob('UNLOCK', '/l/in/file', { 'lock-token': token })).status, 204)
  })

  await t.test('§15.8: of very many locks, which are repeated for each member, only some are named', async (t) => {
    await send('MKCOL', '/crowd')
    for (const name of ['a', 'b']) await send('PUT', `/crowd/${name}`, {}, 'x')
    const large = lockinfo('shared').replace('mailto:someone', 'o'.repeat(4000))
    const locks = []
    for (let index = 0; index < 20; index++) locks.push(await send('LOCK', '/crowd/', {}, large))
    t.same([...new Set(locks.map(({ status }) => status))], [200])
    const found = await send('PROPFIND', '/crowd/', { depth: '1' }, propfind('<D:lockdiscovery/>'))
    const discoveries = find(parseXml(found.body), 'lockdiscovery')
    t.same(
      discoveries.map((discovery) => find(discovery, 'activelock').length),
      [4, 4, 4],
    )
    const oversized = lockinfo('shared').replace('mailto:someone', 'o'.repeat(5000))
    t.equal((await send('LOCK', '/crowd/', {}, oversized)).status, 413)
    t.equal(
      (await send('DELETE', '/crowd/', { if: locks.map(tokenOf).map((token) => `(${token})`)[0] ?? '' })).status,
      204,
    )
  })

  await t.test('§7.4: a deep lock covers entries created in the folder, and not those moved out', async (t) => {
    await send('MKCOL', '/deep')
    const token = tokenOf(await send('LOCK', '/deep', {}, lockinfo('exclusive')))
    t.equal((await send('PUT', '/deep/new', {}, 'x')).status, 423)
    t.equal((await send('PUT', '/deep/new', { if: `<${base}/deep> (${token})` }, 'x')).status, 201)
    t.match(await properties('/deep/new', '<D:lockdiscovery/>'), `<D:href>${base}/deep</D:href></D:lockroot>`)
    t.equal((await send('MOVE', '/source', { destination: `${base}/deep/source` })).status, 423)
    const moved = await send('MOVE', '/deep/new', { destination: `${base}/left`, if: `<${base}/deep> (${token})` })
    t.equal(moved.status, 201)
    t.equal((await send('PUT', '/left', {}, 'free')).status, 204)
    t.equal((await send('UNLOCK', '/deep', { 'lock-token': token })).status, 204)
  })

  await t.test('§9.10.4: LOCK of an unmapped URL creates an empty file that all users see', async (t) => {
    const locked = await send('LOCK', '/fresh', { depth: '0' }, lockinfo('exclusive'))
    t.equal(locked.status, 201)
    t.match(await bob('GET', '/fresh'), { status: 200, body: '' })
    t.equal((await send('MKCOL', '/fresh')).status, 405)
    t.match((await bob('PROPFIND', '/', { depth: '1' }, propfind('<D:displayname/>'))).body, 'fresh')
    await send('UNLOCK', '/fresh', { 'lock-token': tokenOf(locked) })
    t.equal((await send('GET', '/fresh')).status, 200, 'the file remains after UNLOCK')
    t.equal((await send('LOCK', '/none/fresh', {}, lockinfo('exclusive'))).status, 409)
    t.equal(
      (await send('LOCK', '/folder-to-be/', {}, lockinfo('exclusive'))).status,
      409,
      'no file is created for a folder URL',
    )
    t.equal((await send('PROPFIND', '/folder-to-be', { depth: '0' })).status, 404)
    t.equal((await send('MKCOL', '/folder-to-be/')).status, 201, 'the name is not locked')
    const folder = await send('LOCK', '/folder-to-be/', {}, lockinfo('exclusive'))
    t.equal(folder.status, 200)
    await send('UNLOCK', '/folder-to-be/', { 'lock-token': tokenOf(folder) })
  })

  await t.test('§9.11: UNLOCK is allowed for the user of the lock, at any resource in its scope', async (t) => {
    await send('MKCOL', '/u')
    await send('PUT', '/u/file', {}, 'x')
    const token = tokenOf(await send('LOCK', '/u', {}, lockinfo('exclusive')))
    t.equal((await bob('UNLOCK', '/u', { 'lock-token': token })).status, 403)
    t.equal((await bob('PUT', '/u/file', { if: `<${base}/u> (${token})` }, 'y')).status, 423, '§6.4')
    t.match(await send('UNLOCK', '/file', { 'lock-token': token }), {
      status: 409,
      body: /lock-token-matches-request-uri/,
    })
    t.equal((await send('UNLOCK', '/u/file', { 'lock-token': token })).status, 204)
    t.equal((await send('UNLOCK', '/u', { 'lock-token': token })).status, 409)
  })

  await t.test('§9.10.2, §10.7: a refresh by any resource in the scope sets the requested timeout', async (t) => {
    const locked = await send('LOCK', '/u', { timeout: 'Infinite, Second-4100000000' }, lockinfo('shared'))
    const token = tokenOf(locked)
    t.ok(Number(/Second-(\d+)/.exec(locked.body)?.[1]) <= 7 * 24 * 3600)
    const refreshed = await send('LOCK', '/u/file', { if: `(${token})`, timeout: 'Second-77' })
    t.match(refreshed, { status: 200, body: /Second-77/ })
    t.equal(refreshed.headers['lock-token'], undefined)
    t.match(refreshed.body, /mailto:someone/, 'the owner is unchanged')
    t.equal((await send('LOCK', '/file', { if: `(${token})` })).status, 412)
    t.equal((await send('LOCK', '/u')).status, 400)
    t.equal((await bob('LOCK', '/u', { if: `(${token})` })).status, 403)
    const brief = await send('LOCK', '/u', { if: `(${token})`, timeout: 'Second-1' })
    t.equal(brief.status, 200)
    await new Promise((resolve) => setTimeout(resolve, 1100))
    t.equal((await send('PUT', '/u/file', {}, 'free')).status, 204, 'the lock expires')
    t.match(await properties('/u', '<D:lockdiscovery/>'), '<D:lockdiscovery/>')
  })

  await t.test('§10.4: If lists of tokens and tags, of this resource and others, negated or not', async (t) => {
    for (const file of ['/i1', '/i2']) await send('PUT', file, {}, 'x')
    const etag = String((await send('HEAD', '/i1')).headers.etag)
    const token = tokenOf(await send('LOCK', '/i1', {}, lockinfo('exclusive')))
    const [i1, i2] = [`${base}/i1`, `${running.url}${base}/i2`]
    const cases: readonly [string, number][] = [
      [`(${token})`, 204],
      [`(${token} [${etag}])`, 412], // The first PUT changed it.
      [`(${token} ["none"])`, 412],
      [`(["none"]) (${token})`, 204],
      [`(${token} Not ["none"])`, 204],
      [`(Not ${token}) (${token})`, 204],
      [`(Not ${token})`, 412],
      [`(Not <DAV:no-lock>)`, 423],
      [`(<DAV:no-lock>)`, 412],
      [`<${i1}> (${token})`, 204],
      [`<${i2}> (${token})`, 412],
      [`<${i2}> (Not ${token})`, 423],
      [`<${i2}> (["none"]) <${i1}> (["none"]) (${token})`, 204],
      [`<http://other.example/x> (${token}) <${i1}> (${token})`, 204],
      [`<http://other.example/x> (${token})`, 412],
      [`<${base}/none> (Not ["x"]) <${i1}> (${token})`, 204],
      [`(${token})(${token})`, 204],
      [`( ${token}  [W/"x"] ) (Not [W/"x"] ${token})`, 204],
      [`()`, 400],
      [`(${token}`, 400],
      [`<${i1}>`, 400],
      [`(${token}) <${i1}> (${token})`, 400],
    ]
    for (const [condition, status] of cases) {
      t.equal((await send('PUT', '/i1', { if: condition }, `y${Math.random()}`)).status, status, condition)
    }
    t.equal((await send('GET', '/i1', { if: '(<urn:uuid:none>)' })).status, 412)
    t.equal((await send('PROPFIND', '/i1', { depth: '0', if: '(<urn:uuid:none>)' })).status, 412)
    t.equal((await send('UNLOCK', '/i1', { 'lock-token': token })).status, 204)
  })

  await t.test('RFC 9110 §13: every method that changes something evaluates preconditions', async (t) => {
    await send('PUT', '/cond', {}, 'x')
    const stale = { 'if-match': '"stale"' }
    t.equal((await send('DELETE', '/cond', stale)).status, 412)
    t.equal((await send('MOVE', '/cond', { ...stale, destination: `${base}/cond2` })).status, 412)
    t.equal((await send('COPY', '/cond', { ...stale, destination: `${base}/cond2` })).status, 412)
    t.equal((await send('PROPPATCH', '/cond', stale, proppatch('<p xmlns="urn:p">1</p>'))).status, 412)
    t.equal((await send('LOCK', '/cond', stale, lockinfo('exclusive'))).status, 412)
    t.equal((await send('PUT', '/cond-new', { 'if-match': '*' }, 'x')).status, 412)
    t.equal((await send('MKCOL', '/cond-new', { 'if-match': '*' })).status, 412)
    t.equal((await send('DELETE', '/cond', { 'if-unmodified-since': 'Fri, 14 Jul 2017 02:40:00 GMT' })).status, 412)
    t.equal((await send('GET', '/cond', { 'if-none-match': '*' })).status, 304)
    t.equal((await send('DELETE', '/cond', { 'if-match': '*' })).status, 204)
  })
})

void t.test('symlinks that dangle or lead out of the folder of the user are not listed', async (t) => {
  const running = await startGateway(t)
  const files = join(running.dataFolder, 'files')
  const send = sender(running)
  for (const folder of ['/base', '/base/sub']) await send('MKCOL', folder)
  for (const file of ['/outside', '/base/file', '/base/sub/file']) await send('PUT', file, {}, 'x')
  const targets = {
    nowhere: 'missing',
    up: '../outside',
    absolute: '/etc/passwd',
    loop: 'loop',
    fine: 'file',
    in: 'sub',
  }
  for (const [name, target] of Object.entries(targets)) await symlink(target, join(files, 'base', name))
  const user = {
    username: 'ada',
    password: 'a password',
    role: 'general',
    permission: 0x3ff,
    disabled: false,
    ssoId: '',
  } as const
  await running.gateway.accounts.users.create({ ...user, basePath: asPath('/base') })
  const ada = sender(running, { authorization: basic('ada', 'a password') })
  const listed = async (who: typeof send, path: string, depth: string) =>
    texts((await who('PROPFIND', path, { depth })).body, 'href').sort()
  const names = (prefix: string, ...members: string[]) => ['', ...members].map((name) => `/dav/${prefix}${name}`).sort()
  for (const depth of ['1', 'infinity']) {
    const below = depth === '1' ? [] : ['sub/file']
    t.same(await listed(ada, '/', depth), names('', 'file', 'fine', 'in/', 'sub/', ...below))
    t.same(await listed(send, '/base', depth), names('base/', 'file', 'fine', 'in/', 'sub/', 'up', ...below))
  }
  t.equal((await ada('COPY', '/sub', { destination: '/dav/copy' })).status, 201)
  t.equal((await ada('DELETE', '/nowhere')).status, 204, 'it can be removed')
})

void t.test(
  '§9.10.4: LOCK of a symlink with a missing target makes and locks the target, as PUT makes it',
  async (t) => {
    const running = await startGateway(t)
    const send = sender(running)
    const files = join(running.dataFolder, 'files')
    const made = async () => (await readdir(files)).filter((name) => !name.startsWith('.')).sort()
    await symlink('missing', join(files, 'nowhere'))
    await symlink('other', join(files, 'second'))
    const lock = (path: string) => send('LOCK', path, {}, lockinfo('exclusive'))
    t.match(await lock('/nowhere/'), { status: 409, headers: { 'lock-token': undefined } })
    t.same(await made(), ['nowhere', 'second'], 'nothing was made')
    t.match(await lock('/nowhere'), { status: 201, headers: { 'lock-token': /^<urn:uuid:/ } })
    t.same(
      running.gateway.locks.list().map(({ path }) => path),
      ['/missing'],
    )
    t.equal((await send('PUT', '/nowhere', {}, 'x')).status, 423, 'the target is locked')
    t.equal((await send('PUT', '/second', {}, 'x')).status, 201)
    t.same(await made(), ['missing', 'nowhere', 'other', 'second'])
    t.equal((await send('DELETE', '/nowhere')).status, 204, 'the name is not locked')
  },
)
