/** What visitors of shares see and what they do not, over HTTP. */
import t, { type Test } from 'tap'
import { permissionBits } from '../../src/accounts/principal.js'
import { asPath } from '../../src/base/path.js'
import { Served, serve } from '../protocols/http/served.js'
import { absent, ended, share, shown, Visitor } from './visitor.js'

/** Ann, whose base folder is /home/ann, has files there, and others have some beside it. */
async function household(t: Test): Promise<{ readonly admin: Served; readonly ann: Served }> {
  const admin = await serve(t)
  await admin.put('/home/ann/docs/a.txt', 'text of a')
  await admin.put('/home/ann/docs/deep/b.txt', 'text of b')
  await admin.put('/home/ann/docs/picture.png', 'no picture')
  await admin.put('/home/ann/single.txt', 'single')
  await admin.put('/home/ann/secret.txt', 'secret')
  await admin.put('/home/annex/x.txt', 'annex')
  await admin.put('/other/y.txt', 'other')
  return { admin, ann: await admin.as('ann', ['share', 'write', 'rename', 'move', 'remove'], '/home/ann') }
}

function userId({ gateway }: Served, name: string): number {
  return gateway.accounts.users.byName(name)?.id ?? 0
}

void t.test('a visitor without an account lists a folder, and downloads a file with ranges', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { readme: 'read me', header: 'above' })
  const visitor = new Visitor(ann)
  const { code, data } = await visitor.list(`/@s/${id}`)
  t.equal(code, 200)
  t.match(data, { total: 3, readme: 'read me', header: 'above', write: false, provider: 'unknown' })
  t.same(
    data.content.map(({ name, sign }) => [name, sign]),
    [
      ['deep', ''],
      ['a.txt', ''],
      ['picture.png', ''],
    ],
  )
  t.match(await visitor.get(`/@s/${id}`), {
    code: 200,
    data: { name: 'docs', is_dir: true, raw_url: '', related: [], share_mode: 'read', share_sorted: false },
  })
  const file = await visitor.get(`/@s/${id}/deep/b.txt`)
  t.match(file, { code: 200, data: { name: 'b.txt', size: 9, raw_url: `${ann.url}/sd/${id}/deep/b.txt` } })
  t.equal(await visitor.content(`/@s/${id}/deep/b.txt`), 'text of b')
  const part = await visitor.ask(`/sd/${id}/a.txt`, { headers: { range: 'bytes=5-6' } })
  t.match(part, { status: 206, text: 'of' })
  t.match(await visitor.ask(`/sd/${id}/a.txt`, { method: 'HEAD' }), { status: 200, text: '' })
  t.equal((await shown(ann, id)).accessed, 1, 'all of it is one visit')
})

void t.test('a shared file is a root of its own: get, and a stable link with and without a slash', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/single.txt'])
  const visitor = new Visitor(ann)
  t.match(await visitor.get(`/@s/${id}`), { code: 200, data: { name: 'single.txt', raw_url: `${ann.url}/sd/${id}/` } })
  for (const target of [`/sd/${id}`, `/sd/${id}/`]) {
    const answer = await visitor.ask(target)
    t.match(answer, { status: 200, text: 'single' })
    t.match(answer.headers.get('content-disposition'), /single\.txt/)
  }
  t.match(await visitor.list(`/@s/${id}`), { code: 500, message: 'not a folder' })
  for (const sub of ['secret.txt', '../secret.txt', '..%2fsecret.txt', '%2e%2e/secret.txt', '..\\secret.txt']) {
    const { status, text } = await visitor.ask(`/sd/${id}/${sub}`)
    t.equal(status, 404, sub)
    t.notMatch(text, 'secret')
  }
  for (const sub of ['/secret.txt', '/./secret.txt']) t.match(await visitor.get(`/@s/${id}${sub}`), { code: 500 }, sub)
  for (const sub of ['/../secret.txt', '\\..\\secret.txt']) {
    t.match(await visitor.get(`/@s/${id}${sub}`), { code: 403, message: 'using relative path is not allowed' }, sub)
  }
})

void t.test('several files and folders appear as one folder, without those that are missing', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs', '//home/ann/single.txt/', '/home/ann/secret.txt'])
  const visitor = new Visitor(ann)
  t.same(await visitor.names(`/@s/${id}`), ['docs', 'single.txt', 'secret.txt'])
  t.match(await visitor.get(`/@s/${id}`), { code: 200, data: { name: id, size: 0, modified: '0001-01-01T00:00:00Z' } })
  t.equal(await visitor.content(`/@s/${id}/docs/deep/b.txt`), 'text of b')
  t.equal(await visitor.content(`/@s/${id}/single.txt`), 'single')
  t.match(await visitor.ask(`/sd/${id}`), { status: 404 })
  t.match(await visitor.get(`/@s/${id}/nothing`), absent)
  await admin.post('/api/fs/remove', { dir: '/home/ann', names: ['secret.txt'] })
  t.same(await visitor.names(`/@s/${id}`), ['docs', 'single.txt'])
  t.equal((await shown(ann, id)).state, 'active')
  t.match(await ann.post('/api/share/create', { files: ['/home/ann/docs', '/home/ann/x/docs'] }), {
    code: 500,
    message: 'object not found',
  })
  await admin.put('/home/ann/x/docs/z.txt', 'z')
  t.match(await ann.post('/api/share/create', { files: ['/home/ann/docs', '/home/ann/x/docs'] }), {
    code: 400,
    message: 'two files or folders of a share cannot have the same name',
  })
})

void t.test('no token is asked for, a bad one is ignored, and so is the account of a valid one', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'])
  for (const authorization of ['', 'bad', admin.token]) {
    const response = await fetch(`${ann.url}/api/fs/list`, {
      method: 'POST',
      body: JSON.stringify({ path: `/@s/${id}`, refresh: true }),
      headers: { authorization, 'content-type': 'application/json' },
    })
    t.match(await response.json(), { code: 200, data: { total: 3, write: false } })
  }
  const refused = await fetch(`${ann.url}/api/fs/list`, { method: 'POST', body: '{"path":"/"}' })
  t.match(await refused.json(), { code: 401 }, 'the tree is not open to visitors')
  t.match(await admin.post('/api/fs/list', { path: '/@sx' }), absent, 'only /@s is a share')
  t.match(await new Visitor(ann).list('/@s'), { code: 400, message: 'invalid share id' })
  t.match(await new Visitor(ann).list('/@s/none'), { code: 500, message: 'the share does not exist' })
  t.match(await new Visitor(ann).ask('/sd/none'), { status: 404 })
})

void t.test('without the code there is no link and no file, and eight wrong ones lock the code', async (t) => {
  const { ann } = await household(t)
  const code = 'c&d#e f'
  const id = await share(ann, ['/home/ann/docs'], { pwd: code })
  const visitor = new Visitor(ann)
  const wrong = { code: 403, message: 'wrong share code', data: null, error: 'share_code_wrong' }
  for (const ask of [visitor.list(`/@s/${id}`), visitor.get(`/@s/${id}/a.txt`), visitor.get(`/@s/${id}/none`)]) {
    t.match(await ask, wrong, 'a missing one too, and whatever is there')
  }
  t.match(await visitor.ask(`/sd/${id}/a.txt`), { status: 403 })
  t.match(await visitor.ask(`/sd/${id}/none`), { status: 403 })
  t.notMatch(visitor.told.join(), /\/sd\/|a\.txt|docs/)
  const { data } = await visitor.list(`/@s/${id}`, { password: code })
  t.match(
    data.content.find(({ name }) => name === 'a.txt'),
    { sign: '' },
  )
  t.equal(await visitor.content(`/@s/${id}/a.txt`, { password: code }), 'text of a')
  t.match(await visitor.ask(`/sd/${id}/a.txt?pwd=${encodeURIComponent(code)}`), { status: 200 })
  t.match(await visitor.ask(`/sd/${id}/a.txt`), { status: 403 }, 'in a visit too')
  const headers = { cookie: `browser-password=${encodeURIComponent(code)}`, 'content-type': 'application/json' }
  const init = { method: 'POST', body: JSON.stringify({ path: `/@s/${id}` }), headers }
  t.match(JSON.parse((await visitor.ask('/api/fs/list', init)).text), { code: 200 })
  for (let count = 0; count < 20; count++) await visitor.list(`/@s/${id}`, { password: 'the same' })
  for (let count = 1; count < 8; count++) {
    t.match(await visitor.list(`/@s/${id}`, { password: `guess ${count}` }), wrong)
  }
  t.match(await visitor.list(`/@s/${id}`, { password: code }), { code: 429, error: 'throttled' })
  const locked = await visitor.ask(`/sd/${id}/a.txt?pwd=${encodeURIComponent(code)}`)
  t.equal(locked.status, 429)
  t.ok(Number(locked.headers.get('retry-after')) > 0)
  const other = await share(ann, ['/home/ann/docs'], { pwd: code })
  t.match(await visitor.list(`/@s/${other}`, { password: code }), { code: 200 }, 'another share is not locked')
})

void t.test('without the code visitors learn only whether somebody, or its date, has ended a share', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { pwd: 'code' })
  const visitor = new Visitor(ann)
  const past = await share(ann, ['/home/ann/docs'], { pwd: 'code', expires: '2020-01-01T00:00:00Z' })
  t.match(await visitor.list(`/@s/${past}`), ended)
  await admin.gateway.accounts.users.update(userId(admin, 'ann'), { disabled: true })
  t.match(await visitor.list(`/@s/${id}`), { error: 'share_code_wrong' })
  t.match(await visitor.list(`/@s/${id}`, { password: 'code' }), ended)
  await admin.post(`/api/share/disable?id=${id}`)
  for (let guess = 0; guess < 20; guess++) {
    t.match(await visitor.list(`/@s/${id}`, { password: `guess ${guess}` }), ended, 'which costs no try')
  }
})

void t.test('a code is sent in the URL, or in a header, which no log has', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { pwd: 'code' })
  const get = (query: string, headers: Record<string, string> = {}) =>
    new Visitor(ann).ask(`/sd/${id}/a.txt${query}`, { headers })
  t.match(await get('', { password: 'code' }), { status: 200, text: 'text of a' })
  t.match(await get('?pwd=', { password: 'code' }), { status: 200 })
  t.match(await get('', { cookie: 'browser-password=code' }), { status: 200 })
  t.match(await get('?pwd=wrong', { password: 'code' }), { status: 403 })
})

void t.test('a share of one visit serves all of that visit, and nobody else', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { max_accessed: 1 })
  const visitor = new Visitor(ann)
  const first = await Promise.all([visitor.get(`/@s/${id}`), visitor.list(`/@s/${id}`), visitor.list(`/@s/${id}/deep`)])
  t.same(
    first.map(({ code }) => code),
    [200, 200, 200],
    'the first requests of a page are sent at once',
  )
  t.equal(await visitor.content(`/@s/${id}/a.txt`), 'text of a')
  for (const range of ['bytes=0-1', 'bytes=2-3']) {
    t.match(await visitor.ask(`/sd/${id}/a.txt`, { headers: { range } }), { status: 206 })
  }
  t.equal((await shown(ann, id)).state, 'used_up')
  for (const other of [new Visitor(ann), new Visitor(ann, { agent: 'curl' })]) {
    t.match(await other.list(`/@s/${id}`), ended)
    t.match(await other.ask(`/sd/${id}/a.txt`), { status: 410 })
    t.match(await other.ask(`/sd/${id}/a.txt`, { method: 'HEAD' }), { status: 410 })
  }
  t.match(await visitor.list(`/@s/${id}`), { code: 200 }, 'who is in stays in')
  t.equal((await shown(ann, id)).accessed, 1)
})

void t.test('a client without cookies is known by address and program, as long as no cookie was shown', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { max_accessed: 2 })
  const curl = new Visitor(ann, { agent: 'curl', cookies: false })
  for (let count = 0; count < 3; count++) t.match(await curl.ask(`/sd/${id}/a.txt`), { status: 200 })
  t.equal((await shown(ann, id)).accessed, 1)
  t.match(await new Visitor(ann, { agent: 'curl', cookies: false }).list(`/@s/${id}`), { code: 200 })
  t.equal((await shown(ann, id)).accessed, 1)
  const browser = new Visitor(ann)
  await browser.list(`/@s/${id}`)
  await browser.list(`/@s/${id}`)
  t.equal((await shown(ann, id)).accessed, 2)
  t.match(await new Visitor(ann).list(`/@s/${id}`), ended, 'another browser of the same kind and network')
  const forged = { cookie: 'tidegate_visit=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }
  t.match(await new Visitor(ann).ask(`/sd/${id}/a.txt`, { headers: forged }), { status: 410 })
})

void t.test('of many visitors at once exactly as many are let in, and HEAD begins no visit', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { max_accessed: 5 })
  t.match(await new Visitor(ann).ask(`/sd/${id}/a.txt`, { method: 'HEAD' }), { status: 200 })
  t.equal((await shown(ann, id)).accessed, 0)
  const visitors = Array.from({ length: 20 }, (_, number) => new Visitor(ann, { agent: `browser ${number}` }))
  const answers = await Promise.all(visitors.map((visitor) => visitor.list(`/@s/${id}`)))
  t.equal(answers.filter(({ code }) => code === 200).length, 5)
  t.equal((await shown(ann, id)).accessed, 5)
})

void t.test('a share that is disabled while visitors come stays disabled', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'])
  const visit = (number: number) => new Visitor(ann, { agent: `browser ${number}` }).list(`/@s/${id}`)
  const visits = Array.from({ length: 50 }, (_, number) => visit(number))
  t.match(await ann.post(`/api/share/disable?id=${id}`), { code: 200, data: null })
  const codes = (await Promise.all(visits)).map(({ code }) => code)
  const { accessed, state } = await shown(ann, id)
  t.equal(state, 'disabled')
  // Visits that had just begun are ended too.
  t.ok(accessed >= codes.filter((code) => code === 200).length && accessed <= 50, String(accessed))
  t.match(await visit(99), ended)
  await ann.post(`/api/share/enable?id=${id}`)
  t.match(await visit(100), { code: 200 })
})

void t.test('networks that may not visit a share are told that it does not exist', async (t) => {
  const admin = await serve(t, '', [], { trusted_proxies: ['127.0.0.1'] })
  await admin.put('/docs/a.txt', 'a')
  const id = await share(admin, ['/docs'], { allow_from: ['192.0.2.0/24', '2001:db8::/32'], pwd: 'code' })
  const from = (address: string) => new Visitor(admin, { address }).list(`/@s/${id}`, { password: 'code' })
  t.match(await from('192.0.2.9'), { code: 200 })
  t.match(await from('2001:db8::9'), { code: 200 })
  for (const address of ['192.0.3.9', '2001:db9::9']) t.match(await from(address), { error: 'share_missing' }, address)
  t.match(await admin.post('/api/share/create', { files: ['/docs'], allow_from: ['10.0.0.0/99'] }), { code: 400 })
})

void t.test('the end of a share comes: nothing is opened, and what is open ends', async (t) => {
  const { ann } = await household(t)
  const expires = new Date(Date.now() + 1500).toISOString()
  const id = await share(ann, ['/home/ann/docs'], { expires })
  const visitor = new Visitor(ann)
  t.match(await visitor.list(`/@s/${id}`), { code: 200 })
  const { creatorId } = ann.gateway.shares.get(id)!
  const principal = ann.gateway.accounts.principals.forShare(
    creatorId,
    { id, pseudonym: 'p', mode: 'read' },
    { path: asPath('/home/ann/docs'), folds: false, end: new Date(expires) },
    { name: 'http', appPasswords: false },
  )
  await new Promise((resolve) => principal.signal.addEventListener('abort', resolve))
  t.match(await visitor.list(`/@s/${id}`), ended, 'a visit does not go on')
  t.equal((await shown(ann, id)).state, 'expired')
  const past = await share(ann, ['/home/ann/docs'], { expires: '2020-01-01T00:00:00Z' })
  t.equal((await shown(ann, past)).state, 'expired')
  const never = await share(ann, ['/home/ann/docs'], { expires: '0001-01-01T00:00:00Z' })
  t.match(await shown(ann, never), { state: 'active', expires: null })
})

void t.test('the rights of the creator are asked at each use', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'])
  const visitor = new Visitor(ann)
  const { users } = admin.gateway.accounts
  const [annId, all] = [userId(admin, 'ann'), permissionBits.share | permissionBits.seeHidden]
  t.match(await visitor.list(`/@s/${id}`), { code: 200 })

  await t.test('the permission to share', async (t) => {
    await users.update(annId, { permission: 0 })
    t.match(await visitor.list(`/@s/${id}`), ended)
    t.match(await visitor.ask(`/sd/${id}/a.txt`), { status: 410 })
    await users.update(annId, { permission: all })
    t.match(await visitor.list(`/@s/${id}`), { code: 200 })
  })
  await t.test('the base folder, by whole names', async (t) => {
    for (const basePath of ['/home/ann/doc', '/home/annex', '/home/ann/docs/deep']) {
      await users.update(annId, { basePath })
      t.match(await visitor.list(`/@s/${id}`), ended, basePath)
    }
    await users.update(annId, { basePath: '/home' })
    t.match(await visitor.list(`/@s/${id}`), { code: 200 })
    await users.update(annId, { basePath: '/home/ann' })
  })
  await t.test('the account', async (t) => {
    await users.update(annId, { disabled: true })
    t.match(await visitor.list(`/@s/${id}`), ended)
    await users.update(annId, { disabled: false })
    t.match(await visitor.list(`/@s/${id}`), { code: 200 })
  })
  await t.test('grants, of the folder and below it', async (t) => {
    for (const right of ['see', 'share'] as const) {
      await admin.gateway.grants.replace({ userId: annId }, [{ path: '/home/ann/docs', allow: [], deny: [right] }])
      t.match(await visitor.list(`/@s/${id}`), ended, right)
      const below = [{ path: '/home/ann/docs/deep', allow: [], deny: [right] }]
      await admin.gateway.grants.replace({ userId: annId }, below)
      t.same(await visitor.names(`/@s/${id}`), ['a.txt', 'picture.png'], right)
      t.match(await visitor.get(`/@s/${id}/deep/b.txt`), absent)
      t.match(await visitor.ask(`/sd/${id}/deep/b.txt`), { status: 404 })
    }
    await admin.gateway.grants.replace({ userId: annId }, [{ path: '/home/ann/docs', allow: [], deny: ['read'] }])
    t.match(await visitor.get(`/@s/${id}/a.txt`), { code: 200, data: { raw_url: '', thumb: '' } })
    t.match(await visitor.ask(`/sd/${id}/a.txt`), { status: 404 })
    await admin.gateway.grants.replace({ userId: annId }, [])
  })
  await t.test('folder rules, whatever the creator may pass by', async (t) => {
    await admin.rule('/home/ann/docs/deep', { password: 'x', passwordSub: true })
    await admin.rule('/home/ann/docs', { hide: '^a', hideSub: true })
    t.same(await visitor.names(`/@s/${id}`), ['deep', 'picture.png'])
    for (const path of ['a.txt', 'deep/b.txt']) {
      t.match(await visitor.get(`/@s/${id}/${path}`), absent, path)
      t.match(await visitor.ask(`/sd/${id}/${path}`), { status: 404 }, path)
    }
    t.match(await visitor.list(`/@s/${id}/deep`, { password: 'x' }), absent, 'the code of a share opens no folder')
    await admin.rule('/home', { hide: '^docs$', hideSub: true })
    const again = await admin.post('/api/share/create', { files: ['/home/ann/docs/deep'], creator: 'ann' })
    t.match(again, { code: 500 })
  })
  await t.test('the account goes, and its shares with it', async (t) => {
    await admin.post(`/api/admin/user/delete?id=${annId}`)
    t.match(await visitor.list(`/@s/${id}`), { code: 500, error: 'share_missing' })
    t.same(await admin.gateway.store.shares.all(), [])
    t.same(await admin.gateway.store.shareRoots.all(), [])
  })
})

void t.test('what leads to nothing that is shared is not shown', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { mode: 'both' })
  const visitor = new Visitor(ann)
  const grant = (fields: object) => ({ allow: [], deny: [], ...fields })
  const unshared = grant({ path: '/home/ann/docs/deep', deny: ['share'] })
  const below = (path: string, ...allow: readonly string[]) => grant({ path: `/home/ann/docs/deep/${path}`, allow })
  const set = (...grants: readonly ReturnType<typeof below>[]) =>
    admin.gateway.grants.replace({ userId: userId(ann, 'ann') }, grants as never)
  await set(unshared, below('b.txt', 'see', 'read'))
  t.same(await visitor.names(`/@s/${id}`), ['a.txt', 'picture.png'])
  t.match(await visitor.get(`/@s/${id}/deep`), absent, 'Ann sees it, and may not share it')
  await set(unshared, below('b.txt', 'see', 'read', 'share'))
  t.same(await visitor.names(`/@s/${id}`), ['deep', 'a.txt', 'picture.png'], 'a way to what is shared')
  t.match(await visitor.get(`/@s/${id}/deep`), { code: 200 })
  t.same(await visitor.names(`/@s/${id}/deep`), ['b.txt'])
  t.match(await visitor.mkdir(`/@s/${id}/deep/new`), absent, 'nothing is made beside it')
})

void t.test('a hidden name on the way to a share closes it, and one above the base folder does not', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs/deep'])
  const visitor = new Visitor(ann)
  await admin.rule('/home', { hide: '^ann$', hideSub: true })
  t.match(await visitor.list(`/@s/${id}`), { code: 200 })
  await admin.rule('/home/ann', { hide: '^deep$', hideSub: true })
  t.match(await visitor.list(`/@s/${id}`), ended)
  t.equal((await shown(ann, id)).state, 'closed')
})

void t.test('a share follows what is renamed and moved, and ends when that is removed', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs/a.txt'])
  const visitor = new Visitor(ann)
  await ann.post('/api/fs/rename', { path: '/docs/a.txt', name: 'renamed.txt' })
  await ann.put('/docs/a.txt', 'a new file at the old path')
  t.match(await visitor.ask(`/sd/${id}`), { status: 200, text: 'text of a' })
  await admin.post('/api/fs/rename', { path: '/home/ann/docs', name: 'papers' })
  t.match(await visitor.ask(`/sd/${id}`), { status: 200, text: 'text of a' })
  t.same((await shown(ann, id)).files, ['/home/ann/papers/renamed.txt'])
  await ann.post('/api/fs/remove', { dir: '/', names: ['papers'] })
  t.match(await visitor.ask(`/sd/${id}`), { status: 410 })
  t.equal((await shown(ann, id)).state, 'missing')
  await ann.put('/papers/renamed.txt', 'made again')
  t.match(await visitor.ask(`/sd/${id}`), { status: 410 }, 'what is made again is not shared')
  t.match(await visitor.list(`/@s/${id}`), ended)
  t.equal((await shown(ann, id)).state, 'missing')
})

void t.test('a base of a share that is missing is not made again', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { mode: 'both' })
  await admin.gateway.store.shareRoots.update(1, { path: asPath('/home/ann/gone') })
  await admin.gateway.shares.reload()
  t.match(await new Visitor(ann).list(`/@s/${id}`), ended)
  t.equal((await shown(ann, id)).state, 'missing')
  t.notOk((await admin.names('/home/ann')).includes('gone'))
})

void t.test('no answer to a visitor tells where a file is, nor how to get it without the share', async (t) => {
  const { admin, ann } = await household(t)
  await admin.mount('/home/ann/docs/vault', 'Broken', { addition: '{"reason":"host nas.internal is down"}' })
  const id = await share(ann, ['/home/ann/docs'])
  const pair = await share(ann, ['/home/ann/docs', '/home/ann/single.txt'], { pwd: 'code' })
  const visitor = new Visitor(ann)
  for (const [path, fields] of [
    [`/@s/${id}`, {}],
    [`/@s/${pair}`, { password: 'code' }],
    [`/@s/${pair}/docs`, { password: 'code' }],
    [`/@s/${id}/vault`, {}],
    [`/@s/${id}/vault/x`, {}],
    [`/@s/${id}/a.txt`, {}],
    [`/@s/${id}/none/none`, {}],
    [`/@s/${id}/a.txt/none`, {}],
  ] as const) {
    await visitor.list(path, fields)
    await visitor.get(path, fields)
  }
  for (const target of ['a.txt', 'vault', 'vault/x', 'none', 'deep', 'picture.png?type=thumb', '%ff', '']) {
    await visitor.ask(`/sd/${id}/${target}`)
  }
  const told = visitor.told.join('\n')
  t.ok(told.includes('picture.png'), 'it was told of files')
  for (const secret of ['/home', 'ann', '/d/', '/p/', 'sign=', 'nas.internal', 'Broken', 'Local']) {
    t.notOk(told.includes(secret), secret)
  }
})

void t.test('answers to visitors lead nobody to the share, are not stored, and run nothing', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { pwd: 'code' })
  const visitor = new Visitor(ann)
  const ask = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const listed = await visitor.ask('/api/fs/list', {
    ...ask,
    body: JSON.stringify({ path: `/@s/${id}`, password: 'code' }),
  })
  const file = await visitor.ask(`/sd/${id}/a.txt?pwd=code`)
  const refused = await visitor.ask(`/sd/${id}/a.txt`)
  for (const { headers } of [listed, file, refused]) {
    t.equal(headers.get('referrer-policy'), 'no-referrer')
    t.equal(headers.get('x-robots-tag'), 'noindex')
  }
  for (const { headers } of [listed, file]) t.equal(headers.get('cache-control'), 'private, no-store')
  t.match(Object.fromEntries(file.headers), {
    'x-content-type-options': 'nosniff',
    'content-security-policy': /sandbox/,
    'content-disposition': /^attachment/,
  })
  t.match((await new Visitor(ann).ask(`/sd/${id}/a.txt?pwd=code`)).headers.getSetCookie()[0], /HttpOnly; SameSite=Lax/)
  t.match(await visitor.ask(`/sd/${id}/a.txt`, { method: 'POST' }), { status: 405 })
})

void t.test('a folder to upload to is shown empty', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/home/ann/docs'], { mode: 'upload' })
  const visitor = new Visitor(ann)
  t.match(await visitor.list(`/@s/${id}`), { code: 200, data: { total: 0, content: [], write: false } })
  t.match(await visitor.get(`/@s/${id}`), { code: 200, data: { name: 'docs', is_dir: true } })
  for (const path of ['a.txt', 'deep', 'deep/b.txt', 'none']) {
    t.match(await visitor.get(`/@s/${id}/${path}`), absent)
    t.match(await visitor.list(`/@s/${id}/${path}`), absent)
    t.match(await visitor.ask(`/sd/${id}/${path}`), { status: 404 })
  }
  t.match(await ann.post('/api/share/create', { files: ['/home/ann/single.txt'], mode: 'upload' }), {
    code: 500,
    message: 'not a folder',
  })
  const both = await share(ann, ['/home/ann/docs'], { mode: 'both' })
  t.match(await visitor.list(`/@s/${both}`), { code: 200, data: { total: 3, write: true } })
})

void t.test('the names by which shares and pages are reached cannot be made at the top', async (t) => {
  const { admin, ann } = await household(t)
  for (const name of ['@s', '@login', '@manage']) {
    const refused = { message: 'this name cannot be used at the top of the tree' }
    for (const [who, path] of [
      [ann, `/${name}`],
      [admin, `/${name}`],
      [admin, `/home/ann/${name}`],
    ] as const) {
      t.match(await who.post('/api/fs/mkdir', { path }), { message: refused.message, code: 403 }, path)
      t.match(await who.put(path, 'x'), { message: refused.message, code: 403 }, path)
      t.match(await who.put(`${path}/x`, 'x'), { message: refused.message, code: 403 }, path)
    }
    t.match(await ann.post('/api/fs/rename', { path: '/single.txt', name }), { message: refused.message })
    t.match(await ann.put(`/docs/${name}`, 'x'), { code: 200 }, 'elsewhere it can')
    t.match(await ann.post('/api/fs/move', { src_dir: '/docs', dst_dir: '/', names: [name] }), {
      message: refused.message,
    })
    t.match(await admin.mount(`/${name}`, 'Local'), { code: 500 })
  }
})
