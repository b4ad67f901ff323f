/** The endpoints of files: the fields of their responses, and the messages of their errors. */
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../../src/contract/driver-type.js'
import { asPath } from '../../../src/base/path.js'
import { altered } from '../../tree/tree-fixture.js'
import { Served, serve } from './served.js'

const done = { code: 200, message: 'success', data: null }
const moment = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/

/** A read-only driver. */
const readOnly: AnyDriverType = {
  name: 'ReadOnly',
  fields: {},
  open: async () =>
    altered(new MemoryDriver(0), {
      write: undefined,
      mkdir: undefined,
      remove: undefined,
      removeTree: undefined,
      move: undefined,
      copy: undefined,
      open: undefined,
    }),
}

/** The type of each field, by its name; for lists, the type of the first member. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])]
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shapeOf(each)]))
}

const fileShape = {
  name: 'string',
  size: 'number',
  is_dir: 'boolean',
  modified: 'string',
  created: 'string',
  sign: 'string',
  thumb: 'string',
  type: 'number',
  hashinfo: 'string',
  hash_info: 'null',
}

void t.test('list and get return every field with its type', async (t) => {
  const admin = await serve(t)
  await admin.put('/films/film.mp4', 'film')
  await admin.put('/films/film.srt', 'text')
  await admin.post('/api/fs/mkdir', { path: '/films/film' })
  const listing = await admin.post('/api/fs/list', { path: '/films' })
  t.strictSame(shapeOf(listing.data), {
    content: [fileShape],
    total: 'number',
    readme: 'string',
    header: 'string',
    write: 'boolean',
    write_content_bypass: 'boolean',
    rights: ['string'],
    provider: 'string',
  })
  const { content } = listing.data as { content: { name: string; modified: string; created: string }[] }
  for (const { modified, created } of content) {
    t.match(modified, moment)
    t.match(created, moment)
  }
  const detailShape = {
    ...fileShape,
    raw_url: 'string',
    etag: 'string',
    readme: 'string',
    header: 'string',
    provider: 'string',
    related: [fileShape],
  }
  for (const path of ['/films/film.mp4', '/films/film']) {
    const detail = await admin.post('/api/fs/get', { path })
    t.strictSame(shapeOf(detail.data), detailShape, path)
    const [listed] = content.filter(({ name }) => path.endsWith(`/${name}`))
    t.match(detail.data, listed ?? {}, 'the same values as in the listing')
  }
  t.match((await admin.post('/api/fs/get', { path: '/films/film' })).data, {
    is_dir: true,
    type: 1,
    raw_url: '',
    sign: '',
  })
  t.strictSame(shapeOf((await admin.post('/api/fs/dirs', { path: '/films' })).data), [
    { name: 'string', modified: 'string' },
  ])
})

void t.test('the content of an empty folder is an empty list, never null', async (t) => {
  const admin = await serve(t)
  await admin.post('/api/fs/mkdir', { path: '/empty' })
  t.match((await admin.post('/api/fs/list', { path: '/empty' })).data, { content: [], total: 0 })
  t.match((await admin.post('/api/fs/list', { path: '/', page: 9, per_page: 1 })).data, { content: [], total: 1 })
  t.strictSame((await admin.post('/api/fs/dirs', { path: '/empty' })).data, [])
  t.equal(((await admin.post('/api/fs/get', { path: '/empty' })).data as { related: unknown }).related, null)
})

void t.test('the type number of a file depends on its extension and on settings', async (t) => {
  const admin = await serve(t)
  for (const [name, type] of [
    ['a.MP4', 2],
    ['a.flac', 3],
    ['a.md', 4],
    ['.gitignore', 4],
    ['a.tar.JPG', 5],
    ['a.unknown', 0],
    ['README', 0],
  ] as const) {
    await admin.put(`/${name}`, 'x')
    t.match((await admin.post('/api/fs/get', { path: `/${name}` })).data, { type }, name)
  }
  await admin.post('/api/admin/setting/save', [{ key: 'audio_types', value: 'unknown, mp4' }])
  t.match((await admin.post('/api/fs/get', { path: '/a.unknown' })).data, { type: 3 })
  t.match((await admin.post('/api/fs/get', { path: '/a.MP4' })).data, { type: 3 }, 'audio has precedence over video')
})

void t.test('listings are sorted by the options of their storage', async (t) => {
  const admin = await serve(t, '', [sorted])
  const { data } = await admin.post('/api/admin/storage/create', { mount_path: '/s', driver: 'Sorted' })
  const { id } = data as { id: number }
  for (const [name, size] of [
    ['c10', 1],
    ['C2', 3],
    ['c9', 2],
  ] as const) {
    await admin.put(`/s/${name}`, 'x'.repeat(size))
  }
  await admin.post('/api/fs/mkdir', { path: '/s/b' })
  const order = async (fields: object) => {
    await admin.post('/api/admin/storage/update', { id, mount_path: '/s', driver: 'Sorted', ...fields })
    return admin.names('/s')
  }
  t.same(await order({ order_by: 'name' }), ['C2', 'b', 'c9', 'c10'])
  t.same(await order({ order_by: 'name', order_direction: 'desc' }), ['c10', 'c9', 'b', 'C2'])
  t.same(await order({ order_by: 'size' }), ['b', 'c10', 'c9', 'C2'])
  t.same(await order({ order_by: 'size', order_direction: 'desc' }), ['C2', 'c9', 'c10', 'b'])
  t.same(await order({ order_by: 'name', extract_folder: 'front' }), ['b', 'C2', 'c9', 'c10'])
  t.same(await order({ order_by: 'name', extract_folder: 'back' }), ['C2', 'c9', 'c10', 'b'])
  await admin.post('/api/admin/storage/create', { mount_path: '/s/a-mount', driver: 'Local', order: 2 })
  await admin.post('/api/admin/storage/create', { mount_path: '/s/z-mount', driver: 'Local', order: 1 })
  await admin.post('/api/admin/storage/create', { mount_path: '/s/b', driver: 'Local' })
  t.same(await admin.names('/s'), ['C2', 'c9', 'c10', 'b', 'z-mount', 'a-mount'], 'mount points last, each name once')
})

/** A driver whose files survive a restart, so that options can be changed. */
const kept = new MemoryDriver(0)
const sorted: AnyDriverType = {
  name: 'Sorted',
  fields: {},
  open: async () => altered(kept, { close: undefined }),
}

void t.test('each endpoint has its own message for a storage without uploads', async (t) => {
  const admin = await serve(t, '', [readOnly])
  await admin.post('/api/admin/storage/create', { mount_path: '/ro', driver: 'ReadOnly' })
  t.strictSame(await admin.put('/ro/file', 'x'), { code: 500, message: 'upload not supported', data: null })
  t.match(await admin.put('/ro/file', 'x', { 'as-task': 'true' }), { code: 500 })
  const form = new FormData()
  form.append('file', new Blob(['x']), 'file')
  const response = await fetch(`${admin.url}/api/fs/form`, {
    method: 'PUT',
    body: form,
    headers: { authorization: admin.token, 'file-path': '/ro/file' },
  })
  const message = "Current storage doesn't support upload"
  t.strictSame(await response.json(), { code: 405, message, data: null, error: 'unsupported' })
  t.strictSame(await admin.post('/api/fs/mkdir', { path: '/ro/folder' }), {
    code: 500,
    message: 'not support',
    data: null,
  })
  t.match(await admin.post('/api/fs/list', { path: '/ro' }), { code: 200, data: { content: [], provider: 'ReadOnly' } })
})

void t.test('a path without a storage is reported, with the path as the user sees it', async (t) => {
  const admin = await serve(t)
  const [first] = ((await admin.get('/api/admin/storage/list')).data as { content: { id: number }[] }).content
  await admin.post(`/api/admin/storage/delete?id=${first?.id}`)
  const nothing = {
    code: 500,
    message: 'failed get storage: storage not found; please add a storage first',
    data: null,
  }
  t.strictSame(await admin.post('/api/fs/list', { path: '/' }), nothing)
  t.match(await admin.post('/api/fs/get', { path: '/' }), { code: 200, data: { name: 'root', provider: 'unknown' } })

  await admin.post('/api/admin/storage/create', { mount_path: '/only/here', driver: 'Local' })
  const page = await fetch(`${admin.url}/d/10.0.0.1?sign=${admin.gateway.signedUrls.sign(asPath('/10.0.0.1'))}`)
  t.equal(page.status, 404)
  t.match(await page.text(), 'rawPath: /********<', 'privacy masks apply to pages as to envelopes')
  const ann = await admin.as('ann', ['write'], '/other')
  const missing = { code: 500, message: 'failed get storage: storage not found; rawPath: /x', data: null }
  for (const call of ['list', 'get', 'dirs', 'mkdir']) {
    t.strictSame(await ann.post(`/api/fs/${call}`, { path: '/x' }), missing, call)
  }
  t.strictSame(await ann.put('/x', 'content'), missing)
  t.match(await admin.post('/api/fs/list', { path: '/' }), {
    data: { content: [{ name: 'only', is_dir: true }], provider: 'unknown', total: 1 },
  })
  t.match(await admin.post('/api/fs/mkdir', { path: '/elsewhere' }), { code: 500 })
  t.match(await admin.put('/only/file', 'x'), { code: 500 }, 'a folder above mount points stores no files')
})

void t.test('a storage that fails to start hides neither its siblings nor mounts below it', async (t) => {
  const admin = await serve(t)
  await admin.post('/api/admin/storage/create', { mount_path: '/broken', driver: 'Broken' })
  await admin.post('/api/admin/storage/create', { mount_path: '/broken/inside', driver: 'Local' })
  await admin.put('/file', 'x')
  t.same(await admin.names('/'), ['file', 'broken'])
  t.same(await admin.names('/broken'), ['inside'])
  t.match(await admin.put('/broken/inside/file', 'x'), done)
  const { code, message } = await admin.post('/api/fs/get', { path: '/broken/file' })
  t.equal(code, 500)
  t.match(message, /^storage status: .*: storage not init$/)
})

void t.test('unusual but valid names are stored unchanged', async (t) => {
  const admin = await serve(t)
  const names = [
    'a..b',
    '..a',
    '...',
    ' leading',
    'trailing ',
    '%2e%2e',
    '+',
    'a&b=c',
    "it's",
    '"',
    '世界',
    '😀',
    '-rf',
    '~',
  ]
  for (const name of names) t.strictSame(await admin.put(`/names/${name}`, name), done, name)
  t.same((await admin.names('/names')).sort(), [...names].sort())
  for (const name of names) t.equal(await admin.content(`/names/${name}`), name)
  t.strictSame(await admin.post('/api/fs/rename', { path: '/names/a..b', name: 'c..d' }), done)
  t.strictSame(
    await admin.post('/api/fs/remove', { dir: '/names', names: names.filter((name) => name !== 'a..b') }),
    done,
  )
  t.same(await admin.names('/names'), ['c..d'])
})

void t.test('fields are read from JSON, from forms, and from the query of GET', async (t) => {
  const admin = await serve(t)
  const { url, token: authorization } = admin
  const ask = async (path: string, init: RequestInit = {}) =>
    (await (await fetch(url + path, { headers: { authorization }, ...init })).json()) as {
      code: number
      message: string
    }
  const form = new FormData()
  form.append('path', '/from a form')
  t.match(await ask('/api/fs/mkdir', { method: 'POST', body: form }), done)
  t.match(await ask('/api/fs/mkdir', { method: 'POST', body: new URLSearchParams({ path: '/urlencoded' }) }), done)
  t.match(await ask('/api/fs/mkdir', { method: 'POST', body: '{"path":"/untyped"}' }), done)
  t.same((await admin.names('/')).sort(), ['from a form', 'untyped', 'urlencoded'])
  const json = { authorization, 'content-type': 'application/json' }
  t.match(await ask('/api/fs/list', { method: 'POST', headers: json }), { code: 400, message: 'EOF' })
  for (const body of ['{"path":', '[]', '"/"', '5', '{path:"/"}', '{path:"/"} {"path":"/"}']) {
    t.match(await ask('/api/fs/list', { method: 'POST', headers: json, body }), { code: 400, data: null }, body)
  }
  for (const rest of ['{"path":"/x"}', 'whatever']) {
    const body = `{"path":"/"} ${rest}`
    t.match(await ask('/api/fs/list', { method: 'POST', headers: json, body }), { code: 200, data: { total: 3 } }, body)
  }
  t.match(await ask('/api/fs/list', { method: 'POST', headers: json, body: '{"path":"/none","path":"/untyped"}' }), {
    code: 200,
    data: { total: 0 },
  })
  t.match(await ask('/api/fs/list', { method: 'POST', headers: json, body: '{"path":null,"page":"1","unknown":1}' }), {
    code: 200,
    data: { total: 3 },
  })
  t.match(await ask('/api/fs/list?path=%2F&page=2&per_page=2'), { code: 200, data: { total: 3, content: [{}] } })
  t.match(await ask('/api/fs/list?page=x'), { code: 400, message: 'page: must be an integer' })
  const long = 'x'.repeat(1024 * 1024)
  const { code, message } = await ask('/api/fs/list', { method: 'POST', headers: json, body: `{"path":"${long}"}` })
  t.equal(code, 400)
  t.ok(message.length < 400, 'the error does not repeat the body')
})

void t.test('an error message is one line, with the privacy masks applied', async (t) => {
  const admin = await serve(t)
  const missing = async (path: string) =>
    (await new Served(admin.url, admin.gateway, admin.token).post('/api/fs/mkdir', { path })).message
  await admin.put('/10.0.0.1', 'x')
  const copy = { src_dir: '/', dst_dir: '/', names: ['10.0.0.1'] }
  t.match(await admin.post('/api/fs/copy', copy), { code: 403, message: 'file [********] exists' })
  await admin.put('/fe80:0:0:0:1:2:3:4', 'x')
  t.match(await admin.post('/api/fs/copy', { ...copy, names: ['fe80:0:0:0:1:2:3:4'] }), {
    message: `file [${'*'.repeat(18)}] exists`,
  })
  await admin.gateway.settings.set(new Map([['privacy_regs', 'sec.et\n(?i)UPPER\n(']]))
  await admin.put('/a secret Upper', 'x')
  t.match(await admin.post('/api/fs/copy', { ...copy, names: ['a secret Upper'] }), {
    message: 'file [a ****** *****] exists',
  })
  await admin.gateway.settings.set(new Map([['privacy_regs', '']]))
  t.match(await admin.post('/api/fs/copy', { ...copy, names: ['10.0.0.1'] }), { message: 'file [10.0.0.1] exists' })
  t.notMatch(await missing('/a\nb'), /\n/)
})
