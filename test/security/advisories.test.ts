/**
 * Defects of other servers of this API that gave users what they may not have, as tests of what holds here. Most were
 * found where only the path of the request was asked. Tested elsewhere:
 *
 * | defect                                                         | test                                            |
 * | -------------------------------------------------------------- | ----------------------------------------------- |
 * | an empty permanent token makes everybody an admin              | `security/tokens.test.ts`                       |
 * | clients lock out others, or nobody, by a header                | `security/sign-in.test.ts`                      |
 * | one's own sign-in resets the failures of an address            | `accounts/limiter.test.ts`                      |
 * | a revoked token works again after a change of its user         | `security/tokens.test.ts`                       |
 * | a user without a password signs in with an empty one           | `protocols/http/routes/admin-user.test.ts`      |
 * | a blank line hides everything, a slow pattern blocks           | `tree/folder-rules.test.ts`                     |
 * | a folder password protects the listing and not the files       | `protocols/http/contract-rules.test.ts`         |
 * | a nested rule is not asked when its folder is removed or moved | `security/removal.test.ts`                      |
 * | a rename takes the rule off a folder                           | `tree/changes.test.ts`, `tree/grants.test.ts`   |
 * | an empty name or `.` acts on the folder itself                 | `protocols/http/routes/change.test.ts`          |
 * | a name with a backslash leaves the folder                      | `security/names.test.ts`                        |
 * | one path is checked and another one is used                    | `security/paths.test.ts`                        |
 * | a bulk rename overwrites                                       | `protocols/http/routes/bulk-change.test.ts`     |
 * | a move of a mount point empties the storage                    | `tree/mount-points.test.ts`                     |
 * | symlinks lead out of a local folder                            | `drivers/local/escape.test.ts`                  |
 * | a link passes by the rules of where it leads                   | `security/symlinks.test.ts`                     |
 * | locks are about other paths for a user with a base folder      | `tree/changes.test.ts`                          |
 */
import t from 'tap'
import type { Permission } from '../../src/accounts/principal.js'
import { serve, type Envelope, type Served } from '../protocols/http/served.js'

const changing: readonly Permission[] = ['write', 'rename', 'move', 'copy', 'remove', 'offlineDownload']
const denied = { code: 403 }
const missing = { code: 500, message: /object not found$/ }

/** Creates files whose content is their path. A path that ends with a slash is an empty folder. */
async function plant(served: Served, ...paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (path.endsWith('/')) await served.post('/api/fs/mkdir', { path })
    else await served.put(path, path)
  }
}

/** All paths below a folder, sorted. */
async function tree(served: Served, folder: string): Promise<readonly string[]> {
  const { data } = await served.post('/api/fs/list', { path: folder })
  const { content } = data as { content: readonly { name: string; is_dir: boolean }[] }
  const below = await Promise.all(
    content.map(async ({ name, is_dir: isFolder }) => {
      const path = `${folder === '/' ? '' : folder}/${name}`
      return isFolder ? [`${path}/`, ...(await tree(served, path))] : [path]
    }),
  )
  return below.flat().sort()
}

void t.test('what a grant lets a user see and not read has no link, in any form', async (t) => {
  const admin = await serve(t)
  await plant(admin, '/team/picture.jpg', '/team/sub/picture.jpg')
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/team', { allow: [], deny: ['read'] })
  for (const folder of ['/team', '/team/sub']) {
    const path = `${folder}/picture.jpg`
    const { data } = await ann.post('/api/fs/list', { path: folder })
    const { content } = data as { content: readonly Record<string, unknown>[] }
    t.match(
      content.find(({ name }) => name === 'picture.jpg'),
      { sign: '', thumb: '', hash_info: null },
      folder,
    )
    t.match(await ann.post('/api/fs/get', { path }), { code: 200, data: { raw_url: '', sign: '', thumb: '' } })
    t.match(await ann.post('/api/fs/share_link', { path }), denied)
    t.match(await ann.post('/api/fs/zip_link', { path: folder }), denied)
    for (const route of ['d', 'p']) {
      const { status } = await fetch(`${ann.url}/${route}${path}`, { headers: { authorization: ann.token } })
      t.ok(status >= 400, `/${route}${path} without a signature: ${status}`)
    }
    const zip = await fetch(`${ann.url}/api/fs/zip?path=${folder}`, { headers: { authorization: ann.token } })
    t.equal(zip.status, 403)
  }
})

void t.test('every kind of upload is asked for the right to write and for the password of the folder', async (t) => {
  const admin = await serve(t)
  await plant(admin, '/granted/sub/', '/unseen/sub/', '/locked/sub/', '/theirs/sub/')
  await admin.rule('/locked', { password: 'sesame', passwordSub: true })
  await admin.rule('/theirs', { writeUsers: [1], writeUsersSub: true })
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/granted', { allow: [], deny: ['write'] })
  await admin.grant('ann', '/unseen', { allow: [], deny: ['see'] })
  const before = await tree(admin, '/')
  const headersOf = (path: string) => ({ authorization: ann.token, 'file-path': encodeURIComponent(path) })
  const envelope = async (response: Response) => (await response.json()) as Envelope
  const form = () => {
    const body = new FormData()
    body.append('file', new Blob(['x']), 'name')
    return body
  }
  const uploads: Readonly<Record<string, (path: string) => Promise<Envelope>>> = {
    put: (path) => ann.put(path, 'x'),
    'put as a task': (path) => ann.put(path, 'x', { 'as-task': 'true' }),
    form: async (path) =>
      envelope(await fetch(`${ann.url}/api/fs/form`, { method: 'PUT', headers: headersOf(path), body: form() })),
    'multipart/init': async (path) => {
      const headers = { ...headersOf(path), 'x-file-size': '1' }
      return envelope(await fetch(`${ann.url}/api/fs/multipart/init`, { method: 'POST', headers }))
    },
    mkdir: (path) => ann.post('/api/fs/mkdir', { path }),
    add_offline_download: (path) =>
      ann.post('/api/fs/add_offline_download', {
        ...{ urls: ['http://127.0.0.1:1/x'], tool: 'SimpleHttp', delete_policy: 'delete_never' },
        path: path.slice(0, path.lastIndexOf('/')),
      }),
  }
  for (const [title, upload] of Object.entries(uploads)) {
    for (const folder of ['/granted', '/locked', '/theirs']) {
      t.match(await upload(`${folder}/file`), denied, `${title} in ${folder}`)
      t.match(await upload(`${folder}/sub/file`), denied, `${title} below ${folder}`)
    }
    t.match(await upload('/unseen/file'), missing, `${title} in what is not seen`)
    t.match(await upload('/unseen/sub/file'), missing, `${title} below what is not seen`)
  }
  t.same(await tree(admin, '/'), before)
})

void t.test('a folder with something that its user does not see is not empty', async (t) => {
  const admin = await serve(t)
  const kept = ['/dir/a/b/unseen', '/dir/c/veiled', '/dir/d/kept/', '/dir/e/closed/']
  await plant(admin, ...kept, '/dir/f/g/', '/dir/h/')
  await admin.rule('/dir/c', { hide: '^veiled$' })
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/dir/a/b/unseen', { allow: [], deny: ['see'] })
  await admin.grant('ann', '/dir/d/kept', { allow: [], deny: ['remove'] })
  await admin.grant('ann', '/dir/e/closed', { allow: [], deny: ['see'] })
  await ann.post('/api/fs/remove_empty_directory', { src_dir: '/dir' })
  const left = await tree(admin, '/dir')
  for (const path of kept) t.ok(left.includes(path), path)
})

void t.test('a folder is not changed as a whole if something in it is closed to the user', async (t) => {
  const admin = await serve(t)
  const folders = ['/locked', '/theirs', '/unseen', '/kept']
  await plant(admin, ...folders.map((folder) => `${folder}/d/e/inner/file`), '/to/', '/mine/d/file')
  await admin.rule('/locked/d/e/inner', { password: 'sesame' })
  await admin.rule('/theirs/d/e/inner', { writeUsers: [1] })
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/unseen/d/e/inner', { allow: [], deny: ['see'] })
  await admin.grant('ann', '/kept/d/e/inner', { allow: [], deny: ['rename', 'move', 'remove'] })
  const before = await tree(admin, '/')
  for (const folder of folders) {
    const changes: Readonly<Record<string, () => Promise<Envelope>>> = {
      remove: () => ann.post('/api/fs/remove', { dir: folder, names: ['d'] }),
      rename: () => ann.post('/api/fs/rename', { path: `${folder}/d`, name: 'x' }),
      batch_rename: () =>
        ann.post('/api/fs/batch_rename', { src_dir: folder, rename_objects: [{ src_name: 'd', new_name: 'x' }] }),
      move: () => ann.post('/api/fs/move', { src_dir: folder, dst_dir: '/to', names: ['d'] }),
      'move over it': () =>
        ann.post('/api/fs/move', { src_dir: '/mine', dst_dir: folder, names: ['d'], overwrite: true }),
      'copy over it': () =>
        ann.post('/api/fs/copy', { src_dir: '/mine', dst_dir: folder, names: ['d'], overwrite: true }),
    }
    for (const [title, change] of Object.entries(changes)) t.match(await change(), denied, `${title}: ${folder}`)
    // Only the files are moved, each of which is asked.
    await ann.post('/api/fs/recursive_move', { src_dir: `${folder}/d/e`, dst_dir: '/to' })
  }
  t.same(await tree(admin, '/'), before)
  const copied = await ann.post('/api/fs/copy', { src_dir: '/locked', dst_dir: '/to', names: ['d'] })
  t.match(copied, denied, 'a copy without the password')
  t.match(await ann.post('/api/fs/copy', { src_dir: '/unseen', dst_dir: '/to', names: ['d'] }), { code: 200 })
  t.same(await tree(admin, '/to'), ['/to/d/', '/to/d/e/'], 'a copy leaves out what is not seen')
})

void t.test('no name of a list acts on the folder itself, or outside of it', async (t) => {
  const admin = await serve(t)
  await plant(admin, '/team/ann/file', '/team/other/file', '/to/')
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/', { allow: [], deny: ['see'] })
  await admin.grant('ann', '/team/ann', {
    allow: ['see', 'read', 'write', 'rename', 'move', 'copy', 'remove'],
    deny: [],
  })
  await admin.grant('ann', '/to', { allow: ['see', 'write'], deny: [] })
  const before = await tree(admin, '/')
  const names = [
    '',
    '.',
    '..',
    './',
    'file/',
    '../other',
    '..\\other',
    '\\',
    '..\\..\\team',
    '/team/other',
    'file/../..',
  ]
  for (const name of names) {
    for (const [call, fields] of [
      ['remove', { dir: '/team/ann' }],
      ['move', { src_dir: '/team/ann', dst_dir: '/to' }],
      ['copy', { src_dir: '/team/ann', dst_dir: '/to' }],
    ] as const) {
      const { code } = await ann.post(`/api/fs/${call}`, { ...fields, names: [name] })
      t.not(code, 200, `${call} of ${JSON.stringify(name)}`)
    }
    const renamed = await ann.post('/api/fs/rename', { path: '/team/ann/file', name })
    t.not(renamed.code, 200, `rename to ${JSON.stringify(name)}`)
  }
  t.same(await tree(admin, '/'), before)
})

void t.test('a folder that is renamed, and one above it, keep what closes them', async (t) => {
  const admin = await serve(t)
  await plant(admin, '/top/locked/file', '/top/closed/file')
  await admin.rule('/top/locked', { password: 'sesame', passwordSub: true })
  const ann = await admin.as('ann', changing)
  await admin.grant('ann', '/top/closed', { allow: [], deny: ['read'] })
  const isClosed = async (top: string, locked: string, closed: string) => {
    t.match(await ann.post('/api/fs/list', { path: `${top}/${locked}` }), denied, `${top}/${locked}`)
    t.match(await ann.post('/api/fs/get', { path: `${top}/${locked}/file` }), denied)
    t.match(await ann.post('/api/fs/get', { path: `${top}/${closed}/file` }), { code: 200, data: { raw_url: '' } })
    t.match(await ann.post('/api/fs/copy', { src_dir: top, dst_dir: '/', names: [closed] }), denied, `${top}/${closed}`)
  }
  await isClosed('/top', 'locked', 'closed')
  t.match(await ann.post('/api/fs/rename', { path: '/top', name: 'x' }), denied, 'not by who cannot enter it')
  t.match(await admin.post('/api/fs/rename', { path: '/top', name: 'new' }), { code: 200 })
  await isClosed('/new', 'locked', 'closed')
  t.match(await admin.post('/api/fs/rename', { path: '/new/locked', name: 'shut' }), { code: 200 })
  t.match(await admin.post('/api/fs/rename', { path: '/new/closed', name: 'dark' }), { code: 200 })
  await isClosed('/new', 'shut', 'dark')
  t.match(await admin.post('/api/fs/mkdir', { path: '/far' }), { code: 200 })
  t.match(await admin.post('/api/fs/move', { src_dir: '/', dst_dir: '/far', names: ['new'] }), { code: 200 })
  await isClosed('/far/new', 'shut', 'dark')
})

void t.test('of two changes that make one free name at once, one is refused and no file is lost', async (t) => {
  const admin = await serve(t)
  t.match(await admin.mount('/other', 'Local'), { code: 200 })
  const bob = await admin.as('bob', changing)
  for (let round = 0; round < 5; round++) {
    const at = `/round ${round}`
    const changes: Readonly<Record<string, readonly [() => Promise<Envelope>, () => Promise<Envelope>]>> = {
      'two renames': [
        () => admin.post('/api/fs/rename', { path: `${at}/a`, name: 'free' }),
        () => bob.post('/api/fs/rename', { path: `${at}/b`, name: 'free' }),
      ],
      'two moves': [
        () => admin.post('/api/fs/move', { src_dir: `${at}/one`, dst_dir: at, names: ['free'] }),
        () => bob.post('/api/fs/move', { src_dir: `${at}/two`, dst_dir: at, names: ['free'] }),
      ],
      'two copies': [
        () => admin.post('/api/fs/copy', { src_dir: `${at}/one`, dst_dir: at, names: ['free'] }),
        () => bob.post('/api/fs/copy', { src_dir: `${at}/two`, dst_dir: at, names: ['free'] }),
      ],
      'an upload and a rename': [
        () => admin.put(`${at}/free`, 'uploaded', { overwrite: 'false' }),
        () => bob.post('/api/fs/rename', { path: `${at}/b`, name: 'free' }),
      ],
      'a new folder and a move': [
        () => admin.post('/api/fs/mkdir', { path: `${at}/free/folder` }),
        () => bob.post('/api/fs/move', { src_dir: `${at}/two`, dst_dir: at, names: ['free'] }),
      ],
    }
    for (const [title, [first, second]] of Object.entries(changes)) {
      await plant(admin, `${at}/a`, `${at}/b`, `${at}/one/free`, `${at}/two/free`)
      const answers = await Promise.all([first(), second()])
      const codes = answers.map(({ code }) => code)
      t.equal(codes.filter((code) => code === 200).length, 1, `${title}: ${String(codes)}`)
      const left = await tree(admin, at)
      const sources = [`${at}/a`, `${at}/b`, `${at}/one/free`, `${at}/two/free`].filter((path) => left.includes(path))
      t.ok(left.includes(`${at}/free`) || left.includes(`${at}/free/`), title)
      t.ok(sources.length >= 3, `${title}: at most one has another name`)
      await admin.post('/api/fs/remove', { dir: '/', names: [at.slice(1)] })
    }
    // Between storages, where each move is a task.
    await plant(admin, `${at}/one/free`, `${at}/two/free`)
    const queued = await Promise.all([
      admin.post('/api/fs/move', { src_dir: `${at}/one`, dst_dir: '/other', names: ['free'] }),
      bob.post('/api/fs/move', { src_dir: `${at}/two`, dst_dir: '/other', names: ['free'] }),
    ])
    t.match(queued, [{ code: 200 }, { code: 200 }])
    await admin.ended('move')
    const left = await tree(admin, at)
    const kept = [`${at}/one/free`, `${at}/two/free`].filter((path) => left.includes(path))
    const moved = await admin.content('/other/free')
    t.same([...kept, moved].sort(), [`${at}/one/free`, `${at}/two/free`], 'each content is somewhere')
    await admin.post('/api/fs/remove', { dir: '/other', names: ['free'] })
  }
})
