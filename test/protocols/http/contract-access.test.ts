/** Who may call what: every route there is, as nobody, as the guest, as a user without rights, and as the admin. */
import t from 'tap'
import { endpoints } from '../../../protocols/http/endpoints.js'
import { Served, serve } from './served.js'

/**
 * `anybody`: no account is asked for. `guest`: without a token it is the guest who calls, and what may be done is judged in the
 * tree. `user`: the guest is turned away with these words. `admin`: everybody else is.
 */
type Access = 'anybody' | 'guest' | 'admin' | { readonly guestIsTold: readonly [code: number, message: string] }

const ownCredentials: Access = { guestIsTold: [401, 'user invalid'] }
const ownTwoStep: Access = { guestIsTold: [403, 'Guest user can not generate 2FA code'] }
const ownProfile: Access = { guestIsTold: [403, 'Guest user can not update profile'] }

/** A row for each route. `ANY`: by every method. */
const table: Readonly<Record<string, Access>> = {
  'ANY /ping': 'anybody',
  'GET /favicon.ico': 'anybody',
  'GET /robots.txt': 'anybody',
  'GET /manifest.json': 'anybody',
  'GET /static/manifest.json': 'anybody',
  'GET /api/openapi.json': 'anybody',
  'GET /api/docs': 'anybody',
  'ANY /api/public/settings': 'anybody',
  'ANY /api/public/offline_download_tools': 'anybody',
  'ANY /api/public/archive_extensions': 'anybody',
  'POST /api/auth/login': 'anybody',
  'POST /api/auth/login/hash': 'anybody',
  'GET /api/auth/logout': 'anybody',
  'POST /api/auth/2fa/generate': ownTwoStep,
  'POST /api/auth/2fa/verify': ownTwoStep,
  'GET /api/me': 'guest',
  'POST /api/me/update': ownProfile,
  'GET /api/me/sshkey/list': ownCredentials,
  'POST /api/me/sshkey/add': ownCredentials,
  'POST /api/me/sshkey/delete': ownCredentials,
  'GET /api/me/app_password/list': ownCredentials,
  'POST /api/me/app_password/add': ownCredentials,
  'POST /api/me/app_password/delete': ownCredentials,
  'ANY /api/fs/list': 'guest',
  'ANY /api/fs/get': 'guest',
  'ANY /api/fs/dirs': 'guest',
  'ANY /api/fs/search': 'guest',
  'POST /api/fs/mkdir': 'guest',
  'POST /api/fs/rename': 'guest',
  'POST /api/fs/batch_rename': 'guest',
  'POST /api/fs/regex_rename': 'guest',
  'POST /api/fs/move': 'guest',
  'POST /api/fs/recursive_move': 'guest',
  'POST /api/fs/copy': 'guest',
  'POST /api/fs/remove': 'guest',
  'POST /api/fs/remove_empty_directory': 'guest',
  'PUT /api/fs/put': 'guest',
  'PUT /api/fs/form': 'guest',
  'POST /api/fs/link': 'admin',
  'GET /api/admin/user/list': 'admin',
  'GET /api/admin/user/get': 'admin',
  'POST /api/admin/user/create': 'admin',
  'POST /api/admin/user/update': 'admin',
  'POST /api/admin/user/delete': 'admin',
  'POST /api/admin/user/cancel_2fa': 'admin',
  'POST /api/admin/user/del_cache': 'admin',
  'GET /api/admin/user/sshkey/list': 'admin',
  'POST /api/admin/user/sshkey/delete': 'admin',
  'GET /api/admin/user/app_password/list': 'admin',
  'POST /api/admin/user/app_password/delete': 'admin',
  'GET /api/admin/meta/list': 'admin',
  'GET /api/admin/meta/get': 'admin',
  'POST /api/admin/meta/create': 'admin',
  'POST /api/admin/meta/update': 'admin',
  'POST /api/admin/meta/delete': 'admin',
  'GET /api/admin/lock/list': 'admin',
  'POST /api/admin/lock/break': 'admin',
  'GET /api/admin/driver/list': 'admin',
  'GET /api/admin/driver/names': 'admin',
  'GET /api/admin/driver/info': 'admin',
  'GET /api/admin/storage/list': 'admin',
  'GET /api/admin/storage/get': 'admin',
  'POST /api/admin/storage/create': 'admin',
  'POST /api/admin/storage/update': 'admin',
  'POST /api/admin/storage/delete': 'admin',
  'POST /api/admin/storage/enable': 'admin',
  'POST /api/admin/storage/disable': 'admin',
  'POST /api/admin/storage/load_all': 'admin',
  'POST /api/admin/index/build': 'admin',
  'POST /api/admin/index/update': 'admin',
  'POST /api/admin/index/stop': 'admin',
  'POST /api/admin/index/clear': 'admin',
  'GET /api/admin/index/progress': 'admin',
  'GET /api/admin/setting/list': 'admin',
  'GET /api/admin/setting/get': 'admin',
  'POST /api/admin/setting/save': 'admin',
  'POST /api/admin/setting/delete': 'admin',
  'POST /api/admin/setting/default': 'admin',
  'POST /api/admin/setting/reset_token': 'admin',
}

type Answer = { readonly code: number; readonly message: string }

/** The changes of the tree: by which bits a user is let through is told by the tests of each. */
const changes = /^POST \/api\/fs\/(?!list|get|dirs)/

function bodyFor(route: string): string | FormData {
  if (route.endsWith('/form')) {
    const form = new FormData()
    form.append('file', new Blob(['x']), 'file')
    return form
  }
  const body = { src_dir: '/a', dst_dir: '/a', dir: '/a', path: '/a/b', name: 'c', names: ['b'], src_name_regex: 'x' }
  return changes.test(route) ? JSON.stringify(body) : '{}'
}

async function call(url: string, route: string, token: string): Promise<Answer> {
  const [method = '', path = ''] = route.split(' ')
  const headers: Record<string, string> = token === '' ? {} : { authorization: token }
  if (method === 'PUT') headers['file-path'] = '/file'
  const response = await fetch(url + path, {
    method: method === 'ANY' ? 'POST' : method,
    headers,
    redirect: 'manual',
    ...(method === 'GET' ? {} : { body: bodyFor(route) }),
  })
  const isEnvelope = path.startsWith('/api/') && path !== '/api/docs' && path !== '/api/openapi.json'
  return isEnvelope ? ((await response.json()) as Answer) : { code: response.status, message: '' }
}

const refusedEntry = (answer: Answer): boolean => answer.code === 401 || answer.message === 'You are not an admin'

void t.test('every endpoint is in the table, and the table has no other', (t) => {
  const found = endpoints.map(({ method, path }) => `${method.toUpperCase()} ${path}`)
  t.strictSame(found.sort(), Object.keys(table).sort())
  t.end()
})

void t.test('who is let in at each route', async (t) => {
  const admin = await serve(t)
  await admin.post('/api/fs/mkdir', { path: '/a' })
  const ann = await admin.as('ann', [])
  const guest = admin.gateway.accounts.users.single(1)
  const enable = (enabled: boolean) => admin.gateway.accounts.users.update(guest?.id ?? 0, { disabled: !enabled })

  await t.test('nobody, while the guest is disabled', async (t) => {
    for (const [route, access] of Object.entries(table)) {
      const answer = await call(admin.url, route, '')
      if (access === 'anybody') t.notOk(refusedEntry(answer), route)
      else t.match(answer, { code: 401, message: 'Guest user is disabled, login please', data: null }, route)
    }
  })
  await t.test('nobody with a token that is none', async (t) => {
    for (const [route, access] of Object.entries(table)) {
      const answer = await call(admin.url, route, 'eyJhbGciOiJub25lIn0.e30.')
      if (access === 'anybody') t.notOk(refusedEntry(answer), route)
      else t.match(answer, { code: 401, message: 'token is invalidated', data: null }, route)
    }
  })
  await t.test('the guest, who may look and be refused', async (t) => {
    await enable(true)
    for (const [route, access] of Object.entries(table)) {
      const answer = await call(admin.url, route, '')
      if (access === 'admin') t.match(answer, { code: 403, message: 'You are not an admin', data: null }, route)
      else if (typeof access === 'object') {
        const [code, message] = access.guestIsTold
        t.strictSame(answer, { code, message, data: null }, route)
      } else if (changes.test(route) || route.startsWith('PUT ')) {
        t.strictSame(answer, { code: 403, message: 'permission denied', data: null }, route)
      } else t.notOk(refusedEntry(answer), route)
    }
    await enable(false)
  })
  await t.test('a user without rights', async (t) => {
    for (const [route, access] of Object.entries(table)) {
      const answer = await call(admin.url, route, ann.token)
      if (access === 'admin') t.match(answer, { code: 403, message: 'You are not an admin', data: null }, route)
      else if (changes.test(route) || route.startsWith('PUT ')) {
        t.strictSame(answer, { code: 403, message: 'permission denied', data: null }, route)
      } else t.notOk(refusedEntry(answer), route)
      // What signs out, or ends sessions, has done so.
      if (route === 'GET /api/auth/logout') ann.token = (await signIn(ann, 'ann', 'password')).token
    }
  })
  await t.test('the admin everywhere', async (t) => {
    for (const route of Object.keys(table)) {
      if (route === 'GET /api/auth/logout') continue
      t.notOk(refusedEntry(await call(admin.url, route, admin.token)), route)
    }
  })
})

async function signIn(served: Served, username: string, password: string): Promise<Served> {
  const { data } = await served.post('/api/auth/login', { username, password })
  return new Served(served.url, served.gateway, (data as { token: string }).token)
}
