/** Archives of what shares have; and what no answer to a visitor may tell, those about archives included. */
import { Agent, request } from 'node:http'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { localType } from '../../drivers/local/index.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { asPath } from '../../src/base/path.js'
import { serve } from '../protocols/http/served.js'
import { share, Visitor, type Answer } from './visitor.js'

const disk: AnyDriverType = { ...localType, name: 'Disk' }
const admin = await serve(t, '', [disk])
await admin.put('/home/ann/docs/a.txt', 'text of a')
await admin.put('/home/ann/docs/deep/b.txt', 'text of b')
await admin.put('/home/ann/docs/secret.txt', 'secret')
await admin.put('/home/ann/single.txt', 'single')
await admin.put('/home/ann/beside.txt', 'beside')
await admin.post('/api/fs/mkdir', { path: '/home/ann/docs/empty' })
await admin.as('ann', ['share', 'write'], '/home/ann')
const annId = admin.gateway.accounts.users.byName('ann')?.id ?? 0
await admin.rule('/home/ann/docs', { hide: '^secret', hideSub: true })

const docs = ['a.txt', 'deep/', 'deep/b.txt', 'empty/']

function shareOf(roots: readonly string[], fields: object = {}): Promise<string> {
  return share(admin, roots, { creator: 'ann', ...fields })
}

function zip(visitor: Visitor, path: string, fields: Readonly<Record<string, string>> = {}): Promise<Answer> {
  return visitor.ask(`/api/fs/zip?${new URLSearchParams({ path, ...fields }).toString()}`)
}

/** The names in the directory of an archive (APPNOTE.TXT 4.3.12), sorted; or the status of an error. */
function namesIn({ status, bytes }: Answer): readonly string[] | number {
  if (status !== 200) return status
  const records = bytes.toString('latin1').split('PK\u0001\u0002').slice(1)
  return records.map((record) => record.slice(42, 42 + record.charCodeAt(24))).sort()
}

void t.test('an archive has what the share shows, by names below it', async (t) => {
  const id = await shareOf(['/home/ann/docs'])
  const visitor = new Visitor(admin)
  const whole = await zip(visitor, `/@s/${id}`)
  t.same(namesIn(whole), docs)
  t.match(whole.headers.get('content-disposition'), /"docs\.zip"/)
  t.equal(whole.headers.get('referrer-policy'), 'no-referrer')
  t.same(namesIn(await zip(visitor, `/@s/${id}`, { names: 'deep' })), ['deep/', 'deep/b.txt'])
  t.same(namesIn(await zip(visitor, `/@s/${id}/deep`)), ['b.txt'])
  t.same(namesIn(await zip(visitor, `/@s/${id}/deep`, { names: 'b.txt' })), ['b.txt'])
  const body = JSON.stringify({ path: `/@s/${id}`, names: ['a.txt', 'empty'] })
  const posted = await visitor.ask('/api/fs/zip', {
    ...{ method: 'POST', body, headers: { 'content-type': 'application/json', authorization: 'bad' } },
  })
  t.same(namesIn(posted), ['a.txt', 'empty/'])
  t.match(await visitor.ask(`/api/fs/zip?path=/@s/${id}`, { method: 'HEAD' }), { status: 200, text: '' })
  for (const names of ['secret.txt', 'none']) {
    t.equal((await zip(visitor, `/@s/${id}`, { names })).status, 404, names)
  }
  for (const path of [`/@s/${id}/none`, `/@s/${id}/a.txt`, '/@s/none']) {
    t.equal((await zip(visitor, path)).status, 404, path)
  }
  for (const names of ['../beside.txt', '..', 'deep/b.txt', 'deep\\b.txt']) {
    t.equal((await zip(visitor, `/@s/${id}`, { names })).status, 403, names)
  }
  t.equal((await zip(visitor, `/@s/${id}/../x`)).status, 403)
  t.equal((await zip(visitor, '/home/ann')).status, 401, 'the tree is not open to visitors')
})

void t.test('an archive of several roots has these as its folders and files', async (t) => {
  const id = await shareOf(['/home/ann/docs', '/home/ann/single.txt'])
  const visitor = new Visitor(admin)
  t.same(namesIn(await zip(visitor, `/@s/${id}`)), ['docs/', ...docs.map((name) => `docs/${name}`), 'single.txt'])
  t.same(namesIn(await zip(visitor, `/@s/${id}`, { names: 'single.txt' })), ['single.txt'])
  t.same(namesIn(await zip(visitor, `/@s/${id}/docs`, { names: 'empty' })), ['empty/'])
  t.same(namesIn(await zip(visitor, `/@s/${id}`, { names: 'beside.txt' })), 404)
  t.same(namesIn(await zip(visitor, `/@s/${id}/single.txt`)), 404)
  await admin.gateway.grants.replace({ userId: annId }, [
    { path: asPath('/home/ann/single.txt'), allow: [], deny: ['see'] },
  ])
  t.same(namesIn(await zip(visitor, `/@s/${id}`)), ['docs/', ...docs.map((name) => `docs/${name}`)])
  t.same(namesIn(await zip(visitor, `/@s/${id}`, { names: 'single.txt' })), 404)
  await admin.gateway.grants.replace({ userId: annId }, [])
})

void t.test('the code, the mode and the setting are asked, and a link works as long as the share', async (t) => {
  const id = await shareOf(['/home/ann/docs'], { pwd: 'c&d' })
  const visitor = new Visitor(admin)
  t.equal((await zip(visitor, `/@s/${id}`)).status, 403)
  t.equal((await zip(visitor, `/@s/${id}`, { password: 'wrong' })).status, 403)
  t.same(namesIn(await zip(visitor, `/@s/${id}`, { password: 'c&d' })), docs)
  t.match(await visitor.zipLink(`/@s/${id}`), { code: 403, error: 'share_code_wrong' })
  const { data } = await visitor.zipLink(`/@s/${id}`, { names: ['a.txt', 'deep'], password: 'c&d', expires_in: 1 })
  t.equal(data.expires, '0001-01-01T00:00:00Z')
  const link = data.url.slice(admin.url.length)
  t.same(namesIn(await new Visitor(admin).ask(link)), ['a.txt', 'deep/', 'deep/b.txt'])
  await admin.post(`/api/share/disable?id=${id}`)
  t.equal((await new Visitor(admin).ask(link)).status, 410)
  const drop = await shareOf(['/home/ann/docs'], { mode: 'upload' })
  t.equal((await zip(visitor, `/@s/${drop}`)).status, 404)
  t.match(await visitor.zipLink(`/@s/${drop}`), { code: 500, message: 'object not found' })
  await admin.gateway.settings.set(new Map([['package_download', 'false']]))
  t.equal((await zip(visitor, `/@s/${drop}`)).status, 403)
  await admin.gateway.settings.set(new Map([['package_download', 'true']]))
})

void t.test('no answer tells where a file is, nor how to get it without the share', async (t) => {
  const folder = t.testdir()
  await mkdir(join(folder, 'open'))
  await writeFile(join(folder, 'beside.txt'), 'beside')
  await writeFile(join(folder, 'open', 'in.txt'), 'in')
  await symlink('../beside.txt', join(folder, 'open', 'out.txt'))
  await symlink('/etc', join(folder, 'open', 'etc'))
  const addition = JSON.stringify({ root_folder_path: folder })
  t.match(await admin.mount('/home/ann/disk', 'Disk', { addition }), { code: 200 })
  await admin.mount('/home/ann/docs/vault', 'Broken', { addition: '{"reason":"host nas.internal is down"}' })
  const visitor = new Visitor(admin)
  const ids = [
    await shareOf(['/home/ann/disk/open']),
    await shareOf(['/home/ann/disk/open'], { mode: 'both', upload_max_bytes: 30 }),
    await shareOf(['/home/ann/disk/open'], { mode: 'upload', pwd: 'code' }),
    await shareOf(['/home/ann/docs', '/home/ann/disk/open'], { mode: 'both' }),
    await shareOf(['/home/ann/docs', '/home/ann/single.txt']),
  ]
  const headers = { password: 'code' }
  for (const id of ids) {
    for (const sub of [
      '',
      '/in.txt',
      '/out.txt',
      '/etc',
      '/none/x',
      '/docs',
      '/docs/vault',
      '/docs/vault/x',
      '/new.txt',
    ]) {
      await visitor.list(`/@s/${id}${sub}`, headers)
      await visitor.get(`/@s/${id}${sub}`, headers)
      await zip(visitor, `/@s/${id}${sub}`, headers)
      await zip(visitor, `/@s/${id}`, { names: sub.slice(1), ...headers })
      await visitor.zipLink(`/@s/${id}${sub}`, headers)
      await visitor.ask(`/sd/${id}${sub}?pwd=code`)
      await visitor.ask(`/sd/${id}${sub}?pwd=code&type=thumb`)
      await visitor.put(`/@s/${id}${sub}`, 'by a visitor', headers)
      await visitor.mkdir(`/@s/${id}${sub}`, headers)
      await visitor.ask(`/sd/${id}${sub}?pwd=code`, { method: 'PUT', body: 'by a visitor' })
    }
  }
  const told = visitor.told.join('\n')
  t.ok(told.includes('in (1).txt') && told.includes('new (1).txt'), 'it was told of files')
  for (const secret of [
    '/home',
    '/ann',
    '"ann',
    '/d/',
    '/p/',
    'sign=',
    'nas.internal',
    'Broken',
    'Disk',
    folder,
    'beside',
    'passwd',
  ]) {
    t.notOk(told.includes(secret), secret)
  }
})

void t.test('what one request has proved on a connection opens nothing for the next', async (t) => {
  const open = await shareOf(['/home/ann/docs'], { max_accessed: 1 })
  const other = await shareOf(['/home/ann/single.txt'])
  const closed = await shareOf(['/home/ann/single.txt'], { pwd: 'code' })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ports = new Set<number | undefined>()
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const body = JSON.stringify({ path })
    const all = { 'content-type': 'application/json', 'content-length': body.length, ...headers }
    const sent = request(`${admin.url}/api/fs/list`, { method: 'POST', agent, headers: all })
    const answer = new Promise<string>((resolve, reject) => {
      sent.on('error', reject).on('response', (response) => {
        ports.add(response.socket.localPort)
        void text(response).then(resolve, reject)
      })
    })
    sent.end(body)
    return JSON.parse(await answer) as { readonly code: number; readonly error?: string }
  }
  t.match(await ask(`/@s/${open}`, { 'user-agent': 'one' }), { code: 200 })
  t.match(
    await ask(`/@s/${open}`, { 'user-agent': 'two' }),
    { error: 'share_ended' },
    'the visit is that of one client',
  )
  t.match(await ask(`/@s/${other}`), { error: 'not_folder' }, 'the other share, which is a file')
  t.match(await ask(`/@s/${closed}`, { password: 'code' }), { error: 'not_folder' })
  t.match(await ask(`/@s/${closed}`), { error: 'share_code_wrong' })
  t.match(await ask('/'), { code: 401 }, 'the guest is disabled')
  t.match(await ask('/', { authorization: admin.token }), { code: 200 })
  t.match(await ask('/'), { code: 401 })
  const { users } = admin.gateway.accounts
  await users.update(users.byUniqueRole('guest')?.id ?? 0, { disabled: false, basePath: asPath('/home') })
  t.match(await ask('/'), { code: 200 }, 'the guest has its own tree')
  t.match(await ask(`/@s/${closed}`), { error: 'share_code_wrong' })
  t.match(await ask(`/@s/${open}`, { 'user-agent': 'one' }), { code: 200 })
  t.match(await ask('/ann/docs/secret.txt'), { code: 403 }, 'the guest does not see as the visitor does')
  t.equal(ports.size, 1, 'it was one connection')
})
