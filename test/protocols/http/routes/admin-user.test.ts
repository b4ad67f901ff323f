/** The API of accounts, and the refusal of administration endpoints to everyone but admins. */
import t from 'tap'
import { allPermissions } from '../../../../src/accounts/principal.js'
import { keyLine } from '../key-line.js'
import { adminPassword, Served, serve } from '../served.js'

const done = { code: 200, message: 'success', data: null }

interface User {
  readonly id: number
  readonly username: string
}

async function userNamed(admin: Served, username: string): Promise<User> {
  const { data } = await admin.get('/api/admin/user/list')
  const user = (data as { content: User[] }).content.find((each) => each.username === username)
  if (user === undefined) throw new Error(`no user ${username}`)
  return user
}

async function signIn(served: Served, username: string, password: string): Promise<Served> {
  const { data } = await served.post('/api/auth/login', { username, password })
  return new Served(served.url, served.gateway, (data as { token: string } | null)?.token ?? '')
}

void t.test('administration endpoints are for admins only', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', ['seeHidden', 'write'])
  const nobody = new Served(admin.url, admin.gateway)
  const paths = ['user/list', 'user/get?id=1', 'meta/list', 'user/sshkey/list?uid=1']
  for (const path of paths) {
    t.strictSame(await ann.get(`/api/admin/${path}`), { code: 403, message: 'You are not an admin', data: null })
    t.match(await nobody.get(`/api/admin/${path}`), { code: 401, message: 'Guest user is disabled, login please' })
  }
  t.match(await ann.post('/api/admin/user/delete?id=1'), { code: 403 })
  await admin.gateway.accounts.users.update(admin.gateway.accounts.users.byUniqueRole('guest')?.id ?? 0, {
    disabled: false,
  })
  t.match(await nobody.get('/api/admin/user/list'), { code: 403, message: 'You are not an admin' })
  t.match(await admin.get('/api/admin/user/nothing'), { code: 404 })
})

void t.test('accounts', async (t) => {
  const admin = await serve(t)

  await t.test('are listed by id, without their passwords', async (t) => {
    const { data } = await admin.get('/api/admin/user/list')
    const { content, total } = data as { content: object[]; total: number }
    t.equal(total, 2)
    t.match(content, [
      { username: 'admin', password: '', role: 2, permission: allPermissions },
      { username: 'guest', password: '', role: 1, disabled: true },
    ])
    t.match(await admin.get('/api/admin/user/list?page=2&per_page=1'), {
      data: { content: [{ username: 'guest' }], total: 2 },
    })
    t.strictSame((await admin.get('/api/admin/user/list?page=9&per_page=1')).data, { content: [], total: 2 })
  })

  await t.test('are created with a password, and with role 0', async (t) => {
    const create = (user: object) => admin.post('/api/admin/user/create', user)
    t.strictSame(await create({ id: 77, username: 'ann', password: 'first', base_path: 'a//b/', permission: 8 }), done)
    const ann = await userNamed(admin, 'ann')
    t.not(ann.id, 77, 'an id in the request is ignored')
    t.match(ann, { base_path: '/a/b', role: 0, permission: 8, disabled: false, sso_id: '' })
    t.match(await create({ username: 'ann', password: 'x' }), {
      code: 500,
      message: 'a user of this name exists already',
    })
    t.match(await create({ username: 'bob' }), { code: 400, message: 'an empty password is not accepted' })
    t.match(await create({ password: 'x' }), { code: 400, message: /^username: / })
    for (const role of [1, 2]) {
      t.match(await create({ username: 'bob', password: 'x', role }), {
        code: 400,
        message: 'admin or guest user can not be created',
      })
    }
    t.match(await create({ username: 'bob', password: 'x', role: 3 }), { code: 400, message: /^role: / })
    t.match(await create({ username: 'bob', password: 'x', permission: allPermissions + 1 }), { code: 400 })
    t.match(await create({ username: 'bob', password: 'x', base_path: '/../etc' }), { code: 403 })
    t.match((await admin.get('/api/admin/user/list')).data, { total: 3 })
  })

  await t.test('keep fields that an update omits, and their sessions', async (t) => {
    const { id } = await userNamed(admin, 'ann')
    const ann = await signIn(admin, 'ann', 'first')
    const update = (changes: object) => admin.post('/api/admin/user/update', { id, username: 'ann', ...changes })
    t.strictSame(await update({ password: '', sso_id: 'sso', role: 0 }), done)
    t.match(await admin.get(`/api/admin/user/get?id=${id}`), {
      data: { base_path: '/a/b', permission: 8, sso_id: 'sso' },
    })
    t.match(await update({ permission: 9 }), done)
    t.match(await ann.get('/api/me'), { code: 200, data: { permission: 9, sso_id: 'sso' } })
    t.match(await update({ password: 'second' }), done)
    t.match(await ann.get('/api/me'), { code: 401, message: 'Password has been changed, login please' })
    t.match(await update({ sso_id: '' }), done)
    t.match(await ann.get('/api/me'), { code: 401 }, 'an ended session remains invalid')
    t.match(await update({ role: 2 }), { code: 400, message: 'role can not be changed' })
    const { id: adminId } = await userNamed(admin, 'admin')
    t.match(await admin.post('/api/admin/user/update', { id: adminId, username: 'admin', disabled: true }), {
      code: 400,
      message: 'admin user can not be disabled',
    })
    t.match(await update({ username: 'admin' }), { code: 500, message: 'a user of this name exists already' })
    t.match(await update({ username: '' }), { code: 400 })
    for (const answer of [
      await admin.post('/api/admin/user/update', { id: 999, username: 'x' }),
      await admin.get('/api/admin/user/get?id=999'),
      await admin.post('/api/admin/user/cancel_2fa?id=999'),
      await admin.post('/api/admin/user/delete?id=999'),
      await admin.post('/api/admin/user/del_cache?username=zoe'),
      await admin.post('/api/admin/user/del_cache'),
    ]) {
      t.strictSame(answer, { code: 500, message: 'failed get old user: record not found', data: null })
    }
    t.match(await admin.get('/api/admin/user/get?id=x'), { code: 400 })
    t.match(await admin.post('/api/admin/user/del_cache?username=ann'), done)
  })

  await t.test('have their two-step verification reset by an admin', async (t) => {
    const { id } = await userNamed(admin, 'ann')
    await admin.gateway.accounts.users.update(id, { otpSecret: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567' })
    t.match(await signIn(admin, 'ann', 'second'), { token: '' })
    t.match(await admin.post(`/api/admin/user/cancel_2fa?id=${id}`), done)
    t.match(await signIn(admin, 'ann', 'second'), { token: /./ })
  })

  await t.test('are deleted with their keys and sessions', async (t) => {
    const { id } = await userNamed(admin, 'ann')
    const ann = await signIn(admin, 'ann', 'second')
    t.match(await ann.post('/api/me/sshkey/add', { title: 'laptop', key: keyLine() }), { code: 200 })
    const keys = await admin.get(`/api/admin/user/sshkey/list?uid=${id}`)
    t.match(keys, { data: { content: [{ title: 'laptop', fingerprint: /^SHA256:/ }], total: 1 } })
    t.match(await admin.get('/api/admin/user/sshkey/list'), { code: 400, message: 'user id format invalid' })
    t.match(await admin.get('/api/admin/user/sshkey/list?uid=x'), { code: 400, message: 'user id format invalid' })
    t.match(await admin.get('/api/admin/user/sshkey/list?uid=999'), { code: 404, message: 'user invalid' })
    const [key] = (keys.data as { content: { id: number }[] }).content
    t.match(await admin.post('/api/admin/user/sshkey/delete?id=x'), { code: 400, message: 'id format invalid' })
    t.match(await admin.post(`/api/admin/user/sshkey/delete?uid=${id}&id=${key?.id}`), done)
    t.match(
      await admin.post(`/api/admin/user/sshkey/delete?uid=${id}&id=${key?.id}`),
      done,
      'a repeated delete succeeds',
    )
    t.strictSame((await admin.get(`/api/admin/user/sshkey/list?uid=${id}`)).data, { content: [], total: 0 })

    t.match(await admin.post(`/api/admin/user/delete?id=${id}`), done)
    t.match(await ann.get('/api/me'), { code: 401, message: 'failed find user: record not found' })
    for (const name of ['admin', 'guest']) {
      const user = await userNamed(admin, name)
      t.match(await admin.post(`/api/admin/user/delete?id=${user.id}`), {
        code: 500,
        message: 'cannot delete admin or guest',
      })
    }
    t.match(await signIn(admin, 'admin', adminPassword), { token: /./ })
  })
})
