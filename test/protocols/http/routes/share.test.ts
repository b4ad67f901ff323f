/** The API of shares: what their creators and admins make, see and change. */
import t, { type Test } from 'tap'
import { allPermissions } from '../../../../src/accounts/principal.js'
import { Served, serve } from '../served.js'
import { share, shown, Visitor } from '../../../shares/visitor.js'

async function household(t: Test): Promise<{ readonly admin: Served; readonly ann: Served; readonly bob: Served }> {
  const admin = await serve(t)
  await admin.put('/a/file.txt', 'file')
  await admin.put('/a/docs/x.txt', 'x')
  await admin.put('/ab/x/secret.txt', 'secret')
  return { admin, ann: await admin.as('ann', ['share', 'write'], '/a'), bob: await admin.as('bob', []) }
}

const denied = { code: 403, message: 'permission denied' }
const unknown = { code: 404, message: 'sharing not found', data: null }

void t.test('a share has the fields of the family, and those that this gateway adds', async (t) => {
  const { ann } = await household(t)
  const family = {
    files: ['/a/docs'],
    expires: '2099-01-02T03:04:05Z',
    pwd: 'code',
    accessed: 3,
    max_accessed: 7,
    disabled: true,
    remark: 'for bob',
    readme: '# hello',
    header: 'header',
    order_by: 'name',
    order_direction: 'desc',
    extract_folder: 'front',
  }
  const added = {
    mode: 'both',
    allow_from: ['192.0.2.0/24', '2001:db8::1'],
    webdav: true,
    upload_max_bytes: 1000,
    upload_max_files: 10,
  }
  const { code, data } = await ann.post('/api/share/create', { ...family, ...added })
  t.equal(code, 200)
  const { id, pseudonym, created, ...rest } = data as Record<string, unknown>
  t.match(id, /^[A-Za-z0-9]{8}$/)
  t.match(pseudonym, /^[0-9a-f]{10}$/)
  t.ok(Math.abs(Date.parse(String(created)) - Date.now()) < 60_000)
  const own = { creator: 'ann', creator_role: 0, domain: '', web_hosting: false, uploaded_bytes: 0, uploaded_files: 0 }
  const all = { ...family, ...added, ...own, expires: '2099-01-02T03:04:05.000Z', state: 'disabled' }
  t.same(rest, all)
  t.same(await shown(ann, String(id)), { ...all, id, pseudonym, created })
  t.same((await ann.post('/api/share/list', {})).data, { content: [{ ...all, id, pseudonym, created }], total: 1 })

  // As a client of the family, which sends what it has read and knows.
  const updated = await ann.post('/api/share/update', { ...family, accessed: 4, disabled: false, id })
  t.match(updated, { code: 200, data: { ...added, accessed: 4, disabled: false, state: 'active', pwd: 'code' } })
  const reset = await ann.post('/api/share/update', { id, files: ['/a/docs'] })
  t.match(reset, { code: 200, data: { ...added, pwd: '', accessed: 0, expires: null, remark: '', max_accessed: 0 } })
})

void t.test('what has no effect in a mode is refused, and a share that has it can be changed otherwise', async (t) => {
  const { admin, ann } = await household(t)
  const noDrive = { code: 400, message: 'a share to upload to is no drive: its visitors see nothing' }
  const noLimit = { code: 400, message: 'a share to read from has no limit of uploads: its visitors upload nothing' }
  const files = ['/a/docs']
  t.match(await ann.post('/api/share/create', { files, mode: 'upload', webdav: true }), noDrive)
  for (const field of ['upload_max_bytes', 'upload_max_files']) {
    t.match(await ann.post('/api/share/create', { files, [field]: 1 }), noLimit, field)
  }
  const id = await share(ann, files, { mode: 'both', webdav: true, upload_max_files: 1 })
  t.match(await ann.post('/api/share/update', { id, files, mode: 'upload' }), noDrive)
  t.match(await ann.post('/api/share/update', { id, files, mode: 'read' }), noLimit)
  t.match(await ann.post('/api/share/update', { id, files, mode: 'upload', webdav: false }), { code: 200 })
  // As an older version has stored it.
  await admin.gateway.store.shares.update(id, { webdav: true }, undefined, undefined)
  await admin.gateway.shares.reload()
  t.match(await ann.post('/api/share/update', { id, files, remark: 'x' }), { code: 200, data: { webdav: true } })
  t.match(await ann.post('/api/share/update', { id, files, webdav: false }), { code: 200, data: { webdav: false } })
})

void t.test('who may share what: the permission, the base folder by whole names, and what is there', async (t) => {
  const { admin, ann, bob } = await household(t)
  const create = (who: Served, fields: object) => who.post('/api/share/create', fields)
  t.match(await create(bob, { files: ['/a/docs'] }), denied)
  for (const path of ['/ab/x', '/', '/ab', '/A/docs', 'ab/x/secret.txt']) {
    const message = `permission denied to share path [/${path.replace(/^\//, '')}]`
    t.match(await create(ann, { files: [path] }), { code: 500, message }, path)
  }
  t.match(await create(ann, { files: ['/a/docs', '/ab/x'] }), { code: 500 }, 'each of them')
  for (const path of ['/a/../ab/x', '\\a\\..\\ab\\x', '/a/docs/..']) {
    t.match(await create(ann, { files: [path] }), { code: 403, message: 'using relative path is not allowed' }, path)
  }
  t.match(await create(ann, { files: ['/a/%2e%2e/ab/x'] }), { code: 500, message: 'object not found' })
  t.match(
    await create(ann, { files: ['/a/later'] }),
    { code: 500, message: 'object not found' },
    'nothing is there yet',
  )
  for (const files of [[], [''], undefined]) {
    t.match(await create(ann, { files }), { code: 400, message: 'must add at least 1 object' })
  }
  t.match(await create(admin, { files: ['/', '/a'] }), { code: 400 })
  t.match(await create(admin, { files: ['/'] }), { code: 200, data: { files: ['/'] } })
  t.match(await create(ann, { files: ['//a/docs/', '/a/docs'] }), { code: 200, data: { files: ['/a/docs'] } })
  await admin.grant('ann', '/a/docs', { deny: ['share'] })
  t.match(await create(ann, { files: ['/a/docs'] }), { code: 500, message: 'object not found' }, 'it is not seen there')
  await admin.grant('bob', '/a/docs', { allow: ['share', 'see', 'read'] })
  const id = await share(bob, ['/a/docs'])
  t.same(await new Visitor(bob).names(`/@s/${id}`), ['x.txt'], 'a grant permits it too')
  t.match(await create(bob, { files: ['/a/file.txt'] }), denied)
})

void t.test('what visitors could not open cannot be shared', async (t) => {
  const { admin, ann } = await household(t)
  await admin.rule('/a/docs', { password: 'x', passwordSub: true })
  const annId = admin.gateway.accounts.users.byName('ann')?.id ?? 0
  await admin.gateway.accounts.users.update(annId, { permission: allPermissions })
  const { data } = await ann.post('/api/auth/login', { username: 'ann', password: 'password' })
  const again = new Served(admin.url, admin.gateway, (data as { token: string }).token)
  t.match(await again.post('/api/share/create', { files: ['/a/docs'] }), {
    code: 500,
    message: 'permission denied to share path [/a/docs]',
  })
  t.match(await again.post('/api/share/create', { files: ['/a/file.txt'] }), { code: 200 })
})

void t.test('ids are chosen with the permission for that, and can be changed', async (t) => {
  const { admin, ann } = await household(t)
  const create = (who: Served, id: string, fields: object = {}) =>
    who.post('/api/share/create', { files: ['/a/docs'], id, ...fields })
  t.match(await create(ann, 'mine'), denied)
  t.match(await create(admin, '分享_-9'), { code: 200, data: { id: '分享_-9' } })
  t.same(await new Visitor(ann).names('/@s/分享_-9'), ['x.txt'])
  t.match(await new Visitor(ann).ask(`/sd/${encodeURIComponent('分享_-9')}/x.txt`), { status: 200 })
  t.match(await create(admin, '分享_-9'), { code: 500, message: 'sharing already exist' })
  for (const [id, message] of [
    ['a b', /can only contain/],
    ['a/b', /can only contain/],
    ['a\n', /can only contain/],
    ['ひらがな', /can only contain/],
    ['x'.repeat(65), /at most 64/],
  ] as const) {
    t.match(await create(admin, id), { code: 400, message }, id)
  }
  const visitor = new Visitor(ann)
  await create(admin, 'old', { max_accessed: 1 })
  await visitor.list('/@s/old')
  const renamed = { id: 'old', files: ['/a/docs'], max_accessed: 1, accessed: 1 }
  t.match(await admin.post('/api/share/update', { ...renamed, new_id: '分享_-9' }), {
    code: 500,
    message: 'sharing id already exists',
  })
  t.match(await admin.post('/api/share/update', { ...renamed, new_id: 'new' }), { code: 200, data: { id: 'new' } })
  t.match(await visitor.list('/@s/new'), { code: 200 }, 'who has visited it stays in')
  t.match(await visitor.list('/@s/old'), { error: 'share_missing' })
  const own = await share(ann, ['/a/docs'])
  t.match(await ann.post('/api/share/update', { id: own, new_id: 'mine', files: ['/a/docs'] }), denied)
})

void t.test('shares of others are missing, but an admin administers all of them', async (t) => {
  const { admin, ann, bob } = await household(t)
  const id = await share(ann, ['/a/docs'])
  for (const verb of ['enable', 'disable', 'delete']) {
    t.match(await bob.post(`/api/share/${verb}?id=${id}`), unknown, verb)
    t.match(await ann.post(`/api/share/${verb}?id=`), unknown, `${verb} without an id`)
    t.match(await ann.post(`/api/share/${verb}?id=${id.slice(0, 4)}`), unknown, `${verb} of a prefix`)
  }
  t.match(await bob.get(`/api/share/get?id=${id}`), unknown)
  for (const query of ['', '?id=', '?id=none']) t.match(await ann.get(`/api/share/get${query}`), unknown)
  t.match(await bob.post('/api/share/update', { id, files: ['/a/docs'] }), unknown)
  t.match(await bob.post('/api/share/list', {}), { data: { content: [], total: 0 } })
  t.match(await admin.get(`/api/share/get?id=${id}`), { code: 200, data: { creator: 'ann' } })
  t.match(await admin.post('/api/share/list', { page: 1, per_page: 1 }), { data: { total: 1, content: [{ id }] } })
  const other = await share(ann, ['/a/docs'])
  t.match(await admin.post(`/api/share/delete?id=${id}`), { code: 200, data: null })
  t.match(await shown(ann, other), { state: 'active' }, 'no other share has ended')
  const { users } = admin.gateway.accounts
  await users.update(users.byUniqueRole('guest')?.id ?? 0, { disabled: false })
  const guest = new Served(admin.url, admin.gateway)
  t.match(await guest.post('/api/share/list', {}), { code: 403, message: 'You are a guest' })
})

void t.test('an admin acts for another user, and is judged as that user', async (t) => {
  const { admin, ann } = await household(t)
  const create = (fields: object) => admin.post('/api/share/create', fields)
  t.match(await create({ files: ['/a/docs'], creator: 'ann', id: 'chosen' }), {
    code: 200,
    data: { creator: 'ann', id: 'chosen' },
  })
  t.match(await create({ files: ['/ab/x'], creator: 'ann' }), {
    code: 500,
    message: 'permission denied to share path [/ab/x]',
  })
  t.match(await create({ files: ['/a/docs'], creator: 'bob' }), denied)
  for (const creator of ['nobody', 'guest']) {
    t.match(await create({ files: ['/a/docs'], creator }), { code: 400, message: 'no such a user' }, creator)
  }
  t.match(await ann.post('/api/share/create', { files: ['/a/docs'], creator: 'admin' }), {
    code: 200,
    data: { creator: 'ann' },
  })
  const update = await admin.post('/api/share/update', { id: 'chosen', files: ['/a/docs'], remark: 'by the admin' })
  t.match(update, { code: 200, data: { creator: 'ann', remark: 'by the admin' } })
  t.match(await admin.post('/api/share/update', { id: 'chosen', files: ['/ab/x'], creator: 'admin' }), {
    code: 200,
    data: { creator: 'admin', files: ['/ab/x'] },
  })
})

void t.test('an update judges new paths, and keeps what is missing or was removed', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/a/docs', '/a/file.txt'])
  t.match(await ann.post('/api/share/update', { id, files: ['/a/docs', '/ab/x'] }), { code: 500 })
  t.match(await shown(ann, id), { files: ['/a/docs', '/a/file.txt'] }, 'nothing has changed')
  await admin.post('/api/fs/remove', { dir: '/a', names: ['file.txt'] })
  await admin.put('/a/file.txt', 'made again')
  const fields = { id, files: ['/a/file.txt', '/a/docs'], remark: 'changed' }
  t.match(await ann.post('/api/share/update', fields), { code: 200, data: { remark: 'changed' } })
  t.same(await new Visitor(ann).names(`/@s/${id}`), ['docs'], 'what was removed is not shared again')
  await ann.post('/api/share/update', { id, files: ['/a/docs'] })
  await ann.post('/api/share/update', { id, files: ['/a/docs', '/a/file.txt'] })
  t.same(await new Visitor(ann).names(`/@s/${id}`), ['docs', 'file.txt'], 'unless its creator shares it anew')
  await admin.post('/api/fs/remove', { dir: '/a', names: ['file.txt'] })
  await admin.put('/a/file.txt', 'for others')
  await admin.grant('ann', '/a/file.txt', { deny: ['share'] })
  const shutNow = await ann.post('/api/share/update', fields)
  t.match(shutNow, { code: 200 }, 'nobody is asked about what has the path of what was removed')
})

void t.test('an update keeps what its user is not shown', async (t) => {
  const { admin, ann } = await household(t)
  const id = await share(ann, ['/a/docs', '/a/file.txt'])
  await admin.post('/api/fs/move', { src_dir: '/a', dst_dir: '/ab', names: ['docs'] })
  const { files } = (await shown(ann, id)) as unknown as { readonly files: readonly string[] }
  t.same(files, ['/a/file.txt'], 'it was moved to a folder of somebody else')
  const changed = await ann.post('/api/share/update', { id, files, remark: 'changed' })
  t.match(changed, { code: 200, data: { files: ['/a/file.txt'], remark: 'changed' } })
  t.match(await shown(admin, id), { files: ['/a/file.txt', '/ab/docs'] })
  await admin.post('/api/fs/move', { src_dir: '/ab', dst_dir: '/a', names: ['docs'] })
  t.same(await new Visitor(ann).names(`/@s/${id}`), ['file.txt', 'docs'], 'it is shared again when it is back')

  await admin.post('/api/fs/move', { src_dir: '/a', dst_dir: '/ab', names: ['docs', 'file.txt'] })
  t.match(await ann.post('/api/share/update', { id, files: [], remark: 'all are away' }), { code: 200 })
  t.match(await shown(admin, id), { files: ['/ab/file.txt', '/ab/docs'], remark: 'all are away' })
  t.match(await admin.post('/api/share/update', { id, files: [] }), {
    code: 400,
    message: 'must add at least 1 object',
  })
  t.match(await admin.post('/api/share/update', { id, files: ['/ab/docs'] }), {
    code: 200,
    data: { files: ['/ab/docs'] },
  })
})

void t.test('an update that does not set the number of visits loses none', async (t) => {
  const { ann } = await household(t)
  const id = await share(ann, ['/a/docs'], { max_accessed: 1 })
  const { accessed: read } = await shown(ann, id)
  t.equal(read, 0)
  await new Visitor(ann).list(`/@s/${id}`)
  const fields = { id, files: ['/a/docs'], max_accessed: 1, remark: 'changed' }
  t.match(await ann.post('/api/share/update', { ...fields, accessed: null }), {
    code: 200,
    data: { accessed: 1, remark: 'changed', state: 'used_up' },
  })
  t.match(await ann.post('/api/share/update', fields), { code: 200, data: { accessed: 0 } }, 'absent fields are reset')
})
