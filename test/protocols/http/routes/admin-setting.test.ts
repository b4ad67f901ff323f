/** The API of settings: they are listed and saved, and values that would slow other requests are rejected. */
import t from 'tap'
import { PrivacyMasks } from '../../../../protocols/http/api/privacy-masks.js'
import type { Log } from '../../../../src/base/log.js'
import type { Settings } from '../../../../src/settings/settings.js'
import { processorTime } from '../../../processor-time.js'
import { Served, serve } from '../served.js'

interface Row {
  readonly key: string
  readonly value: string
  readonly group: number
  readonly flag: number
  readonly index: number
}

const done = { code: 200, message: 'success', data: null }

void t.test('settings', async (t) => {
  const admin = await serve(t)
  const list = async (query = '') => (await admin.get(`/api/admin/setting/list${query}`)).data as Row[]
  const save = (rows: unknown) => admin.post('/api/admin/setting/save', rows)

  await t.test('are listed all or by group, including private ones, in the order of display', async (t) => {
    const all = await list()
    t.ok(all.length > 100)
    t.match(all[0], { key: 'version', type: 'string', group: 1, flag: 2, index: 0 })
    t.strictSame(
      all.map(({ index }) => index),
      all.map((_, at) => at),
    )
    const token = all.find(({ key }) => key === 'token')
    t.match(token, { group: 0, flag: 1, value: /.{100}/ })
    t.ok((await list('?group=4')).every(({ group }) => group === 4))
    t.strictSame([...new Set((await list('?groups=5,0&group=4')).map(({ group }) => group))].sort(), [0, 5])
    t.match(await admin.get('/api/admin/setting/list?group=x'), { code: 400 })
    t.match(await admin.get('/api/admin/setting/list?groups=1,x'), { code: 400 })
  })

  await t.test('are returned by key', async (t) => {
    t.match(await admin.get('/api/admin/setting/get?key=site_title&keys=x'), { data: { key: 'site_title' } })
    t.match(await admin.get('/api/admin/setting/get?keys=sign_all,site_title'), {
      data: [{ key: 'sign_all' }, { key: 'site_title' }],
    })
    for (const query of ['', '?keys=']) {
      t.match(await admin.get(`/api/admin/setting/get${query}`), { code: 400, message: 'key: is missing' })
    }
    for (const query of ['?key=nothing', '?keys=site_title,nothing']) {
      t.strictSame(await admin.get(`/api/admin/setting/get${query}`), {
        code: 400,
        message: 'record not found',
        data: null,
      })
    }
  })

  await t.test('are saved all or none, and only their values change', async (t) => {
    const before = (await list()).find(({ key }) => key === 'link_expiration')
    t.strictSame(await save([{ ...before, value: '12', flag: 0, group: 3, type: 'string', options: 'x' }]), done)
    t.strictSame(
      (await list()).find(({ key }) => key === 'link_expiration'),
      { ...before, value: '12' },
    )
    t.notOk('link_expiration' in ((await admin.get('/api/public/settings')).data as object))

    t.match(await save([{ key: 'version', value: 'v9' }]), done)
    t.notMatch((await admin.get('/api/admin/setting/get?key=version')).data, { value: 'v9' })
    for (const [key, value] of [
      ['default_page_size', 'many'],
      ['sign_all', 'maybe'],
      ['home_container', 'wide'],
    ]) {
      t.match(
        await save([
          { key: 'site_title', value: 'changed' },
          { key, value },
        ]),
        { code: 400 },
      )
    }
    t.notMatch((await admin.get('/api/admin/setting/get?key=site_title')).data, { value: 'changed' })
    t.match(await save([{ key: 'default_page_size', value: 50 }]), done)
    t.match(await admin.get('/api/public/settings'), { data: { default_page_size: '50' } })
    t.match(await save([]), { code: 500 })
    t.match(await save({ key: 'site_title', value: 'x' }), { code: 400 })
    t.match(await save([{ value: 'x' }]), { code: 400 })
  })

  await t.test('of an unknown key are stored as deprecated, and only those can be deleted', async (t) => {
    t.match(await save([{ key: 'gone', value: '1', flag: 0 }]), done)
    t.match(await admin.get('/api/admin/setting/get?key=gone'), { data: { flag: 3, value: '1' } })
    t.notOk('gone' in ((await admin.get('/api/public/settings')).data as object))
    t.strictSame(await admin.post('/api/admin/setting/delete?key=gone'), done)
    t.match(await admin.post('/api/admin/setting/delete?key=gone'), {
      code: 500,
      message: 'failed to get settingItem: record not found',
    })
    t.match(await admin.post('/api/admin/setting/delete'), { code: 400, message: 'key: is missing' })
    t.match(await admin.post('/api/admin/setting/delete?key=site_title'), {
      code: 500,
      message: 'setting [site_title] is not deprecated',
    })
  })

  await t.test('show their defaults without changing', async (t) => {
    const { data } = await admin.post('/api/admin/setting/default?group=1')
    const rows = data as Row[]
    t.ok(rows.every(({ group }) => group === 1))
    t.match(
      rows.find(({ key }) => key === 'default_page_size'),
      { value: '30' },
    )
    t.match(await admin.get('/api/admin/setting/get?key=default_page_size'), { data: { value: '50' } })
  })

  await t.test('a new permanent token invalidates the old one', async (t) => {
    const { data: first } = await admin.post('/api/admin/setting/reset_token')
    const machine = new Served(admin.url, admin.gateway, first as string)
    t.match(await machine.get('/api/me'), { data: { username: 'admin' } })
    t.match(await admin.post('/api/admin/setting/reset_token'), { code: 200, data: /.{100}/ })
    t.match(await machine.get('/api/me'), { code: 401, message: 'token is invalidated' })
    for (const value of ['x', ' ', 'x'.repeat(31), ' '.repeat(40), `${'x'.repeat(40)}\n`]) {
      t.match(await save([{ key: 'token', value }]), { code: 400, message: /^setting \[token\] must be at least 32 / })
    }
    t.match(await save([{ key: 'token', value: '' }]), done)
    t.match(
      await new Served(admin.url, admin.gateway).get('/api/me'),
      { code: 401 },
      'an empty token authenticates nobody',
    )
  })

  await t.test('are for admins only', async (t) => {
    const ann = await admin.as('ann', ['write'])
    for (const path of ['list', 'get?key=site_title']) {
      t.match(await ann.get(`/api/admin/setting/${path}`), { code: 403, data: null })
    }
    for (const path of ['save', 'delete?key=x', 'default', 'reset_token']) {
      t.match(await ann.post(`/api/admin/setting/${path}`, []), { code: 403, data: null })
    }
  })
})

void t.test('patterns and texts that would slow other requests are rejected', async (t) => {
  const admin = await serve(t)
  const save = (key: string, value: string) => admin.post('/api/admin/setting/save', [{ key, value }])
  const costly = { code: 500, message: /failed to execute hook on privacy_regs: .* is illegal: / }
  t.match(await save('privacy_regs', 'a*'.repeat(10_000)), costly)
  t.match(await save('privacy_regs', `${'.*'.repeat(100)}\n`.repeat(10)), costly)
  t.match(await save('privacy_regs', '(a+)+$'), done)
  t.match(await save('video_types', 'a,'.repeat(200_000)), { code: 400, message: /setting \[video_types\] must be / })
  const name = `${'a'.repeat(100)}!`
  await admin.put(`/${name}`, 'x')
  const copy = { src_dir: '/', dst_dir: '/', names: [name] }
  const exists = { code: 403, message: `file [${name}] exists` }
  const took = await processorTime(async () => t.match(await admin.post('/api/fs/copy', copy), exists), 3)
  t.ok(took < 500, `a backtracking pattern is fast: ${took.toFixed()} ms`)
})

void t.test('stored privacy patterns that are too expensive mask every text and are logged', async (t) => {
  const settings = { get: () => 'a*'.repeat(10_000), guard: () => () => undefined } as unknown as Settings
  const logged: object[] = []
  const masks = new PrivacyMasks(settings, { error: (what: object) => void logged.push(what) } as unknown as Log)
  t.equal(masks.apply('a secret'), '********')
  t.equal(masks.apply('another'), '*******')
  t.match(logged, [{ setting: 'privacy_regs', reason: / is illegal: / }])
  t.equal(logged.length, 1)
})
