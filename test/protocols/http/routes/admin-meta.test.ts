/** The API of folder rules: they are created, listed, replaced and deleted, and invalid patterns are rejected. */
import t from 'tap'
import { processorTime } from '../../../processor-time.js'
import { serve } from '../served.js'

const done = { code: 200, message: 'success', data: null }

void t.test('folder rules', async (t) => {
  const admin = await serve(t)
  const create = (meta: object) => admin.post('/api/admin/meta/create', meta)
  t.strictSame((await admin.get('/api/admin/meta/list')).data, { content: [], total: 0 })

  await t.test('are created with a normalized path, at most one per folder', async (t) => {
    t.strictSame(await create({ id: 0, path: 'a//b/', password: 'secret', p_sub: true, read_users: null }), done)
    t.strictSame(await create({ path: '/c', read_users: [2, '3'], header: 'hello', header_sub: true }), done)
    const { data } = await admin.get('/api/admin/meta/list')
    const [first, second] = (data as { content: { id: number }[] }).content
    t.strictSame(first, {
      id: first?.id,
      path: '/a/b',
      password: 'secret',
      p_sub: true,
      write: false,
      w_sub: false,
      hide: '',
      h_sub: false,
      readme: '',
      r_sub: false,
      header: '',
      header_sub: false,
      read_users: [],
      read_users_sub: false,
      write_users: [],
      write_users_sub: false,
    })
    t.match(second, { path: '/c', read_users: [2, 3], header: 'hello', header_sub: true })
    t.match(await admin.get('/api/admin/meta/list?page=2&per_page=1'), {
      data: { content: [{ path: '/c' }], total: 2 },
    })
    t.match(await create({ path: '/a/b/.' }), { code: 500, message: 'this folder has a rule already' })
    t.match(await create({ path: '' }), { code: 400, message: /^path: / })
    t.match(await create({}), { code: 400, message: /^path: / })
    t.match(await create({ path: '/../x' }), { code: 403 })
    t.match(await create({ path: '/d', read_users: ['ann'] }), { code: 400 })
  })

  await t.test('hide names that a line matches; an error names the invalid line', async (t) => {
    const hide = '^secret$\r\n\r\n   \n(?=look).*around\r'
    t.strictSame(await create({ path: '/hide', hide, h_sub: true }), done)
    const ann = await admin.as('ann', ['write'])
    await admin.post('/api/fs/mkdir', { path: '/hide' })
    for (const name of ['secret', 'plain', 'look around']) await admin.put(`/hide/${name}`, 'x')
    t.strictSame(await ann.names('/hide'), ['plain'])
    t.match(await create({ path: '/faulty', hide: 'fine\n[a-' }), { code: 400, message: /^\[a- is illegal: / })
    t.match(await admin.get('/api/admin/meta/list'), { data: { total: 3 } })
  })

  await t.test('are replaced as a whole and deleted', async (t) => {
    const { data } = await admin.get('/api/admin/meta/list')
    const id = (data as { content: { id: number }[] }).content[0]?.id
    t.strictSame(await admin.post('/api/admin/meta/update', { id, path: '/a', write: true }), done)
    t.match(await admin.get(`/api/admin/meta/get?id=${id}`), { data: { path: '/a', write: true, password: '' } })
    t.match(await admin.post('/api/admin/meta/update', { id, path: '/c' }), { code: 500 })
    t.match(await admin.post('/api/admin/meta/update', { id, path: '/a', hide: '(' }), {
      code: 400,
      message: /^\( is illegal/,
    })
    t.strictSame(await admin.post(`/api/admin/meta/delete?id=${id}`), done)
    const missing = { code: 500, message: 'failed get old meta: record not found', data: null }
    t.strictSame(await admin.post(`/api/admin/meta/delete?id=${id}`), missing)
    t.strictSame(await admin.get(`/api/admin/meta/get?id=${id}`), missing)
    t.strictSame(await admin.post('/api/admin/meta/update', { id, path: '/z' }), missing)
    t.match(await admin.get('/api/admin/meta/get'), { code: 400 })
  })
})

void t.test('patterns that are too expensive are rejected with the reason', async (t) => {
  const admin = await serve(t)
  const refused = async (hide: string, message: RegExp) => {
    const ask = async () =>
      t.match(await admin.post('/api/admin/meta/create', { path: '/', hide }), { code: 400, message })
    const took = await processorTime(ask, 3)
    t.ok(took < 200, `${took.toFixed()} ms`)
  }
  await refused('a'.repeat(20_000), /is illegal: it has more than 1000 characters/)
  await refused('a{1000}'.repeat(140), /is illegal: too many repetitions/)
  await refused('a*b*c*d*\n'.repeat(2000), /is illegal: too many repetitions/)
  await refused('a\n'.repeat(20_000), /is illegal: it has more than 20000 characters/)
})
