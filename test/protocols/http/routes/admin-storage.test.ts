/** The API of storages: they are created, updated, disabled, restarted and deleted, and their status shows failures. */
import t from 'tap'
import { aliasType } from '../../../../drivers/alias/index.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { asPath } from '../../../../src/base/path.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { serve, type Served } from '../served.js'
import { until } from '../../../until.js'

interface StorageObject {
  readonly id: number
  readonly mount_path: string
  readonly status: string
  readonly addition: string
}

async function storages(admin: Served): Promise<StorageObject[]> {
  const { data } = await admin.get('/api/admin/storage/list')
  return (data as { content: StorageObject[] }).content
}

async function storageAt(admin: Served, path: string): Promise<StorageObject> {
  const found = (await storages(admin)).find(({ mount_path }) => mount_path === path)
  if (found === undefined) throw new Error(`no storage at ${path}`)
  return found
}

const done = { code: 200, message: 'success', data: null }

void t.test('storages are created, listed and shown', async (t) => {
  const admin = await serve(t)
  const create = (storage: object) => admin.post('/api/admin/storage/create', storage)

  const made = await create({ id: 99, mount_path: 'team//a/', driver: 'Local', addition: '{"other":1}', order: 2 })
  t.match(made, { code: 200, data: { id: Number } })
  t.match((made.data as { id: number }).id, (await storageAt(admin, '/team/a')).id)
  t.match(await storageAt(admin, '/team/a'), {
    order: 2,
    driver: 'Local',
    status: 'work',
    cache_expiration: 30,
    custom_cache_policies: '',
    addition: '{"other":1,"root_folder_path":""}',
    remark: '',
    modified: /^20/,
    disabled: false,
    disable_index: false,
    enable_sign: false,
    order_by: '',
    order_direction: '',
    extract_folder: '',
    web_proxy: false,
    webdav_policy: '302_redirect',
    proxy_range: false,
    down_proxy_url: '',
    disable_proxy_sign: false,
  })
  t.match(await admin.put('/team/a/file', 'content'), { code: 200 })
  t.equal(await admin.content('/team/a/file'), 'content')
  t.match(await admin.names('/team'), ['a'])

  t.strictSame(await create({ mount_path: '/team/a', driver: 'Local' }), {
    code: 500,
    message: 'a storage with this mount_path exists already',
    data: { id: 0 },
  })
  t.strictSame(await create({ mount_path: '/x', driver: 'Nothing' }), {
    code: 500,
    message: 'failed get driver new: no driver named: Nothing',
    data: { id: 0 },
  })
  t.match(await create({ driver: 'Local' }), { code: 400, message: /^mount_path: /, data: { id: 0 } })
  t.match(await create({ mount_path: '/x', driver: 'Local', webdav_policy: 'none' }), { code: 400, data: { id: 0 } })
  t.strictSame(await create({ mount_path: '/../x', driver: 'Local' }), {
    code: 403,
    message: 'using relative path is not allowed',
    data: { id: 0 },
  })
  t.match(await create({ mount_path: '/.tidegate-x', driver: 'Local' }), { code: 500, data: { id: 0 } })
  t.match(await create({ mount_path: '/x\ny', driver: 'Local' }), { code: 500, data: { id: 0 } })
  t.match(await create({ mount_path: '/x', driver: 'Local', cache_expiration: -1 }), { code: 500, data: { id: 0 } })
  const broken = await fetch(`${admin.url}/api/admin/storage/create`, {
    method: 'POST',
    body: '{"mount_path":',
    headers: { authorization: admin.token },
  })
  t.match(await broken.json(), { code: 400, data: { id: 0 } })
  t.match(
    (await storages(admin)).map(({ mount_path }) => mount_path),
    ['/', '/team/a'],
  )

  t.match(await admin.get('/api/admin/storage/list?page=2&per_page=1'), {
    data: { content: [{ mount_path: '/team/a' }], total: 2 },
  })
  t.match(await admin.get(`/api/admin/storage/get?id=${(await storageAt(admin, '/')).id}`), {
    data: { mount_path: '/' },
  })
  t.strictSame(await admin.get('/api/admin/storage/get?id=999'), {
    code: 500,
    message: 'record not found',
    data: null,
  })
})

void t.test('a storage that fails to start is stored with the reason as its status', async (t) => {
  const admin = await serve(t)
  const answer = await admin.post('/api/admin/storage/create', {
    mount_path: '/broken',
    driver: 'Broken',
    addition: '{"reason":"<b>no</b> & never"}',
  })
  const { id } = await storageAt(admin, '/broken')
  t.strictSame(answer, {
    code: 500,
    message:
      'failed init storage but storage is already created: failed init storage: &lt;b&gt;no&lt;/b&gt; &amp; never',
    data: { id },
  })
  t.match(await storageAt(admin, '/broken'), { status: '&lt;b&gt;no&lt;/b&gt; &amp; never' })
  t.match(await admin.names('/'), ['broken'])
  t.match(await admin.post('/api/fs/list', { path: '/broken' }), { code: 500, message: /storage not init$/ })

  for (const addition of ['{', '[]', '{"reason":{}}', '{"count":"x"}']) {
    const faulty = await admin.post('/api/admin/storage/update', {
      id,
      mount_path: '/broken',
      driver: 'Broken',
      addition,
    })
    t.match(faulty, { code: 500, message: /^failed init storage: the / }, addition)
    t.match(await storageAt(admin, '/broken'), { addition, status: /^the / })
  }
  const cut = await admin.post('/api/admin/storage/update', {
    id,
    mount_path: '/broken',
    driver: 'Broken',
    addition: '{"reason":"two\nlines"}',
  })
  t.match(
    cut,
    { message: /JSON text of an object: Bad control character .* 14\b/ },
    'the error has the position of the JSON error',
  )
  t.strictSame(await admin.post(`/api/admin/storage/delete?id=${id}`), done)
  t.strictSame(await admin.names('/'), [])
})

void t.test('a configuration is tried without being stored, and the reason of a failure is told', async (t) => {
  const admin = await serve(t, '', [aliasType])
  const attempt = (fields: object) => admin.post('/api/admin/storage/try', { mount_path: '/tried', ...fields })
  const before = await storages(admin)
  t.strictSame(await attempt({ driver: 'Local' }), done)
  t.strictSame(await attempt({ driver: 'Broken', addition: '{"reason":"<b>no</b>"}' }), {
    code: 500,
    message: '<b>no</b>',
    data: null,
  })
  t.match(await attempt({ driver: 'Broken', addition: '{"count":"x"}' }), { code: 500, message: /count must be/ })
  t.match(await attempt({ driver: 'Broken', addition: '{' }), { code: 500, message: /JSON text of an object/ })
  t.match(await attempt({ driver: 'None' }), { code: 500 })
  t.match(await attempt({ driver: 'Local', mount_path: '/a/../b' }), { code: 500 })
  t.match(await attempt({ driver: 'Local', webdav_policy: 'use_proxy_url', cache_expiration: -1 }), { code: 500 })
  t.match(await attempt({ driver: 'Local', id: 'x' }), { code: 400, message: /^id: / })
  t.match(await attempt({}), { code: 400, message: /^driver: / })

  t.match(await admin.post('/api/fs/mkdir', { path: '/films' }), { code: 200 })
  t.strictSame(await attempt({ driver: 'Alias', addition: '{"paths":"/films"}' }), done)
  t.match(await attempt({ driver: 'Alias', addition: '{"paths":"/gone"}' }), { code: 500, message: 'not found' })
  t.strictSame(await storages(admin), before)
})

void t.test('a sign-in by QR code gives the values of fields, and its errors are told', async (t) => {
  const scanned: AnyDriverType = {
    name: 'Scanned',
    fields: {},
    open: () => Promise.reject(new Error('is not opened')),
    qrSignIn: {
      field: 'cookie',
      begin: async (options) => ({ text: JSON.stringify(options), ticket: 'one' }),
      ask: async (ticket) => {
        if (ticket === 'bad') throw new GatewayError('denied', { reason: '<b>no</b>' })
        return ticket === 'one' ? { state: 'scanned' } : { state: 'confirmed', values: { cookie: ticket } }
      },
    },
  }
  const admin = await serve(t, '', [scanned])
  const ask = (ticket: string) => admin.post('/api/admin/storage/qr_answer', { driver: 'Scanned', ticket })
  t.strictSame(await admin.post('/api/admin/storage/qr_code', { driver: 'Scanned', addition: '{"a":1}' }), {
    ...done,
    data: { text: '{"a":1}', ticket: 'one' },
  })
  t.match(await admin.post('/api/admin/storage/qr_code', { driver: 'Scanned', addition: '{' }), { code: 500 })
  t.match(await admin.post('/api/admin/storage/qr_code', { driver: 'Local' }), { code: 500, message: /QR code/ })
  t.match(await admin.post('/api/admin/storage/qr_code', { driver: 'None' }), { code: 500 })
  t.match(await admin.post('/api/admin/storage/qr_code', {}), { code: 400, message: /^driver: / })
  t.strictSame(await ask('one'), { ...done, data: { state: 'scanned' } })
  t.strictSame(await ask('two'), { ...done, data: { state: 'confirmed', values: { cookie: 'two' } } })
  t.match(await ask('bad'), { code: 500, message: '<b>no</b>' })
  t.match(await ask('x'.repeat(2001)), { code: 400, message: /^ticket: / })
})

void t.test('an update replaces the configuration and restarts the storage', async (t) => {
  const admin = await serve(t)
  await admin.post('/api/admin/storage/create', { mount_path: '/a', driver: 'Local', remark: 'first', order: 3 })
  const { id } = await storageAt(admin, '/a')
  const update = (changes: object) => admin.post('/api/admin/storage/update', { id, driver: 'Local', ...changes })
  await admin.put('/a/file', 'x')
  t.strictSame(await update({ mount_path: '/b' }), done)
  t.match(await storageAt(admin, '/b'), { id, remark: '', order: 0, status: 'work' })
  t.strictSame(await admin.names('/'), ['b'])
  t.strictSame(await admin.names('/b'), [], 'the memory driver is empty after a restart')
  t.match(await update({ mount_path: '/' }), { code: 500, message: 'a storage with this mount_path exists already' })
  t.match(await update({ mount_path: '/b', driver: 'Broken' }), { code: 500, message: 'driver cannot be changed' })
  t.match(await admin.post('/api/admin/storage/update', { id: 999, mount_path: '/c', driver: 'Local' }), {
    code: 500,
    message: 'failed get storage: record not found',
  })

  t.strictSame(await update({ mount_path: '/b', disabled: true }), done)
  t.match(await storageAt(admin, '/b'), { status: 'disabled', disabled: true })
  t.strictSame(await admin.names('/'), [], 'a disabled storage is not listed')
})

void t.test('storages are disabled and enabled', async (t) => {
  const admin = await serve(t)
  const { data } = await admin.post('/api/admin/storage/create', {
    mount_path: '/off',
    driver: 'Local',
    disabled: true,
  })
  const { id } = data as { id: number }
  const post = (action: string, which = id) => admin.post(`/api/admin/storage/${action}?id=${which}`)
  t.match(await storageAt(admin, '/off'), { status: 'disabled', disabled: true })
  t.strictSame(await admin.names('/'), [])
  t.match(await post('disable'), { code: 500, message: 'this storage have disabled' })
  t.strictSame(await post('enable'), done)
  t.match(await storageAt(admin, '/off'), { status: 'work', disabled: false })
  t.match(await admin.put('/off/file', 'x'), { code: 200 })
  t.match(await post('enable'), { code: 500, message: 'this storage have enabled' })
  t.strictSame(await post('disable'), done)
  t.match(await admin.post('/api/fs/get', { path: '/off/file' }), { code: 500, message: /object not found$/ })
  for (const action of ['enable', 'disable', 'delete']) {
    t.match(await post(action, 999), { code: 500, message: 'failed get storage: record not found' })
    t.match(await admin.post(`/api/admin/storage/${action}?id=x`), { code: 400 })
  }
  const { data: brokenOne } = await admin.post('/api/admin/storage/create', {
    mount_path: '/broken',
    driver: 'Broken',
    disabled: true,
  })
  t.match(await post('enable', (brokenOne as { id: number }).id), { code: 500, message: /^failed init storage: / })
})

void t.test('deleting a storage deletes its properties and driver state', async (t) => {
  const admin = await serve(t)
  await admin.post('/api/admin/storage/create', { mount_path: '/a', driver: 'Local' })
  await admin.put('/a/file', 'x')
  const { store } = admin.gateway
  const { id } = await storageAt(admin, '/a')
  const file = asPath('/a/file')
  const color = { namespace: 'x', name: 'color', value: 'red', language: '' }
  await store.properties.change(file, [{ set: color }])
  await store.driverState.set(id, 'token', 'secret')
  t.strictSame(await admin.post(`/api/admin/storage/delete?id=${id}`), done)
  t.strictSame(await store.properties.of(file), [])
  t.equal(await store.driverState.get(id, 'token'), undefined)
  t.strictSame(await admin.names('/'), [])
  t.match(await admin.put('/a/file', 'at the root now'), { code: 200 })
})

void t.test('storages with .balance paths share one visible path', async (t) => {
  const admin = await serve(t)
  for (const path of ['/pair', '/pair.balance', '/pair.balance2']) {
    t.match(await admin.post('/api/admin/storage/create', { mount_path: path, driver: 'Local' }), { code: 200 }, path)
  }
  t.strictSame(await admin.names('/'), ['pair'])
})

void t.test('all storages are restarted in the background', async (t) => {
  const admin = await serve(t)
  await admin.put('/file', 'x')
  for (let time = 0; time < 5; time++) {
    t.strictSame(await admin.post('/api/admin/storage/load_all'), done)
    t.match(await admin.post('/api/fs/list', { path: '/' }), { code: 200 }, 'requests are served meanwhile')
  }
  await until(async () => (await storageAt(admin, '/')).status === 'work')
  t.strictSame(await admin.names('/'), [], 'the memory driver is empty after a restart')
})

void t.test('the list of storages contains their usage if the setting allows it', async (t) => {
  const admin = await serve(t)
  const { settings } = admin.gateway
  t.notOk('mount_details' in (await storageAt(admin, '/')))
  await settings.set(new Map([['hide_storage_details_in_manage_page', 'false']]))
  t.match(await storageAt(admin, '/'), {
    mount_details: { total_space: Number, used_space: Number, free_space: Number },
  })
})

void t.test('cache policies that are too expensive are rejected', async (t) => {
  const admin = await serve(t)
  const mount = (policies: string) => admin.mount('/x', 'Local', { custom_cache_policies: policies })
  t.match(await mount(`/${'*a'.repeat(150)}:5\n`.repeat(2)), {
    code: 500,
    message: / is illegal: too many repetitions/,
  })
  t.match(await mount('/**:5\n'.repeat(10_000)), { code: 500, message: / is illegal: / })
  t.match(await mount('/news/**:1\n/*/old:600'), { code: 200 })
})
