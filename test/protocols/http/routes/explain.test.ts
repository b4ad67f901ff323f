/** The API that explains decisions: what decides, in which words, and what is refused. */
import t from 'tap'
import { aliasType } from '../../../../drivers/alias/index.js'
import { serve, type Served } from '../served.js'

interface Told {
  readonly step: string
  readonly kind: string
  readonly id: number | null
  readonly subject: string | null
  readonly path: string
  readonly cause: string
  readonly text: string
}

interface Explanation {
  readonly allowed: boolean
  readonly error: string | null
  readonly decided_by: Told
  readonly steps: readonly (Told & { readonly refused: boolean })[]
  readonly admin: boolean
  readonly notes: readonly string[]
  readonly facts: readonly { readonly name: string; readonly text: string }[]
}

const asked = { username: 'ann', path: '/sales/payroll/june', right: 'read', protocol: 'http' }

async function explained(admin: Served, fields: object = {}): Promise<Explanation> {
  const { code, message, data } = await admin.post('/api/admin/explain', { ...asked, ...fields })
  if (code !== 200) throw new Error(message)
  return data as Explanation
}

function idOf({ gateway }: Served, username: string): number {
  return gateway.accounts.users.byName(username)?.id ?? 0
}

void t.test('a decision is explained by what decides it, and by all its steps', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', ['write'])
  const ann = idOf(admin, 'ann')
  const grants = [
    { path: '/sales', allow: ['read'] },
    { path: '/sales/payroll', deny: ['see'] },
  ]
  const group = { name: 'sales', members: [ann], grants }
  const { data } = await admin.post('/api/admin/group/create', group)
  const subject = `group:${(data as { id: number }).id}`

  const refused = await explained(admin)
  t.match(refused, { allowed: false, error: 'not_found', notes: [] })
  t.match(refused.decided_by, { kind: 'grant', subject, path: '/sales/payroll' })
  const bySales = (path: string) => [{ path, user: null, group: 'sales' }]
  t.match(refused.decided_by, { cause: 'not_seen', right: 'see', grants: bySales('/sales/payroll') })
  t.type(refused.decided_by.id, 'number')
  t.match(refused.decided_by.text, /^the grant of the group sales at \/sales\/payroll denies see: /)
  t.same(
    refused.steps.map(({ step, kind, refused }) => `${step}: ${kind} ${refused}`),
    [
      'session: credential false',
      'protocol: protocol false',
      'base: base false',
      'sight: grant true',
      'hidden names: hidden false',
      'readers: rule false',
      'password: rule false',
      'right: grant true',
      'writers: rule false',
    ],
  )

  t.match(await explained(admin, { path: '/sales/june' }), {
    allowed: true,
    error: null,
    decided_by: { kind: 'grant', subject, path: '/sales', text: 'the grant of the group sales at /sales allows read' },
  })
  t.match(await explained(admin, { path: '/x', right: 'write' }), {
    allowed: true,
    decided_by: { kind: 'permission', id: null, subject: null, path: '/x', text: /ann has the permission write$/ },
  })
  t.match(await explained(admin, { path: '/x', right: 'share' }), {
    error: 'denied',
    decided_by: { kind: 'permission', cause: 'permission', right: 'share', text: /ann lacks the permission share$/ },
  })
  t.match(await explained(admin, { protocol: 'webdav', address: '10.0.0.1' }), {
    error: 'denied',
    decided_by: { kind: 'protocol', permissions: 1 << 8, text: 'webdav needs webdav-read: ann lacks that' },
  })
  t.match(await explained(admin, { username: 'admin' }), {
    allowed: true,
    admin: true,
    decided_by: { kind: 'permission', text: 'no grant applies to an admin: no permission is needed' },
  })
})

void t.test('a disabled account, the base folder and folder rules are named', async (t) => {
  const admin = await serve(t)
  await admin.as('ann', [])
  const id = idOf(admin, 'ann')
  const { users } = admin.gateway.accounts
  await users.update(id, { basePath: '/home/ann' })
  t.match(await explained(admin), { error: 'not_found', decided_by: { kind: 'base', path: '/home/ann' } })
  await users.update(id, { disabled: true })
  t.match(await explained(admin, { path: '/home/ann' }), {
    error: 'account_disabled',
    decided_by: { step: 'session', kind: 'credential', text: 'the account is disabled' },
  })
  await users.update(id, { disabled: false, allowFrom: ['10.0.0.0/8'] })
  const fromOutside = { path: '/home/ann', address: '192.0.2.1' }
  t.match(await explained(admin, fromOutside), { error: 'network_refused', notes: [] })
  t.match(await explained(admin, { ...fromOutside, address: '10.1.2.3' }), { allowed: true, notes: [] })
  t.match(await explained(admin, { path: '/home/ann' }), {
    allowed: true,
    notes: ['no address was given, so it was not asked that ann may only come from 10.0.0.0/8'],
    facts: [{ name: 'networks', networks: ['10.0.0.0/8'] }],
  })
  await users.update(id, { basePath: '/', allowFrom: [] })
  const rule = { path: '/sales', password: 'secret', p_sub: true, hide: '', readme: '', header: '' }
  t.match(await admin.post('/api/admin/meta/create', rule), { code: 200 })
  t.match(await explained(admin), {
    error: 'password_required',
    decided_by: { kind: 'rule', path: '/sales', text: 'the folder rule at /sales requires a password' },
  })
})

void t.test('notes name grants without effect, and storages that show what is denied', async (t) => {
  const admin = await serve(t, '', [aliasType])
  await admin.as('ann', ['remove'])
  const id = idOf(admin, 'ann')
  const grants = [
    { path: '/other', allow: ['read'] },
    { path: '/sales/payroll', deny: ['read'] },
  ]
  t.match(await admin.post('/api/admin/user/update', { id, username: 'ann', base_path: '/sales', grants }), {
    code: 200,
  })
  t.match(await admin.mount('/sales/all', 'Alias', { addition: '{"paths":"/sales"}' }), { code: 200 })
  const { notes, facts } = await explained(admin)
  const byAnn = (path: string) => [{ path, user: 'ann', group: null }]
  t.match(facts, [
    { name: 'outside_base', grants: byAnn('/other'), paths: ['/sales'] },
    {
      ...{ name: 'elsewhere', rights: ['read'], grants: byAnn('/sales/payroll') },
      paths: ['/sales/all', '/sales/all/payroll'],
    },
  ])
  t.same(
    facts.map(({ text }) => text),
    notes,
  )
  t.same(notes, [
    'the grant of ann at /other has no effect: it is outside the base folder /sales',
    'the grant of ann at /sales/payroll denies read, and the storage /sales/all (Alias) shows what is there at /sales/all/payroll too',
  ])
  await admin.post('/api/admin/user/update', {
    id,
    username: 'ann',
    grants: [{ path: '/sales/a/b', deny: ['remove'] }],
  })
  t.match(await explained(admin, { path: '/sales/a', right: 'remove' }), {
    allowed: true,
    notes: [/^of a folder here remove is refused, because the grants at \/sales\/a\/b/],
    facts: [{ name: 'folder_refused', rights: ['remove'], paths: ['/sales/a/b'] }],
  })
  await admin.post('/api/admin/user/update', {
    id,
    username: 'ann',
    grants: ['/sales/Pay', '/sales/pay'].map((path) => ({ path, allow: ['see'] })),
  })
  t.same((await explained(admin, { path: '/sales/pay/june' })).notes, [
    'where the storage ignores case, the grants at /sales/Pay and /sales/pay are of one path',
  ])
})

void t.test('what cannot be asked is refused', async (t) => {
  const admin = await serve(t)
  const ann = await admin.as('ann', [])
  t.match(await ann.post('/api/admin/explain', asked), { code: 403, data: null })
  t.match(await admin.post('/api/admin/explain', { ...asked, username: 'nobody' }), {
    code: 404,
    message: 'user not found',
    data: null,
  })
  t.match(await admin.post('/api/admin/explain', { ...asked, path: '/a/../b' }), { code: 403, data: null })
  for (const [fields, message] of [
    [{ username: '' }, /^username: /],
    [{ username: ['ann'] }, /^username: /],
    [{ right: 'fly' }, /^right: /],
    [{ right: undefined }, /^right: is missing$/],
    [{ protocol: 'ftp' }, /^protocol: must be one of http, .*sftp/],
    [{ address: 'here' }, /^address: must be an IP address$/],
    [{ path: 7 }, /^path: /],
    [{ path: '/a\0' }, /NUL/],
    [{ path: `/${'x'.repeat(5000)}` }, /too long/],
    [{ path: 'x'.repeat(100_000) }, /the body is larger than/],
  ] as const) {
    const what = JSON.stringify(fields).slice(0, 100)
    t.match(await admin.post('/api/admin/explain', { ...asked, ...fields }), { code: 400, message, data: null }, what)
  }
})
