/** Folder rules in requests: which folders each part of a rule covers, and what a user without permissions sees. */
import t from 'tap'
import { serve, type Served } from './served.js'

const closed = { code: 403, message: 'password is incorrect or you have no permission', data: null }
const denied = { code: 403, message: 'permission denied', data: null }

async function notes(served: Served, path: string): Promise<readonly string[]> {
  const { data } = await served.post('/api/fs/list', { path })
  const { readme, header } = data as { readme: string; header: string }
  return [header, readme]
}

void t.test('readme and header are shown in their folder, and below it if the rule says so', async (t) => {
  const admin = await serve(t)
  await admin.put('/a/b/file', 'x')
  await admin.rule('/a', { readme: '# readme', header: 'header', headerSub: true })
  t.same(await notes(admin, '/'), ['', ''])
  t.same(await notes(admin, '/a'), ['header', '# readme'])
  t.same(await notes(admin, '/a/b'), ['header', ''])
  t.match((await admin.post('/api/fs/get', { path: '/a/b/file' })).data, { header: 'header', readme: '' })
  await admin.rule('/a/b', { readme: 'nearer' })
  t.same(await notes(admin, '/a/b'), ['', 'nearer'], 'only the nearest rule applies')
})

void t.test('a folder password protects its folder, and everything below if p_sub is set', async (t) => {
  const admin = await serve(t)
  await admin.put('/one/file', 'x')
  await admin.put('/one/sub/file', 'x')
  await admin.put('/all/sub/file', 'x')
  await admin.rule('/one', { password: 'p' })
  await admin.rule('/all', { password: 'p', passwordSub: true })
  const ann = await admin.as('ann', [])
  const ask = (call: string, path: string, password = '') => ann.post(`/api/fs/${call}`, { path, password })
  t.strictSame(await ask('list', '/one'), closed)
  t.strictSame(await ask('get', '/one/file'), closed, 'direct members are covered')
  t.match(await ask('list', '/one/sub'), { code: 200 }, 'deeper entries are not')
  t.strictSame(await ask('list', '/all/sub'), closed)
  t.strictSame(await ask('get', '/all/sub/file', 'P'), closed)
  t.strictSame(await ask('dirs', '/all', 'wrong'), closed)
  t.match(await ask('get', '/all/sub/file', 'p'), { code: 200 })
  t.match(await ask('dirs', '/all', 'p'), { data: [{ name: 'sub' }] })
  t.match(await ann.get('/api/fs/list?path=/all&password=p'), { code: 200 })
  t.match((await ask('list', '/')).data, { content: [{ name: 'all' }, { name: 'one' }] }, 'the parent lists it')
  await admin.rule('/all/sub', {})
  t.match(await ask('list', '/all/sub'), { code: 200 }, 'a nearer rule without a password overrides it')
  const bob = await admin.as('bob', ['skipPasswords'])
  t.match(await bob.post('/api/fs/list', { path: '/one' }), { code: 200 })
})

void t.test('changes require the folder password, in a header or the cookie of the web client', async (t) => {
  const admin = await serve(t)
  for (const name of ['a', 'b', 'c', 'd', 'e']) await admin.put(`/closed/${name}`, name)
  await admin.post('/api/fs/mkdir', { path: '/open' })
  await admin.rule('/closed', { password: 'pä ss', passwordSub: true })
  const ann = await admin.as('ann', ['write', 'rename', 'move', 'copy', 'remove'])
  const header = { password: Buffer.from('pä ss').toString('latin1') }
  const cookie = { cookie: 'other=1; browser-password=p%C3%A4%20ss' }
  const changes: readonly (readonly [call: string, body: object])[] = [
    ['mkdir', { path: '/closed/new' }],
    ['rename', { path: '/closed/a', name: 'z' }],
    ['batch_rename', { src_dir: '/closed', rename_objects: [{ src_name: 'b', new_name: 'y' }] }],
    ['regex_rename', { src_dir: '/closed', src_name_regex: 'nothing', new_name_regex: 'x' }],
    ['copy', { src_dir: '/closed', dst_dir: '/open', names: ['c'] }],
    ['move', { src_dir: '/closed', dst_dir: '/open', names: ['d'] }],
    ['remove', { dir: '/closed', names: ['e'] }],
    ['remove_empty_directory', { src_dir: '/closed' }],
  ]
  for (const [at, [call, body]] of changes.entries()) {
    t.strictSame(await ann.post(`/api/fs/${call}`, body), closed, call)
    t.strictSame(await ann.post(`/api/fs/${call}`, body, { password: 'wrong' }), closed, call)
    t.match(await ann.post(`/api/fs/${call}`, body, at % 2 === 0 ? header : cookie), { code: 200 }, call)
  }
  t.strictSame(await ann.put('/closed/put', 'x'), closed)
  t.match(await ann.put('/closed/put', 'x', cookie), { code: 200 })
  t.same((await admin.names('/closed')).sort(), ['c', 'put', 'y', 'z'])
  t.same((await admin.names('/open')).sort(), ['c', 'd'])
})

void t.test('a rule with write permits uploads and refreshes only', async (t) => {
  const admin = await serve(t)
  await admin.put('/drop/file', 'x')
  await admin.rule('/drop', { write: true })
  const ann = await admin.as('ann', [])
  t.match((await ann.post('/api/fs/list', { path: '/drop', refresh: true })).data, {
    write: true,
    write_content_bypass: true,
  })
  t.match((await ann.post('/api/fs/list', { path: '/' })).data, { write: false, write_content_bypass: false })
  t.match(await ann.put('/drop/file', 'replaced'), { code: 200 })
  t.match(await ann.post('/api/fs/mkdir', { path: '/drop/folder' }), { code: 200 })
  t.strictSame(await ann.post('/api/fs/mkdir', { path: '/drop/folder/deeper' }), denied, 'it does not apply below')
  t.strictSame(await ann.put('/drop/new/file', 'x'), denied, 'nor to new folders')
  t.strictSame(await ann.post('/api/fs/rename', { path: '/drop/file', name: 'x' }), denied)
  t.strictSame(await ann.post('/api/fs/remove', { dir: '/drop', names: ['file'] }), denied)
  t.strictSame(await ann.post('/api/fs/move', { src_dir: '/drop', dst_dir: '/drop/folder', names: ['file'] }), denied)
  t.strictSame(await ann.post('/api/fs/copy', { src_dir: '/drop', dst_dir: '/drop/folder', names: ['file'] }), denied)
})

void t.test('`write` in a listing is true if the user may change something in the folder', async (t) => {
  const admin = await serve(t)
  await admin.put('/closed/file', 'x')
  const who = admin.gateway.accounts.users
  for (const [permission, expected] of [
    ['seeHidden', false],
    ['offlineDownload', false],
    ['write', true],
    ['rename', true],
    ['move', true],
    ['copy', true],
    ['remove', true],
  ] as const) {
    const user = await admin.as(permission, [permission])
    t.match((await user.post('/api/fs/list', { path: '/' })).data, { write: expected }, permission)
  }
  await admin.rule('/closed', { writeUsers: [who.byName('write')?.id ?? 0], writeUsersSub: true })
  const { data } = await admin.post('/api/auth/login', { username: 'rename', password: 'password' })
  const asOther = { authorization: (data as { token: string }).token }
  t.match((await admin.post('/api/fs/list', { path: '/closed' }, asOther)).data, { write: false })
  t.match((await admin.post('/api/fs/list', { path: '/closed' })).data, { write: false }, 'the admin is not exempt')
  t.strictSame(await admin.put('/closed/new', 'x'), denied)
})

void t.test('a folder with read_users is hidden from all other users', async (t) => {
  const admin = await serve(t)
  await admin.put('/team/private/file', 'x')
  await admin.put('/team/common', 'x')
  const ann = await admin.as('ann', [])
  const bob = await admin.as('bob', [])
  await admin.rule('/team/private', {
    readUsers: [admin.gateway.accounts.users.byName('bob')?.id ?? 0],
    readUsersSub: true,
  })
  t.same(await ann.names('/team'), ['common'])
  t.same(await bob.names('/team'), ['private', 'common'])
  for (const call of ['list', 'get', 'dirs']) {
    t.strictSame(await ann.post(`/api/fs/${call}`, { path: '/team/private' }), closed, call)
  }
  t.strictSame(await ann.post('/api/fs/get', { path: '/team/private/file' }), closed)
  t.strictSame((await ann.post('/api/fs/dirs', { path: '/team' })).data, [])
  t.match(await bob.post('/api/fs/get', { path: '/team/private/file' }), { code: 200 })
})

void t.test('hidden names do not appear in list, total, related or dirs', async (t) => {
  const admin = await serve(t)
  for (const path of ['/a/film.mp4', '/a/film.srt', '/a/film.secret.srt', '/a/sub/x.secret']) await admin.put(path, 'x')
  await admin.post('/api/fs/mkdir', { path: '/a/folder.secret' })
  await admin.rule('/a', { hide: '\\.secret' })
  const ann = await admin.as('ann', [])
  const seer = await admin.as('seer', ['seeHidden'])
  t.match((await ann.post('/api/fs/list', { path: '/a', per_page: 1 })).data, { total: 3, content: [{}] })
  t.match((await seer.post('/api/fs/list', { path: '/a' })).data, { total: 5 })
  t.match((await ann.post('/api/fs/dirs', { path: '/a' })).data, [{ name: 'sub' }])
  const { related } = (await ann.post('/api/fs/get', { path: '/a/film.mp4' })).data as { related: { name: string }[] }
  t.same(
    related.map(({ name }) => name),
    ['film.srt'],
  )
  t.strictSame(await ann.post('/api/fs/get', { path: '/a/film.secret.srt' }), closed)
  t.strictSame(await ann.post('/api/fs/list', { path: '/a/folder.secret' }), closed)
  t.same(await ann.names('/a/sub'), ['x.secret'], 'without h_sub it does not apply below')
  t.match(await seer.post('/api/fs/get', { path: '/a/film.secret.srt' }), { code: 200 })
})
