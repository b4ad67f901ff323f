/** The API of groups and grants: what is stored, what is refused, and what is in force at once. */
import t from 'tap'
import { allPermissions, permissionBits } from '../../../../src/accounts/principal.js'
import { http } from '../../../../protocols/http/index.js'
import { maxMembers } from '../../../../src/accounts/groups.js'
import { maxGrantDepth, maxGrantsOfSubject } from '../../../../src/tree/grants.js'
import { Served, serve } from '../served.js'

const done = { code: 200, message: 'success', data: null }

interface GrantShown {
  readonly id: number
  readonly path: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

interface GroupShown {
  readonly id: number
  readonly members: readonly number[]
  readonly grants: readonly GrantShown[]
}

async function created(admin: Served, fields: object): Promise<number> {
  const { code, message, data } = await admin.post('/api/admin/group/create', fields)
  if (code !== 200) throw new Error(message)
  return (data as { id: number }).id
}

async function group(admin: Served, id: number): Promise<GroupShown> {
  return (await admin.get(`/api/admin/group/get?id=${id}`)).data as GroupShown
}

function idOf({ gateway }: Served, username: string): number {
  return gateway.accounts.users.byName(username)?.id ?? 0
}

async function signIn(served: Served, username: string): Promise<Served> {
  const { data } = await served.post('/api/auth/login', { username, password: 'password' })
  return new Served(served.url, served.gateway, (data as { token: string } | null)?.token ?? '')
}

void t.test('a misspelled field is refused, because it may be a denial or a limit', async (t) => {
  const admin = await serve(t)
  const grant = { path: '/sales', allow: ['read'], deny: [] }
  const group = { name: 'sales', grants: [grant] }
  const refusals = [
    ['/api/admin/group/create', { ...group, member: [1] }, /has no field member/],
    ['/api/admin/group/create', { ...group, grants: [{ ...grant, denny: ['write'] }] }, /has no field denny/],
    ['/api/admin/user/create', { username: 'ann', password: 'x', grants: [{ ...grant, denny: [] }] }, /denny/],
    ['/api/me/app_password/add', { name: 'phone', fodler: '/photos' }, /has no field fodler/],
  ] as const
  for (const [path, fields, message] of refusals) t.match(await admin.post(path, fields), { code: 400, message }, path)
  const id = await created(admin, group)
  const read = (await admin.get(`/api/admin/group/get?id=${id}`)).data
  t.strictSame(await admin.post('/api/admin/group/update', read as object), done, 'what was read can be sent back')
})

void t.test('a group is created, listed, changed and deleted', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  await admin.as('bob', [])
  const [ann, bob] = [idOf(admin, 'ann'), idOf(admin, 'bob')]
  const sales = {
    name: 'sales',
    description: 'the team',
    permission: permissionBits.write,
    admin: false,
    members: [bob, ann],
    grants: [{ path: '/sales/', allow: ['write', 'read'], deny: ['remove'] }],
  }
  const id = await created(admin, sales)
  const grant = { path: '/sales', allow: ['read', 'write'], deny: ['remove'] }
  const shown = { ...sales, id, members: [ann, bob], require_two_step: false, require_provider: false }
  const { grants, ...rest } = (await group(admin, id)) as GroupShown & object
  const { grants: _, ...others } = shown
  t.strictSame(rest, others)
  t.match(grants, [grant])
  t.match(await admin.get('/api/admin/group/list'), { data: { total: 1, content: [{ id, name: 'sales' }] } })
  t.strictSame((await admin.get('/api/admin/group/list?page=2&per_page=1')).data, { content: [], total: 1 })

  await t.test('what an update leaves out stays', async (t) => {
    const before = await group(admin, id)
    t.strictSame(await admin.post('/api/admin/group/update', { id }), done)
    t.strictSame(await group(admin, id), before)
    t.strictSame(await admin.post('/api/admin/group/update', { id, name: 'trade' }), done)
    t.strictSame(await group(admin, id), { ...before, name: 'trade' })
    t.strictSame(await admin.post('/api/admin/group/update', { id, members: [] }), done)
    t.strictSame(await group(admin, id), { ...before, name: 'trade', members: [] })
  })

  await t.test('a grant whose path stays keeps its id', async (t) => {
    const [kept] = (await group(admin, id)).grants
    const changed = [
      { path: '/nowhere/yet', allow: [], deny: ['see'] },
      { path: '/sales', allow: ['see'] },
    ]
    t.strictSame(await admin.post('/api/admin/group/update', { id, grants: changed }), done)
    t.match((await group(admin, id)).grants, [
      { path: '/nowhere/yet', deny: ['see'] },
      { id: kept?.id, path: '/sales', allow: ['see'], deny: [] },
    ])
    t.strictSame(await admin.post('/api/admin/group/update', { id, grants: [] }), done)
    t.strictSame((await group(admin, id)).grants, [])
  })

  t.strictSame(await admin.post(`/api/admin/group/delete?id=${id}`), done)
  const missing = { code: 404, message: 'group not found', data: null }
  t.strictSame(await admin.post(`/api/admin/group/delete?id=${id}`), missing)
  t.strictSame(await admin.get(`/api/admin/group/get?id=${id}`), missing)
  t.strictSame(await admin.post('/api/admin/group/update', { id, name: 'x' }), missing)
  t.strictSame(await admin.gateway.store.grants.all(), [])
})

void t.test('what cannot be stored is refused, and changes nothing', async (t) => {
  const admin = await serve(t)
  const guest = idOf(admin, 'guest')
  const id = await created(admin, { name: 'one', grants: [{ path: '/a', allow: ['read'] }] })
  await created(admin, { name: 'admins', admin: true })
  const before = await admin.get('/api/admin/group/list')
  const at = (path: string, allow: unknown = ['read'], deny: unknown = []) => ({ grants: [{ path, allow, deny }] })
  for (const [fields, code, message] of [
    [{ name: '' }, 400, /^name: /],
    [{ name: ' ' }, 400, /needs a name/],
    [{ name: 'x'.repeat(256) }, 400, /too long/],
    [{ name: 'a\nb' }, 400, /control characters/],
    [{ name: 'one\ufffd' }, 400, /U\+FFFD/],
    [{ description: 'x'.repeat(1001) }, 400, /too long/],
    [{ permission: allPermissions + 1 }, 400, /^a permission is a number/],
    [{ permission: -1 }, 400, /^a permission is a number/],
    [{ members: [777] }, 400, /^there is no user 777$/],
    [{ members: ['x'] }, 400, /^members\.0: /],
    [{ members: 7 }, 400, /^members: must be a list of ids$/],
    [{ members: Array.from({ length: maxMembers + 1 }, () => 1) }, 400, /at most 10000 members/],
    [{ admin: true, members: [guest] }, 400, /^the guest cannot be in a group whose members are admins$/],
    [{ grants: {} }, 400, /^grants: /],
    [at('relative'), 400, /^the path of a grant begins with \/ and/],
    [at('/a/../b'), 400, /does not contain \.\.$/],
    [at('/a\0'), 400, /NUL/],
    [at('/a'.repeat(maxGrantDepth + 1)), 400, /^the path of a grant has at most 100 folders$/],
    [at('/b', ['fly']), 400, /^grants\.0\.allow\.0: /],
    [at('/b', 'read'), 400, /^grants\.0\.allow: /],
    [at('/b', ['read', 'write'], ['write']), 400, /both allows and denies write$/],
    [at('/b', ['read'], ['see']), 400, /denies see, without which nothing/],
    [at('/b', [], []), 400, /allows and denies nothing$/],
    [{ grants: [...at('/b').grants, ...at('/b/').grants] }, 400, /^there are two grants with the path \/b$/],
    [
      { grants: Array.from({ length: maxGrantsOfSubject + 1 }, (_, index) => at(`/${index}`).grants[0]) },
      400,
      /at most 1000 grants$/,
    ],
    [{ name: 'admins' }, 409, /^a group of this name exists already$/],
  ] as const) {
    const what = JSON.stringify(fields).slice(0, 100)
    t.match(
      await admin.post('/api/admin/group/create', { name: 'two', ...fields }),
      { code, message, data: null },
      what,
    )
    t.match(await admin.post('/api/admin/group/update', { id, ...fields }), { code, message, data: null }, what)
  }
  t.match(await admin.post('/api/admin/group/create', {}), { code: 400, message: 'name: is missing' })
  t.strictSame(await admin.get('/api/admin/group/list'), before)
})

void t.test('members have what their group gives at once, and no session ends', async (t) => {
  const admin = await serve(t)
  await admin.put('/sales/q1', 'x')
  await admin.put('/other/file', 'x')
  const ann = await admin.as('ann', [])
  const id = await created(admin, { name: 'sales', members: [idOf(admin, 'ann')] })
  const write = async (path: string) => (await ann.put(path, 'new')).code
  t.equal(await write('/sales/new'), 403)
  await admin.post('/api/admin/group/update', { id, grants: [{ path: '/sales', allow: ['write'] }] })
  t.equal(await write('/sales/new'), 200)
  t.equal(await write('/other/new'), 403)
  await admin.post('/api/admin/group/update', { id, permission: permissionBits.write })
  t.equal(await write('/other/new'), 200)
  await admin.post('/api/admin/group/update', { id, grants: [{ path: '/other', deny: ['see'] }] })
  t.same(await ann.names('/'), ['sales'])
  t.match(await ann.post('/api/fs/get', { path: '/other/file' }), { code: 500, message: /not found$/ })
  t.equal(await write('/other/new'), 500)
  await admin.post(`/api/admin/group/delete?id=${id}`)
  t.same(await ann.names('/'), ['other', 'sales'])
  t.equal(await write('/sales/new'), 403)
})

void t.test('members of a group of admins are admins, whose own role and permissions stay', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', ['write'])
  const annId = idOf(admin, 'ann')
  t.match(await ann.get('/api/me'), { data: { role: 0, permission: permissionBits.write, groups: [] } })
  const id = await created(admin, {
    name: 'admins',
    admin: true,
    permission: permissionBits.move,
    members: [annId],
    grants: [{ path: '/', deny: ['see'] }],
  })
  t.match((await ann.get('/api/me')).data, {
    role: 2,
    permission: permissionBits.write + permissionBits.move,
    groups: [{ id, name: 'admins' }],
  })
  t.notOk('grants' in ((await ann.get('/api/me')).data as object), 'paths of the whole tree are not told')
  t.match((await ann.get(`/api/admin/user/get?id=${annId}`)).data, {
    role: 0,
    permission: permissionBits.write,
    groups: [id],
  })
  t.match(await ann.post('/api/fs/list', { path: '/' }), { code: 200 }, 'no grant applies to admins')

  await t.test('the admin who is built in cannot lose the role or be removed, by whomever', async (t) => {
    const boss = idOf(admin, 'admin')
    for (const fields of [{ role: 0 }, { disabled: true }]) {
      const asked = { id: boss, username: 'admin', ...fields }
      t.match(await ann.post('/api/admin/user/update', asked), { code: 400 })
    }
    t.match(await ann.post(`/api/admin/user/delete?id=${boss}`), { code: 500 })
    t.match(await ann.post('/api/admin/user/update', { id: boss, username: 'admin', granted_only: true }), {
      code: 200,
    })
    t.match(await signedInAdmin(admin).then((again) => again.get('/api/admin/user/list')), { code: 200 })
  })

  t.match(await ann.post('/api/admin/group/update', { id, admin: false }), { code: 200 })
  t.match(await ann.get('/api/admin/user/list'), { code: 403 })
})

async function signedInAdmin(admin: Served): Promise<Served> {
  const token = await admin.gateway.accounts.signIn.issueToken({
    username: 'admin',
    password: { plain: 'admin password' },
    address: '127.0.0.1',
  })
  return new Served(admin.url, admin.gateway, token)
}

void t.test('the guest may be in a group, and in none that makes admins', async (t) => {
  const admin = await serve(t)
  const guest = idOf(admin, 'guest')
  const id = await created(admin, { name: 'everybody', members: [guest] })
  const admins = await created(admin, { name: 'admins', admin: true })
  const message = 'the guest cannot be in a group whose members are admins'
  t.match(await admin.post('/api/admin/group/update', { id, admin: true }), { code: 400, message })
  t.match(await admin.post('/api/admin/group/update', { id: admins, members: [guest] }), { code: 400, message })
  const asked = { id: guest, username: 'guest', groups: [id, admins] }
  t.match(await admin.post('/api/admin/user/update', asked), { code: 400, message })
  // As two nodes could store it at once.
  await admin.gateway.store.groups.setMembers(admins, [guest])
  await admin.gateway.accounts.reload()
  await admin.gateway.accounts.users.update(guest, { disabled: false })
  t.equal(admin.gateway.accounts.principals.guest(http, '127.0.0.1').role, 'guest')
})

void t.test('of a change of a group that fails, nothing is stored', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  await admin.as('bob', [])
  const [ann, bob] = [idOf(admin, 'ann'), idOf(admin, 'bob')]
  const grants = [{ path: '/sales', allow: ['see'], deny: [] }]
  const id = await created(admin, { name: 'sales', members: [ann], grants })
  const before = await group(admin, id)
  // As another node does, of which this one does not know yet.
  await admin.gateway.store.users.delete(bob)
  const changed = { name: 'trade', members: [bob], grants: [{ path: '/trade', allow: ['see'], deny: [] }] }
  t.match(await admin.post('/api/admin/group/update', { id, ...changed }), { code: 404 })
  t.match(await admin.post('/api/admin/group/create', changed), { code: 404 })
  t.strictSame(await group(admin, id), before)
  await admin.gateway.accounts.reload()
  await admin.gateway.grants.reload()
  t.strictSame(await group(admin, id), before)
  t.match(await admin.get('/api/admin/group/list'), { data: { total: 1 } })
})

void t.test('users have groups, grants, and the switch granted_only', async (t) => {
  const admin = await serve(t)
  await admin.put('/open/file', 'x')
  await admin.put('/shut/file', 'x')
  const id = await created(admin, { name: 'one' })
  const eve = {
    username: 'eve',
    password: 'password',
    groups: [id],
    granted_only: true,
    grants: [{ path: '/open', allow: ['see', 'read'] }],
  }
  t.strictSame(await admin.post('/api/admin/user/create', eve), done)
  const eveId = idOf(admin, 'eve')
  const shown = async () => (await admin.get(`/api/admin/user/get?id=${eveId}`)).data as { grants: GrantShown[] }
  const first = await shown()
  t.match(first, {
    disabled: false,
    groups: [id],
    granted_only: true,
    grants: [{ path: '/open', allow: ['see', 'read'], deny: [] }],
  })
  const user = await signIn(admin, 'eve')
  t.same(await user.names('/'), ['open'])
  t.match((await user.get('/api/me')).data, { granted_only: true, groups: [{ id, name: 'one' }] })

  await t.test('what an update leaves out stays', async (t) => {
    t.strictSame(await admin.post('/api/admin/user/update', { id: eveId, username: 'eve' }), done)
    t.strictSame(await shown(), first)
    t.same(await user.names('/'), ['open'], 'and no session ends')
  })

  await t.test('grants and groups are replaced', async (t) => {
    const grants = [{ path: '/shut', allow: ['see'] }]
    t.strictSame(await admin.post('/api/admin/user/update', { id: eveId, username: 'eve', grants, groups: [] }), done)
    t.match(await shown(), { groups: [], grants: [{ path: '/shut' }], granted_only: true })
    t.equal((await shown()).grants.length, 1)
    t.same(await user.names('/'), ['shut'])
    t.same((await group(admin, id)).members, [])
  })

  await t.test('what cannot be stored is refused, and makes no user', async (t) => {
    for (const [fields, message] of [
      [{ groups: [99] }, 'there is no group 99'],
      [{ groups: 7 }, 'groups: must be a list of ids'],
      [{ grants: [{ path: '/a', allow: ['read'], deny: ['read'] }] }, 'the grant at /a both allows and denies read'],
      [{ grants: [{ path: 'a', allow: ['read'] }] }, 'the path of a grant begins with / and does not contain ..'],
    ] as const) {
      const asked = { username: 'new', password: 'password', ...fields }
      t.match(await admin.post('/api/admin/user/create', asked), { code: 400, message })
      t.match(await admin.post('/api/admin/user/update', { id: eveId, ...fields, username: 'new' }), {
        code: 400,
        message,
      })
    }
    t.equal(idOf(admin, 'new'), 0)
  })

  await t.test('a deleted user leaves its groups, and its grants close nothing', async (t) => {
    const grants = [{ path: '/open', deny: ['read'] }]
    await admin.post('/api/admin/user/update', { id: eveId, username: 'eve', grants, groups: [id] })
    t.equal((await group(admin, id)).members.length, 1)
    t.strictSame(await admin.post(`/api/admin/user/delete?id=${eveId}`), done)
    t.same((await group(admin, id)).members, [])
    t.equal(admin.gateway.grants.isEmpty, true)
  })
})
