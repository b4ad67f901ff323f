/** Files that a grant lets the user see and not read: no response of HTTP gives their content, or a way to it. */
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { localType } from '../../../../drivers/local/index.js'
import { asPath } from '../../../../src/base/path.js'
import type { FileObject } from '../../../../protocols/http/compat/object.js'
import { serve, type Served } from '../served.js'
import type { Test } from '../../../tree/tree-fixture.js'

const skip = process.platform === 'win32' && 'symlinks need a privilege'

type Details = FileObject & { readonly raw_url: string; readonly related: readonly FileObject[] | null }

/** In /m: `open` with a photo, and with symlinks to it and to the one in `shut`, which ann may see and not read. */
async function staged(t: Test & Parameters<typeof serve>[0]): Promise<{ admin: Served; ann: Served }> {
  const admin = await serve(t, '', [{ ...localType, name: 'Disk' }])
  const folder = join(t.testdir(), 'local')
  for (const name of ['open', 'shut']) {
    await mkdir(join(folder, name), { recursive: true })
    await writeFile(join(folder, name, 'photo.png'), name)
  }
  await writeFile(join(folder, 'shut/photo.txt'), 'beside')
  await symlink('photo.png', join(folder, 'open/own.png'))
  await symlink('../shut/photo.png', join(folder, 'open/link.png'))
  await symlink('../shut', join(folder, 'open/way'))
  await admin.mount('/m', 'Disk', { addition: JSON.stringify({ root_folder_path: folder, thumbnail: true }) })
  const ann = await admin.as('ann', [])
  await admin.grant('ann', '/m/shut', { deny: ['read'] })
  return { admin, ann }
}

async function listed(served: Served, path: string): Promise<ReadonlyMap<string, FileObject>> {
  const { data } = await served.post('/api/fs/list', { path })
  return new Map((data as { content: FileObject[] }).content.map((object) => [object.name, object]))
}

void t.test('lists and details have no signature and no URL', { skip }, async (t) => {
  const { admin, ann } = await staged(t)
  const urls = (object: FileObject | undefined) => [object?.sign !== '', object?.thumb !== '']
  for (const path of ['/m/shut', '/m/open/way']) {
    const shut = await listed(ann, path)
    t.same([...shut.keys()].sort(), ['photo.png', 'photo.txt'])
    t.equal(shut.get('photo.png')?.size, 4, 'it is seen')
    t.equal(shut.get('photo.png')?.unreadable, true)
    t.same(urls(shut.get('photo.png')), [false, false], path)
  }
  const forOthers = (await listed(admin, '/m/shut')).get('photo.png')
  t.same(urls(forOthers), [true, true], 'others have them')
  t.notOk(forOthers && 'unreadable' in forOthers)
  const open = await listed(ann, '/m/open')
  t.same(urls(open.get('photo.png')), [true, true])
  t.same(urls(open.get('own.png')), [true, true], 'a symlink to what is readable')
  t.same(urls(open.get('link.png')), [false, false], 'a symlink to what is not')

  for (const path of ['/m/shut/photo.png', '/m/open/link.png', '/m/open/way/photo.png']) {
    const { code, data } = await ann.post('/api/fs/get', { path })
    const details = data as Details
    t.same([code, details.raw_url, details.unreadable, ...urls(details)], [200, '', true, false, false], path)
    t.same(details.related?.filter(({ sign }) => sign !== '').map(({ name }) => name) ?? [], [], path)
  }
  const { data } = await ann.post('/api/fs/get', { path: '/m/open/own.png' })
  t.equal(await (await fetch((data as Details).raw_url)).text(), 'open')
})

void t.test('a file that is denied to somebody has a signature for everybody else', { skip }, async (t) => {
  const { admin } = await staged(t)
  await admin.post('/api/admin/setting/save', [{ key: 'sign_all', value: 'false' }])
  t.equal((await listed(admin, '/m/open')).get('photo.png')?.sign, '', 'nothing in this folder is denied')
  await admin.grant('ann', '/m/open/photo.png', { deny: ['read'] })
  const sign = (await listed(admin, '/m/open')).get('photo.png')?.sign ?? ''
  t.equal((await fetch(`${admin.url}/d/m/open/photo.png?sign=${sign}`)).status, 200)
  const { data } = await admin.post('/api/fs/get', { path: '/m/open/photo.png' })
  t.equal((await fetch((data as Details).raw_url)).status, 200)
})

void t.test('a listing tells what the user may do with the entries of the folder', async (t) => {
  const admin = await serve(t)
  for (const path of ['/a/b', '/a/ruled']) await admin.post('/api/fs/mkdir', { path })
  const ann = await admin.as('ann', ['rename', 'copy'])
  const rightsOf = async (path: string, password = '') => {
    const { data } = await ann.post('/api/fs/list', { path, password })
    return (data as { rights: readonly string[] }).rights
  }
  t.same(await rightsOf('/a'), ['rename', 'copy'], 'by permissions')
  await admin.grant('ann', '/a', { allow: ['write', 'remove'], deny: ['copy'] })
  t.same(await rightsOf('/a'), ['write', 'rename', 'remove'], 'by the grants, and by permissions where none says it')
  t.same(await rightsOf('/'), ['rename', 'copy'])
  await admin.post('/api/admin/meta/create', { path: '/a/ruled', write_users: [1], write_users_sub: true })
  t.same(await rightsOf('/a/ruled'), [], 'a rule closes what a grant opens')
  await admin.post('/api/admin/meta/create', { path: '/a/b', password: 'secret', p_sub: true })
  t.same(await rightsOf('/a/b', 'secret'), ['write', 'rename', 'remove'], 'with the password of the folder')
})

void t.test('no link is made', { skip }, async (t) => {
  const { admin, ann } = await staged(t)
  const denied = { code: 403, data: null }
  for (const path of ['/m/shut/photo.png', '/m/open/link.png', '/m/open/way/photo.png']) {
    t.match(await ann.post('/api/fs/share_link', { path }), { ...denied, message: 'permission denied' }, path)
    t.match(await admin.post('/api/fs/share_link', { path }), { code: 200 })
  }
  t.match(await ann.post('/api/fs/share_link', { path: '/m/open/own.png' }), { code: 200 })
  t.match(await ann.post('/api/fs/zip_link', { path: '/m', names: ['shut'] }), denied)
  t.match(await ann.post('/api/fs/zip_link', { path: '/m/shut', names: ['photo.png'] }), denied)
  t.match(await ann.post('/api/fs/zip_link', { path: '/m/open', names: ['photo.png'] }), { code: 200 })
})

void t.test('the URL of a symlink opens nothing that a grant denies', { skip }, async (t) => {
  const { admin } = await staged(t)
  await admin.post('/api/admin/setting/save', [{ key: 'sign_all', value: 'false' }])
  const status = async (path: string, query = '') => (await fetch(`${admin.url}${path}${query}`)).status
  for (const way of ['/d', '/p']) {
    t.equal(await status(`${way}/m/open/own.png`), 200)
    t.equal(await status(`${way}/m/open/link.png`), 403)
    t.equal(await status(`${way}/m/open/link.png`, '?type=thumb'), 403)
    t.equal(await status(`${way}/m/open/way/photo.png`), 403)
    t.equal(await status(`${way}/m/shut/photo.png`), 401)
    const sign = admin.gateway.signedUrls.sign(asPath('/m/shut/photo.png'))
    t.equal(await status(`${way}/m/shut/photo.png`, `?sign=${sign}`), 200, 'a signature is a capability')
  }
})
