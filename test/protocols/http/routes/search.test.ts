/** Search by the API: matching, access, the commands for the index, and its updates by every change. */
import t, { type Test } from 'tap'
import { processorTime } from '../../../processor-time.js'
import { serve, type Envelope, type Served } from '../served.js'

interface Item {
  readonly parent: string
  readonly name: string
  readonly is_dir: boolean
  readonly size: number
  readonly type: number
}

async function switchOn(served: Served, engine = 'database'): Promise<Envelope> {
  return served.post('/api/admin/setting/save', [{ key: 'search_index', value: engine }])
}

async function built(t: Test, siteUrl = ''): Promise<Served> {
  const served = await serve(t, siteUrl)
  await switchOn(served)
  await served.post('/api/admin/index/build')
  await served.gateway.search.idle()
  return served
}

/** Paths that a search finds, after all changes are in the index. */
async function found(served: Served, keywords: string, fields: object = {}): Promise<string[]> {
  await served.gateway.search.idle()
  const { data, message } = await served.post('/api/fs/search', {
    parent: '/',
    keywords,
    scope: 0,
    page: 1,
    per_page: 100,
    password: '',
    ...fields,
  })
  if (data === null) return [message]
  const { content, total } = data as { content: Item[]; total: number }
  const paths = content.map(({ parent, name }) => `${parent === '/' ? '' : parent}/${name}`)
  if (total !== paths.length) paths.push(`total ${total}`)
  return paths
}

void t.test('search is not available before it is switched on', async (t) => {
  const served = await serve(t)
  const off = { code: 404, message: 'search not available', data: null }
  t.strictSame(await served.post('/api/fs/search', { parent: '/', keywords: 'x', scope: 0, page: 1, per_page: 1 }), off)
  for (const path of ['build', 'update', 'stop', 'clear']) {
    t.strictSame(await served.post(`/api/admin/index/${path}`, { paths: ['/'] }), off, path)
  }
  t.strictSame(await served.get('/api/admin/index/progress'), off)
})

void t.test('an unknown search engine is rejected, and the current one continues', async (t) => {
  const served = await built(t)
  await served.put('/a needle.txt', 'x')
  for (const engine of ['bleve', 'meilisearch']) {
    const answer = await switchOn(served, engine)
    t.match(answer, { code: 500, message: /^failed to execute hook on search_index: .*not part of this server/ })
  }
  t.match(await switchOn(served, 'nonsense'), { code: 400 })
  t.same(await found(served, 'needle'), ['/a needle.txt'])
  await switchOn(served, 'database_non_full_text')
  t.same(await found(served, 'needle'), ['/a needle.txt'])
  await switchOn(served, 'none')
  t.same(await found(served, 'needle'), ['search not available'])
})

void t.test('the fields of a result, and paging', async (t) => {
  const served = await built(t)
  await served.post('/api/fs/mkdir', { path: '/music/blue' })
  await served.put('/music/blue note.mp3', '12345')
  await served.put('/music/b/Blue.txt', '')
  await served.gateway.search.idle()
  const ask = (fields: object) =>
    served.post('/api/fs/search', { parent: '/music', keywords: 'blue', scope: 0, page: 1, per_page: 10, ...fields })
  const folder = { parent: '/music', name: 'blue', is_dir: true, size: 0, type: 1 }
  const song = { parent: '/music', name: 'blue note.mp3', is_dir: false, size: 5, type: 3 }
  const text = { parent: '/music/b', name: 'Blue.txt', is_dir: false, size: 0, type: 4 }
  t.strictSame(await ask({}), { code: 200, message: 'success', data: { content: [text, folder, song], total: 3 } })
  t.strictSame((await ask({ scope: 1 })).data, { content: [folder], total: 1 })
  t.strictSame((await ask({ scope: 2 })).data, { content: [text, song], total: 2 })
  t.strictSame((await ask({ scope: -7 })).data, { content: [text, song], total: 2 })
  t.strictSame((await ask({ page: 2, per_page: 1 })).data, { content: [folder], total: 3 })
  t.strictSame((await ask({ page: 9, per_page: 10 })).data, { content: [], total: 3 })
  t.strictSame((await ask({ parent: '/music/b' })).data, { content: [text], total: 1 }, 'only below the parent')
  t.strictSame((await ask({ parent: '/music/blue' })).data, { content: [], total: 0 }, 'not the parent itself')
  t.strictSame((await ask({ parent: '/nowhere' })).data, { content: [], total: 0 })
  t.strictSame((await ask({ parent: '/mus' })).data, { content: [], total: 0 })
  t.strictSame((await ask({ keywords: ' ' })).data, { content: [], total: 0 })
  t.match(await ask({ page: 0 }), { code: 400, message: `page can't < 1` })
  t.match(await ask({ page: undefined, per_page: undefined }), { data: { total: 3 } }, 'the first page')
  t.match(await ask({ per_page: -1 }), { code: 400, message: `per_page can't < 1` })
  t.match(await ask({ parent: '/a/../..' }), { code: 400, message: 'using relative path is not allowed' })
  t.match(await ask({ scope: 'x' }), { code: 400 })
  t.match(await served.get('/api/fs/search?parent=/music&keywords=note&scope=0&page=1&per_page=5'), {
    data: { content: [song], total: 1 },
  })
})

void t.test('words match anywhere in a name, in any order and case; there are no wildcards', async (t) => {
  const served = await built(t)
  const names = [
    '100% pure_gold.txt',
    'Straße ÄRGER.doc',
    '图书馆目录.pdf',
    'a"quote*.txt',
    'ΟΔΟΣ.txt',
    'xy',
    'cafe\u0301.md',
  ]
  for (const name of names) await served.put(`/${name}`, 'x')
  for (const [keywords, expected] of [
    ['gold PURE', ['100% pure_gold.txt']],
    ['%', ['100% pure_gold.txt']],
    ['_', ['100% pure_gold.txt']],
    ['0%', ['100% pure_gold.txt']],
    ['1_0', []],
    ['p%e', []],
    ['ärger stra', ['Straße ÄRGER.doc']],
    ['書', []],
    ['书', ['图书馆目录.pdf']],
    ['目录', ['图书馆目录.pdf']],
    ['图书馆', ['图书馆目录.pdf']],
    ['a"q', ['a"quote*.txt']],
    ['*.txt', ['a"quote*.txt']],
    ['οδοσ', ['ΟΔΟΣ.txt']],
    ['οδος', ['ΟΔΟΣ.txt']],
    ['y', ['xy']],
    ['xy', ['xy']],
    ['XY', ['xy']],
    ['x y', ['xy']],
    ['yx', []],
    ['café', ['cafe\u0301.md']],
    ['a/b', []],
    ['a\0b', []],
    ['" OR "', []],
    ['NEAR(gold pure)', []],
    ['gold AND', []],
  ] as const) {
    t.same(
      await found(served, keywords),
      expected.map((name) => `/${name}`),
      keywords,
    )
  }
  const many = Array.from({ length: 65 }, (_, at) => `word${at}x`).join(' ')
  t.match(await found(served, many), [/more than 64 words/])
  const long = Array.from({ length: 15_000 }, (_, at) => `word${at}x`).join(' ')
  const took = await processorTime(async () => t.match(await found(served, long), [/more than 1000 characters/]), 3)
  t.ok(took < 500, `${took.toFixed()} ms`)
})

void t.test('results contain only entries that the user may see', async (t) => {
  const served = await built(t)
  for (const path of [
    '/needle',
    '/home/ann/needle',
    '/home/ann/deep/down/needle',
    '/home/anna/needle',
    '/closed/needle',
    '/closed/sub/needle',
    '/closed/open/needle',
    '/shallow/needle',
    '/shallow/sub/needle',
    '/private/needle',
    '/private/sub/needle',
    '/hiding/needle',
    '/hiding/secret needle',
    '/hiding/secret/needle',
    '/hiding/secret/ruled/needle',
    '/hiding/sub/secret needle',
  ]) {
    await served.put(path, 'x')
  }
  const bob = await served.as('bob', [])
  const carol = await served.as('carol', ['seeHidden', 'skipPasswords'])
  const ann = await served.as('ann', [], '/home/ann')
  const me = (await bob.get('/api/me')).data as { id: number }
  await served.rule('/closed', { password: 'open sesame', passwordSub: true })
  await served.rule('/closed/open', { readme: 'come in' })
  await served.rule('/shallow', { password: 'open sesame' })
  await served.rule('/private', { readUsers: [me.id + 1000], readUsersSub: true })
  await served.rule('/hiding', { hide: '^secret' })
  await served.rule('/hiding/secret/ruled', { readme: 'x' })
  const open = [
    '/closed/open/needle',
    '/hiding/needle',
    '/hiding/sub/secret needle',
    '/home/ann/deep/down/needle',
    '/home/ann/needle',
    '/home/anna/needle',
    '/needle',
    '/shallow/sub/needle',
  ]
  t.same((await found(bob, 'needle')).sort(), open)
  t.same((await found(bob, 'ne')).sort(), open, 'two letters')
  t.same(
    (await found(bob, 'needle', { password: 'open sesame' })).sort(),
    [...open, '/closed/needle', '/closed/sub/needle', '/shallow/needle'].sort(),
  )
  t.same(await found(bob, 'needle', { password: 'open sesame', parent: '/closed/sub' }), ['/closed/sub/needle'])
  t.same(await found(bob, 'needle', { parent: '/closed/sub' }), [])
  t.same(await found(bob, 'needle', { parent: '/private/sub' }), [])
  t.same(await found(bob, 'needle', { parent: '/hiding/secret/ruled' }), [], 'below a hidden folder')
  t.same(await found(bob, 'private'), [], 'a folder whose read_users exclude bob')
  t.same(await found(bob, 'closed'), ['/closed'], 'a folder with a password is found, its members are not')
  t.same(await found(bob, 'secret', { scope: 1 }), [])
  t.equal((await found(carol, 'needle')).length, 14, 'all except entries of other users')
  t.same((await found(ann, 'needle')).sort(), ['/home/ann/deep/down/needle', '/home/ann/needle'])
  t.same(await found(ann, 'needle', { parent: '/deep' }), ['/home/ann/deep/down/needle'])
  t.same(await found(ann, 'ann'), [], 'the base folder is not a result')
  const page = await bob.post('/api/fs/search', { parent: '/', keywords: 'needle', scope: 0, page: 1, per_page: 1 })
  t.match(page, { data: { total: open.length } }, 'the total counts only visible entries')

  const guest = new (served.constructor as typeof Served)(served.url, served.gateway)
  t.match(await guest.post('/api/fs/search', { parent: '/', keywords: 'needle', page: 1, per_page: 1 }), { code: 401 })
})

void t.test('only an admin builds, stops, clears and inspects the index', async (t) => {
  const served = await serve(t)
  await switchOn(served)
  for (let at = 0; at < 20; at++) await served.put(`/folder ${at}/file ${at}`, 'x')
  const progress = async () => (await served.get('/api/admin/index/progress')).data
  t.strictSame(await progress(), { obj_count: 0, is_done: true, last_done_time: null, error: '' })
  t.same(await found(served, 'file'), [], 'nothing is found before the first build')
  t.strictSame(await served.post('/api/admin/index/stop'), { code: 400, message: 'index is not running', data: null })

  t.strictSame(await served.post('/api/admin/index/build'), { code: 200, message: 'success', data: null })
  const running = { code: 400, message: 'index is running', data: null }
  t.strictSame(await served.post('/api/admin/index/build'), running)
  t.strictSame(await served.post('/api/admin/index/update', { paths: ['/'] }), running)
  t.strictSame(await served.post('/api/admin/index/clear'), running)
  t.match(await progress(), { is_done: false, last_done_time: null })
  t.match(await served.post('/api/admin/index/stop'), { code: 200 })
  await served.gateway.search.idle()
  t.match(await progress(), { is_done: true, last_done_time: null, error: 'stopped' })

  await served.post('/api/admin/index/build')
  await served.gateway.search.idle()
  t.match(await progress(), { obj_count: 40, is_done: true, last_done_time: /^\d{4}-.*Z$/, error: '' })
  t.equal((await found(served, 'file')).length, 20)
  t.match(JSON.parse(served.gateway.settings.get('index_progress')), { obj_count: 40, is_done: true })

  t.match(await served.post('/api/admin/index/clear'), { code: 200 })
  t.strictSame(await progress(), { obj_count: 0, is_done: true, last_done_time: null, error: '' })
  t.same(await found(served, 'file'), [])
  await served.put('/file after clear', 'x')
  t.same(await found(served, 'file'), [], 'changes are not indexed before a build')

  const ann = await served.as('ann', ['write'])
  for (const path of ['build', 'update', 'stop', 'clear']) {
    t.match(await ann.post(`/api/admin/index/${path}`), { code: 403, message: 'You are not an admin' })
  }
})

void t.test('every change through the gateway updates the index', async (t) => {
  const served = await built(t)
  await served.put('/a/one.txt', 'x')
  await served.put('/a/deep/two.txt', 'x')
  t.same(await found(served, '.txt'), ['/a/one.txt', '/a/deep/two.txt'])
  await served.post('/api/fs/rename', { path: '/a', name: 'b' })
  t.same(await found(served, '.txt'), ['/b/one.txt', '/b/deep/two.txt'])
  t.same(await found(served, 'deep'), ['/b/deep'])
  await served.post('/api/fs/mkdir', { path: '/c' })
  await served.post('/api/fs/move', { src_dir: '/b', dst_dir: '/c', names: ['deep'] })
  t.same(await found(served, '.txt'), ['/b/one.txt', '/c/deep/two.txt'])
  await served.post('/api/fs/copy', { src_dir: '/c', dst_dir: '/b', names: ['deep'] })
  t.same((await found(served, 'two')).sort(), ['/b/deep/two.txt', '/c/deep/two.txt'])
  await served.post('/api/fs/rename', { path: '/b/one.txt', name: 'three.txt' })
  t.same(await found(served, 'one'), [])
  t.same(await found(served, 'three'), ['/b/three.txt'])
  await served.put('/b/three.txt', 'longer')
  await served.gateway.search.idle()
  t.match(await served.post('/api/fs/search', { parent: '/', keywords: 'three', page: 1, per_page: 1 }), {
    data: { content: [{ size: 6 }] },
  })
  await served.post('/api/fs/remove', { dir: '/', names: ['c'] })
  t.same(await found(served, 'two'), ['/b/deep/two.txt'])
  await served.put('/b/deep/x', 'x')
  await served.post('/api/fs/remove', { dir: '/b', names: ['deep'] })
  await served.put('/b/deep', 'a file now')
  t.same(await found(served, 'two'), [])
  t.same(await found(served, 'deep', { scope: 2 }), ['/b/deep'])
})

void t.test('ignored paths, deep folders and storages without index are left out', async (t) => {
  const served = await serve(t)
  const { gateway } = served
  await switchOn(served)
  const mount = (mountPath: string, disableIndex: boolean) =>
    served.post('/api/admin/storage/create', {
      mount_path: mountPath,
      driver: 'Local',
      addition: '{}',
      disable_index: disableIndex,
      order: 0,
      cache_expiration: 30,
    })
  t.match(await mount('/dark', true), { code: 200 })
  t.match(await mount('/dark/light', false), { code: 200 })
  t.match(await mount('/broken/one', false), { code: 200 })
  await gateway.settings.set(
    new Map([
      ['ignore_paths', '/ignored\n\n/also/ignored/'],
      ['max_index_depth', '3'],
    ]),
  )
  for (const folder of [
    '/ignored',
    '/ignored-not',
    '/also/ignored',
    '/also/not',
    '/dark',
    '/dark/light',
    '/1/2',
    '/1/2/3',
  ]) {
    await served.put(`${folder}/thing`, 'x')
  }
  await served.post('/api/admin/index/build')
  const expected = ['/1/2/thing', '/also/not/thing', '/dark/light/thing', '/ignored-not/thing']
  t.same((await found(served, 'thing')).sort(), expected)
  t.same(await found(served, 'dark'), [])
  t.same(await found(served, 'light'), ['/dark/light'])
  for (const folder of ['/ignored', '/also/ignored', '/dark', '/1/2/3']) await served.put(`${folder}/thing two`, 'x')
  t.same((await found(served, 'thing')).sort(), expected, 'changes of ignored entries are not indexed')
  await served.post('/api/fs/rename', { path: '/ignored', name: 'shown' })
  t.same(await found(served, 'thing two'), ['/shown/thing two'], 'a tree that is moved out of an ignored path')
  await served.post('/api/fs/rename', { path: '/shown', name: 'ignored' })
  t.same(await found(served, 'thing two'), [], 'a tree that is moved to an ignored path')
  await served.post('/api/fs/move', { src_dir: '/1/2', dst_dir: '/', names: ['3'] })
  t.same(
    (await found(served, 'thing', { parent: '/3' })).sort(),
    ['/3/thing', '/3/thing two'],
    'moved up from below the maximum depth',
  )
  await gateway.settings.set(new Map([['ignore_paths', '/also']]))
  t.same(await found(served, 'thing', { parent: '/also' }), [], 'newly ignored entries are removed at once')
})

void t.test('mounting and unmounting a storage adds and removes its entries', async (t) => {
  const served = await built(t)
  const { gateway } = served
  await served.post('/api/admin/storage/create', { mount_path: '/m', driver: 'Local', addition: '{}' })
  await served.put('/m/inside', 'x')
  await served.put('/beside', 'x')
  t.same((await found(served, 'side')).sort(), ['/beside', '/m/inside'])
  const row = gateway.storages.list().find(({ mountPath }) => mountPath === '/m')
  t.match(await served.post(`/api/admin/storage/disable?id=${row?.id}`), { code: 200 })
  t.same(await found(served, 'side'), ['/beside'])
  const rootRow = gateway.storages.list().find(({ mountPath }) => mountPath === '/')
  t.match(await served.post(`/api/admin/storage/enable?id=${row?.id}`), { code: 200 })
  await served.put('/m/inside', 'x')
  t.same((await found(served, 'side')).sort(), ['/beside', '/m/inside'])
  t.match(await served.post(`/api/admin/storage/delete?id=${rootRow?.id}`), { code: 200 })
  t.same(await found(served, 'side'), ['/m/inside'])
  t.same(await found(served, 'm'), ['/m'])
})
