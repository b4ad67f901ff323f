/** What visitors of shares may add and change, over HTTP, and how much of it. */
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { permissionBits, type ProtocolFacts } from '../../src/accounts/principal.js'
import { asPath, foldCase } from '../../src/base/path.js'
import { byteSource } from '../../src/contract/sources.js'
import { numbered } from '../../src/shares/shared-tree.js'
import { serve } from '../protocols/http/served.js'
import { until } from '../until.js'
import { absent, ended, share, shown, Visitor } from './visitor.js'

const permissions = ['share', 'write', 'rename', 'move', 'remove'] as const
const admin = await serve(t)
await admin.as('ann', permissions, '/home/ann')
const { gateway } = admin
const annId = gateway.accounts.users.byName('ann')?.id ?? 0
const all = permissions.reduce((sum, each) => sum | permissionBits[each], 0)

const notWritable = { code: 403, message: 'visitors may not change this', error: 'share_not_writable', data: null }
const full = { code: 507, message: 'the limits of the share do not allow this upload', error: 'share_full' }
const stored = (name: string) => ({ code: 200, data: { name } })

let folders = 0

function shareOf(roots: readonly string[], mode: string, fields: object = {}): Promise<string> {
  return share(admin, roots, { creator: 'ann', mode, ...fields })
}

/** A new folder of ann, which has files, and a share of it. */
async function shared(mode: string, fields: object = {}): Promise<{ readonly folder: string; readonly id: string }> {
  const folder = `/home/ann/f${++folders}`
  await admin.put(`${folder}/a.txt`, 'text of a')
  await admin.put(`${folder}/sub/b.txt`, 'text of b')
  return { folder, id: await shareOf([folder], mode, fields) }
}

/** An upload to a share of mode `upload`, whose body has begun to arrive. */
async function slowUpload(folder: string, id: string, headers: Readonly<Record<string, string | number>> = {}) {
  const path = `/@s/${id}/slow.bin`
  const sent = request(`${admin.url}/api/fs/put`, { method: 'PUT', headers: { 'file-path': path, ...headers } })
  const answer = new Promise<string>((resolve, reject) => {
    sent.on('response', (response) => void text(response).then(resolve, reject)).on('error', reject)
  })
  // It is awaited after something else.
  answer.catch(() => undefined)
  sent.write('some')
  const claimed = foldCase(`${folder}/slow.bin`)
  t.ok(await until(() => gateway.store.shareUploads.isClaimed(claimed)), 'the upload has begun')
  return {
    sent,
    claimed,
    finish: async () => {
      sent.end(' more')
      return JSON.parse(await answer) as { readonly code: number; readonly message: string; readonly error?: string }
    },
  }
}

void t.test('files are added by names that are free, and nothing is replaced, listed or read', async (t) => {
  const { folder, id } = await shared('upload')
  const visitor = new Visitor(admin)
  t.match(await visitor.put(`/@s/${id}/new.txt`, 'new'), stored('new.txt'))
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'first'), stored('a (1).txt'))
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'second'), stored('a (2).txt'))
  t.match(await visitor.put(`/@s/${id}/sub`, 'a file'), stored('sub (1)'), 'a folder has a name too')
  t.match(await visitor.put(`/@s/${id}/empty`, '', { overwrite: 'true' }), stored('empty'))
  t.equal(await admin.content(`${folder}/a.txt`), 'text of a')
  t.equal(await admin.content(`${folder}/a (2).txt`), 'second')
  t.same(await visitor.names(`/@s/${id}`), [])
  for (const name of ['new.txt', 'a (1).txt', 'a.txt']) {
    t.match(await visitor.get(`/@s/${id}/${name}`), absent, name)
    t.match(await visitor.ask(`/sd/${id}/${encodeURIComponent(name)}`), { status: 404 }, name)
  }
  t.match(await shown(admin, id), { uploaded_files: 5, uploaded_bytes: 'newfirstseconda file'.length })
  t.notMatch(visitor.told.join('\n'), /home|etag/i)
})

void t.test('what an upload to a drop box cannot be', async (t) => {
  const { folder, id } = await shared('upload')
  const visitor = new Visitor(admin)
  const before = await admin.names(folder)
  const folderless = { code: 400, message: 'files are uploaded to this share by a name, without folders' }
  for (const path of ['sub/c.txt', 'other/c.txt', 'a.txt/c.txt']) {
    t.match(await visitor.put(`/@s/${id}/${path}`, 'x'), folderless, path)
    t.match(await visitor.ask(`/sd/${id}/${path}`, { method: 'PUT', body: 'x' }), { status: 400 }, path)
  }
  const relative = { code: 403, message: 'using relative path is not allowed' }
  for (const path of ['../c.txt', 'sub/../../c.txt', '..\\c.txt', 'a\\b']) {
    t.match(await visitor.put(`/@s/${id}/${path}`, 'x'), relative, path)
  }
  t.match(await visitor.ask(`/sd/${id}/a%5cb`, { method: 'PUT', body: 'x' }), { status: 403 })
  for (const path of ['/@s', `/@s/${id}`]) t.match(await visitor.put(path, 'x'), { code: 401 }, 'a path of the tree')
  t.match(await visitor.put('/@s/none/x', 'x'), { error: 'share_missing' })
  t.match(await visitor.put(`/@s/${id}/x\u0001`, 'x'), { code: 400, error: 'invalid' })
  t.match(await visitor.put(`/@s/${id}/x`, 'x', { 'as-task': 'true' }), { message: 'uploads to a share are no tasks' })
  t.match(await visitor.put(`/@s/${id}/x`, 'x', { 'content-range': 'bytes 0-0/9' }), { code: 400 })
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'x', { 'if-match': '*' }), { code: 412 }, 'tells not what exists')
  t.match(await visitor.put(`/@s/${id}/none`, 'x', { 'if-match': '*' }), { code: 412 })
  t.match(await visitor.mkdir(`/@s/${id}/made`), notWritable)
  const init = { 'file-path': `/@s/${id}/x`, 'x-file-size': '9' }
  const chunks = await visitor.ask('/api/fs/multipart/init', { method: 'POST', headers: init })
  t.match(JSON.parse(chunks.text), { code: 400, message: 'a file is uploaded to a share in one request' })
  t.same(await admin.names(folder), before)
  t.match(await shown(admin, id), { uploaded_files: 0, uploaded_bytes: 0 })
  t.match(await admin.post('/api/share/create', { files: ['/home/ann/f1', '/home/ann/f2'], mode: 'upload' }), {
    code: 400,
    message: 'a share to upload to is one folder',
  })
})

void t.test('of uploads of one name at once each gets a name of its own, also by two shares', async (t) => {
  const { folder, id } = await shared('upload')
  const other = await shareOf([folder], 'upload')
  const visitors = Array.from({ length: 20 }, (_, number) => new Visitor(admin, { agent: `browser ${number}` }))
  const answers = await Promise.all(
    visitors.map((visitor, number) => visitor.put(`/@s/${number % 2 === 0 ? id : other}/a.txt`, `by ${number}`)),
  )
  const names = answers.map(({ data }) => data?.name ?? '')
  t.same([...names].sort(), Array.from({ length: 20 }, (_, number) => `a (${number + 1}).txt`).sort())
  for (const [number, name] of names.entries()) t.equal(await admin.content(`${folder}/${name}`), `by ${number}`)
  t.equal(await admin.content(`${folder}/a.txt`), 'text of a')
})

void t.test('a name that its creator makes while the file arrives is not replaced', async (t) => {
  const { folder, id } = await shared('upload')
  const slow = await slowUpload(folder, id)
  await admin.put(`${folder}/slow.bin`, 'of ann')
  t.match(await slow.finish(), { code: 503, error: 'busy' })
  t.equal(await admin.content(`${folder}/slow.bin`), 'of ann')
  t.notOk(await gateway.store.shareUploads.isClaimed(slow.claimed))
  t.match(await new Visitor(admin).put(`/@s/${id}/slow.bin`, 'again'), stored('slow (1).bin'))
})

void t.test('new names keep the extension, and fit', (t) => {
  t.equal(numbered('a.tar.gz', 2), 'a.tar (2).gz')
  t.equal(numbered('.profile', 1), '.profile (1)')
  t.equal(numbered('noext', 12), 'noext (12)')
  t.equal(numbered(`${'é'.repeat(126)}.ab`, 1), `${'é'.repeat(124)} (1).ab`)
  t.equal(numbered(`a.${'x'.repeat(253)}`, 1), `a.${'x'.repeat(249)} (1)`)
  t.end()
})

void t.test('curl and forms upload to the URL of a share', async (t) => {
  const { folder, id } = await shared('upload', { pwd: 'code' })
  const visitor = new Visitor(admin, { cookies: false })
  const put = (target: string, headers: Record<string, string> = {}) =>
    visitor.ask(`/sd/${id}${target}`, { method: 'PUT', body: 'curl', headers })
  t.match(await put('/a.txt?pwd=code'), { status: 201, text: 'a (1).txt\n' })
  t.match(await put('/%C3%A9%20b.txt', { password: 'code' }), { status: 201, text: 'é b.txt\n' })
  t.match(await put('/x'), { status: 403 })
  t.match(await put('/x?pwd=wrong'), { status: 403 })
  t.match(await put('/?pwd=code'), { status: 400 })
  t.match(await put('/x?pwd=code', { 'content-range': 'bytes 0-3/9' }), { status: 400 })
  const form = new FormData()
  form.append('text', 'ignored')
  form.append('file', new Blob(['one']), 'form.txt')
  form.append('file', new Blob(['two']), 'form.txt')
  form.append('file', new Blob([]), '')
  t.match(await visitor.ask(`/sd/${id}?pwd=code`, { method: 'POST', body: form }), {
    status: 201,
    text: 'form.txt\nform (1).txt\n',
  })
  const none = new FormData()
  none.append('text', 'x')
  t.match(await visitor.ask(`/sd/${id}?pwd=code`, { method: 'POST', body: none }), { status: 400 })
  const path = new FormData()
  path.append('file', new Blob(['x']), '../a.txt')
  const named = await visitor.ask(`/sd/${id}?pwd=code`, { method: 'POST', body: path })
  t.match(named, { status: 201, text: 'a (2).txt\n' }, 'as of browsers that send a path')
  const api = new FormData()
  api.append('file', new Blob(['three']), 'ignored')
  const headers = { 'file-path': `/@s/${id}/form.txt`, password: 'code' }
  const answer = await visitor.ask('/api/fs/form', { method: 'PUT', body: api, headers })
  t.match(JSON.parse(answer.text), stored('form (2).txt'))
  t.equal(await admin.content(`${folder}/form (1).txt`), 'two')
  t.match(await new Visitor(admin).put(`/@s/${id}/x`, 'x'), { code: 403, error: 'share_code_wrong' })
  t.match(await new Visitor(admin).put(`/@s/${id}/x`, 'x', { password: 'code', authorization: 'bad' }), { code: 200 })
  t.equal((await admin.names(folder)).length, 9)
  t.match(await visitor.ask('/d/x', { method: 'PUT', body: 'x' }), { status: 405 })
})

void t.test('in a share to read and upload to, files are replaced, and folders made', async (t) => {
  const { folder, id } = await shared('both')
  const visitor = new Visitor(admin)
  t.match(await visitor.list(`/@s/${id}`), { data: { total: 2, write: true, rights: ['write'] } })
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'replaced'), stored('a.txt'))
  t.equal(await visitor.content(`/@s/${id}/a.txt`), 'replaced')
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'x', { overwrite: 'false' }), { code: 403, error: 'exists' })
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'x', { 'if-none-match': '*' }), { code: 412 })
  t.match(await visitor.put(`/@s/${id}/new/deep/c.txt`, 'c'), stored('c.txt'))
  t.match(await visitor.put(`/@s/${id}/sub`, 'x'), { code: 500, error: 'is_folder' })
  t.match(await visitor.mkdir(`/@s/${id}/made/too`), { code: 200, data: null })
  t.match(await visitor.mkdir(`/@s/${id}/a.txt`), { code: 500, message: 'file exists' })
  t.match(await visitor.mkdir(`/@s/${id}`), { code: 401 })
  t.same((await admin.names(folder)).sort(), ['a.txt', 'made', 'new', 'sub'])
  const put = await visitor.ask(`/sd/${id}/new/deep/d.txt`, { method: 'PUT', body: 'd' })
  t.match(put, { status: 201, text: 'd.txt\n' })
  t.equal(put.headers.get('location'), `${admin.url}/sd/${id}/new/deep/d.txt`)
  t.match(await visitor.ask(`/sd/${id}/new/deep/d.txt`, { method: 'PUT', body: 'dd' }), { status: 200 })
  t.match(await shown(admin, id), { uploaded_files: 6, uploaded_bytes: 'replacedcddd'.length }, 'with folders')

  const open = await gateway.visitorAccess.open(id, {
    ...{ protocol: http, address: '127.0.0.1', userAgent: 'test', code: '', cookie: undefined, begins: true },
  })
  const place = open.at(asPath('/a.txt'))
  if (place.kind !== 'entry') throw new Error('no entry')
  const { fs } = place
  for (const change of [
    fs.remove(asPath('/a.txt')),
    fs.move(asPath('/a.txt'), asPath('/b.txt'), { overwrite: false }),
    fs.move(asPath('/a.txt'), asPath('/sub/a.txt'), { overwrite: true }),
    fs.setProperties(asPath('/a.txt'), [{ set: { namespace: 'urn:z', name: 'note', value: '', language: '' } }]),
  ]) {
    await t.rejects(Promise.resolve<unknown>(change), { code: 'denied' })
  }
  for (const change of [
    fs.open(asPath('/h.txt'), 'replace'),
    fs.reserve(asPath('/h.txt')),
    fs.symlink(asPath('/h.txt'), 'a.txt'),
    fs.hardLink(asPath('/a.txt'), asPath('/h.txt')),
  ]) {
    await t.rejects(Promise.resolve<unknown>(change), { code: 'unsupported' })
  }
})

const http: ProtocolFacts = { name: 'http', appPasswords: false }

void t.test('nothing is changed in a share to read, beside several roots, or where the creator may not', async (t) => {
  const { folder, id } = await shared('read')
  const visitor = new Visitor(admin)
  t.match(await visitor.put(`/@s/${id}/x`, 'x'), notWritable)
  t.match(await visitor.mkdir(`/@s/${id}/x`), notWritable)
  t.match(await visitor.ask(`/sd/${id}/x`, { method: 'PUT', body: 'x' }), { status: 403 })
  const second = await shared('read')
  const pair = await shareOf([folder, second.folder], 'both')
  t.match(await visitor.list(`/@s/${pair}`), { data: { write: false, rights: [] } })
  t.match(await visitor.put(`/@s/${pair}/x`, 'x'), absent, 'there is no such root')
  const [, name = ''] = /([^/]+)$/.exec(folder) ?? []
  t.match(await visitor.put(`/@s/${pair}/${name}`, 'x'), notWritable, 'a root is not replaced')
  t.match(await visitor.put(`/@s/${pair}/${name}/x`, 'x'), stored('x'))

  const both = await shareOf([folder], 'both')
  await gateway.grants.replace({ userId: annId }, [{ path: asPath(`${folder}/sub`), allow: [], deny: ['write'] }])
  t.match(await visitor.list(`/@s/${both}/sub`), { data: { write: false, rights: [] } })
  t.match(await visitor.put(`/@s/${both}/sub/x`, 'x'), notWritable)
  t.match(await visitor.mkdir(`/@s/${both}/sub/x/y`), notWritable)
  await gateway.grants.replace({ userId: annId }, [{ path: asPath(folder), allow: [], deny: ['write'] }])
  const drop = await shareOf([second.folder], 'upload')
  await gateway.grants.replace({ userId: annId }, [{ path: asPath(second.folder), allow: [], deny: ['write'] }])
  t.match(await visitor.put(`/@s/${drop}/x`, 'x'), notWritable)
  await gateway.grants.replace({ userId: annId }, [])
  t.same(await admin.names(second.folder), ['sub', 'a.txt'])
})

void t.test('the limits hold for all uploads together, and give back what was not stored', async (t) => {
  const { folder, id } = await shared('both', { upload_max_bytes: 20, upload_max_files: 3 })
  const visitor = new Visitor(admin)
  t.match(await visitor.put(`/@s/${id}/long`, 'x'.repeat(21)), full)
  const sha256 = createHash('sha256').update('other').digest('hex')
  const wrong = { code: 400, message: 'the content does not have the announced sha256' }
  t.match(await visitor.put(`/@s/${id}/wrong`, 'x'.repeat(20), { 'x-file-sha256': sha256 }), wrong)
  t.match(await visitor.put(`/@s/${id}/one`, 'x'.repeat(8)), { code: 200 })
  t.match(await visitor.put(`/@s/${id}/two`, ''), { code: 200 })
  t.match(await visitor.put(`/@s/${id}/three`, ''), { code: 200 })
  t.match(await visitor.put(`/@s/${id}/four`, ''), full, 'no more files')
  t.match(await visitor.put(`/@s/${id}/one`, 'x'.repeat(12)), { code: 200 }, 'the same file again')
  t.match(await visitor.put(`/@s/${id}/one`, 'x'), full, 'no more bytes')
  const form = new FormData()
  form.append('file', new Blob(['x']), 'x')
  t.match(await visitor.ask(`/sd/${id}`, { method: 'POST', body: form }), { status: 507 })
  t.match(await shown(admin, id), { uploaded_files: 3, uploaded_bytes: 20 })
  t.same((await admin.names(folder)).sort(), ['a.txt', 'one', 'sub', 'three', 'two'])
  t.match(await admin.post('/api/share/update', { id, files: [folder], upload_max_bytes: 25 }), { code: 200 })
  t.match(await visitor.put(`/@s/${id}/one`, 'xxxxx'), { code: 200 }, 'a limit can be raised')
})

void t.test('of uploads at once exactly as many are stored as the limits allow', async (t) => {
  const { id } = await shared('upload', { upload_max_bytes: 55, upload_max_files: 0 })
  const files = (await shared('upload', { upload_max_files: 4 })).id
  const put = (share: string, number: number) =>
    new Visitor(admin, { agent: `browser ${number}` }).put(`/@s/${share}/x`, 'ten bytes.')
  const numbers = Array.from({ length: 12 }, (_, number) => number)
  const [bytesOf, filesOf] = await Promise.all(
    [id, files].map((share) => Promise.all(numbers.map((number) => put(share, number)))),
  )
  t.same(bytesOf?.map(({ code }) => code).sort(), [...Array<number>(5).fill(200), ...Array<number>(7).fill(507)])
  t.same(filesOf?.map(({ code }) => code).sort(), [...Array<number>(4).fill(200), ...Array<number>(8).fill(507)])
  t.match(await shown(admin, id), { uploaded_files: 5, uploaded_bytes: 50 })
  t.match(await shown(admin, files), { uploaded_files: 4, uploaded_bytes: 40 })
})

void t.test('a body without a length stops at the limit, and one that is cut gives all back', async (t) => {
  const { folder, id } = await shared('upload', { upload_max_bytes: 10 })
  const slow = await slowUpload(folder, id)
  t.match(await new Visitor(admin).put(`/@s/${id}/x`, 'x'.repeat(7)), full, 'the first may need what is left')
  t.match(await slow.finish(), { code: 200 })
  const second = await shared('upload', { upload_max_bytes: 8 })
  t.match(await (await slowUpload(second.folder, second.id)).finish(), full)
  const third = await shared('upload', { upload_max_bytes: 100 })
  const cut = await slowUpload(third.folder, third.id, { 'content-length': 100 })
  cut.sent.destroy()
  t.ok(await until(async () => !(await gateway.store.shareUploads.isClaimed(cut.claimed))))
  t.match(await new Visitor(admin).put(`/@s/${third.id}/x`, 'x'.repeat(100)), { code: 200 })
  t.match(await shown(admin, third.id), { uploaded_files: 1, uploaded_bytes: 100 })
})

void t.test('an upload that is running ends with what permits it, and stores nothing', async (t) => {
  const { users } = gateway.accounts
  const base = asPath('/home/ann')
  const cases: readonly [string, (folder: string, id: string) => Promise<unknown>, object][] = [
    ['the account is disabled', () => users.update(annId, { disabled: true }), ended],
    ['the right to share is taken', () => users.update(annId, { permission: all & ~permissionBits.share }), ended],
    ['the right to write is taken', () => users.update(annId, { permission: all & ~permissionBits.write }), ended],
    ['the base folder is another one', () => users.update(annId, { basePath: asPath('/home/ann/none') }), ended],
    [
      'a grant denies to write',
      (folder) => gateway.grants.replace({ userId: annId }, [{ path: asPath(folder), allow: [], deny: ['write'] }]),
      notWritable,
    ],
    ['the share is disabled', (_, id) => admin.post(`/api/share/disable?id=${id}`), ended],
    ['the share is deleted', (_, id) => admin.post(`/api/share/delete?id=${id}`), ended],
    [
      'the folder is renamed, and made again',
      async (folder) => {
        await admin.post('/api/fs/rename', { path: folder, name: `${folder.slice(base.length + 1)} renamed` })
        await admin.post('/api/fs/mkdir', { path: folder })
      },
      ended,
    ],
    [
      'the folder is removed, and made again',
      async (folder) => {
        await admin.post('/api/fs/remove', { dir: base, names: [folder.slice(base.length + 1)] })
        await admin.post('/api/fs/mkdir', { path: folder })
      },
      ended,
    ],
  ]
  for (const [name, change, refusal] of cases) {
    const { folder, id } = await shared('upload', { upload_max_files: 1 })
    const slow = await slowUpload(folder, id)
    await change(folder, id)
    t.match(await slow.finish(), refusal, name)
    await users.update(annId, { disabled: false, permission: all, basePath: base })
    await gateway.grants.replace({ userId: annId }, [])
    t.notOk((await admin.names(folder)).includes('slow.bin'), name)
    t.ok(await until(async () => !(await gateway.store.shareUploads.isClaimed(slow.claimed))), `${name}: given back`)
  }
})

void t.test('an upload does not make the folder of a share again', async (t) => {
  const { folder, id } = await shared('both')
  const visitor = new Visitor(admin)
  await visitor.list(`/@s/${id}`)
  // As another program does it.
  const open = await gateway.visitorAccess.open(id, {
    ...{ protocol: http, address: '127.0.0.1', userAgent: 'browser', code: '', cookie: undefined, begins: true },
  })
  await admin.post('/api/fs/remove', { dir: '/home/ann', names: [folder.slice('/home/ann/'.length)] })
  await t.rejects(open.write(asPath('/sub/x'), byteSource(Buffer.from('x')), {}), { code: /unauthenticated|not_found/ })
  t.match(await visitor.put(`/@s/${id}/sub/x`, 'x'), ended)
  t.notOk((await admin.names('/home/ann')).includes(folder.slice('/home/ann/'.length)))
})

void t.test('a hidden name, and one that the settings exclude', async (t) => {
  const { folder, id } = await shared('upload')
  const visitor = new Visitor(admin)
  await admin.rule(folder, { hide: '^secret', hideSub: true })
  t.match(await visitor.put(`/@s/${id}/secret.txt`, 'x'), notWritable)
  t.match(await visitor.put(`/@s/${id}/a.txt`, 'x'), stored('a (1).txt'))
  await admin.grant('ann', `${folder}/closed.txt`, { deny: ['see'] })
  t.match(await visitor.put(`/@s/${id}/closed.txt`, 'x'), stored('closed (1).txt'), 'as for a name that is taken')
  await gateway.grants.replace({ userId: annId }, [])
  await gateway.settings.set(new Map([['ignore_system_files', 'true']]))
  t.match(await visitor.put(`/@s/${id}/.DS_Store`, 'x'), { code: 403, error: 'system_file' })
  await gateway.settings.set(new Map([['ignore_system_files', 'false']]))
})
