/**
 * Renaming many files, by name or by pattern, moving files from all depths into one folder, and removing empty folders.
 */
import t, { type Test } from 'tap'
import { serve, type Served } from '../served.js'

const done = { code: 200, message: 'success', data: null }

/** Creates files whose content is their path. A path that ends with a slash is an empty folder. */
async function plant(served: Served, ...paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (path.endsWith('/')) await served.post('/api/fs/mkdir', { path })
    else await served.put(path, path)
  }
}

void t.test('batch_rename checks every name before it renames one', async (t) => {
  const admin = await serve(t)
  const rename = (served: Served, ...pairs: readonly (readonly [string, string])[]) =>
    served.post('/api/fs/batch_rename', {
      src_dir: '/dir',
      rename_objects: pairs.map(([src_name, new_name]) => ({ src_name, new_name })),
    })
  await plant(admin, '/dir/a', '/dir/b', '/dir/c', '/dir/sub/')
  t.strictSame(await rename(admin, ['c', 'd'], ['b', 'c'], ['', 'x'], ['a', ''], ['sub', 'folder']), done)
  t.strictSame((await admin.names('/dir')).sort(), ['a', 'c', 'd', 'folder'])
  t.equal(await admin.content('/dir/c'), '/dir/b')

  const kept = async (t: Test) => t.strictSame((await admin.names('/dir')).sort(), ['a', 'c', 'd', 'folder'])
  t.strictSame(await rename(admin, ['a', 'z'], ['c', 'd']), { code: 403, message: 'file [d] exists', data: null })
  t.match(await rename(admin, ['a', 'z'], ['c', 'z']), { code: 403, message: 'file [z] exists' })
  t.match(await rename(admin, ['a', 'z'], ['nothing', 'y']), { code: 500, message: 'object not found' })
  for (const bad of ['..', '.', 'x/y', 'x\\y', '../../x']) {
    t.match(await rename(admin, ['a', 'z'], ['c', bad]), { code: 403, message: 'using relative path is not allowed' })
    t.match(await rename(admin, ['a', 'z'], [bad, 'y']), { code: 403, message: 'using relative path is not allowed' })
  }
  t.match(await rename(admin, ['a', 'x\0y']), { code: 400 })
  await kept(t)
  t.strictSame(await rename(admin, ['a', 'a']), done)
  t.strictSame(await rename(admin), done)
  const ann = await admin.as('ann', ['write', 'move'])
  t.match(await rename(ann, ['a', 'z']), { code: 403, message: 'permission denied' })
  t.match(await rename(ann), { code: 403 })
  await kept(t)
})

void t.test('regex_rename computes every name before it renames one', async (t) => {
  const admin = await serve(t)
  const rename = (src_name_regex: string, new_name_regex: string, served = admin) =>
    served.post('/api/fs/regex_rename', { src_dir: '/dir', src_name_regex, new_name_regex })
  await plant(admin, '/dir/img-1.jpg', '/dir/img-2.jpg', '/dir/notes.txt', '/dir/img-3/')
  t.strictSame(await rename('img-(?P<number>\\d+)', 'photo ${number}'), done)
  t.strictSame((await admin.names('/dir')).sort(), ['notes.txt', 'photo 1.jpg', 'photo 2.jpg', 'photo 3'])
  t.equal(await admin.content('/dir/photo 2.jpg'), '/dir/img-2.jpg')

  t.match(await rename('photo \\d', 'same'), { code: 403, message: 'file [same.jpg] exists' })
  t.match(await rename('photo 1.jpg', 'notes.txt'), { code: 403, message: 'file [notes.txt] exists' })
  t.match(await rename('notes', '../../notes'), { code: 403, message: 'using relative path is not allowed' })
  t.match(await rename('.*', ''), { code: 403 })
  t.match(await rename('(', 'x'), { code: 500, message: /^\( is illegal: / })
  t.match(await rename('(?=x)', 'x'), { code: 500 })
  t.match(await rename('', 'x'), { code: 400 })
  t.strictSame(await rename('nothing', 'x'), done)
  const ann = await admin.as('ann', ['write'])
  t.match(await rename('notes', 'x', ann), { code: 403, message: 'permission denied' })
  t.strictSame((await admin.names('/dir')).sort(), ['notes.txt', 'photo 1.jpg', 'photo 2.jpg', 'photo 3'])
})

void t.test('a rename to the name of a hidden file is rejected', async (t) => {
  const admin = await serve(t)
  await plant(admin, '/dir/a', '/dir/secret')
  await admin.rule('/dir', { hide: '^secret$' })
  const ann = await admin.as('ann', ['rename', 'move', 'remove'])
  const renamed = await ann.post('/api/fs/batch_rename', {
    src_dir: '/dir',
    rename_objects: [{ src_name: 'a', new_name: 'secret' }],
  })
  t.match(renamed, { code: 403 })
  t.equal(await admin.content('/dir/secret'), '/dir/secret')
})

void t.test('recursive_move', async (t) => {
  const admin = await serve(t)
  const gather = (conflict_policy?: string, served = admin) =>
    served.post('/api/fs/recursive_move', { src_dir: '/from', dst_dir: '/to', conflict_policy })

  await t.test('moves files from every depth into one folder', async (t) => {
    await plant(admin, '/to/', '/from/a', '/from/x/b', '/from/x/y/c')
    t.strictSame(await gather('cancel'), { code: 200, message: 'Successfully moved 3 files', data: null })
    t.strictSame((await admin.names('/to')).sort(), ['a', 'b', 'c'])
    t.equal(await admin.content('/to/c'), '/from/x/y/c')
    t.strictSame(await admin.names('/from/x'), ['y'], 'folders are not moved')
    t.match(await gather(), { message: 'Successfully moved 0 files' })
  })

  await t.test('moves nothing if a name exists at the target', async (t) => {
    await plant(admin, '/from/d', '/from/x/a')
    for (const policy of ['cancel', undefined, '', 'whatever']) {
      t.strictSame(await gather(policy), { code: 403, message: 'file [a] exists', data: null })
    }
    t.strictSame((await admin.names('/to')).sort(), ['a', 'b', 'c'])
    await plant(admin, '/from/x/d')
    await admin.post('/api/fs/remove', { dir: '/from/x', names: ['a'] })
    t.match(await gather(), { code: 403, message: 'file [d] exists' }, 'also if two of the moved files have one name')
  })

  await t.test('skips or replaces existing files as the policy says', async (t) => {
    await plant(admin, '/from/x/a')
    await admin.post('/api/fs/remove', { dir: '/from/x', names: ['d'] })
    t.match(await gather('skip'), { message: 'Successfully moved 1 file' })
    t.equal(await admin.content('/to/a'), '/from/a')
    t.equal(await admin.content('/from/x/a'), '/from/x/a')
    t.match(await gather('overwrite'), { message: 'Successfully moved 1 file' })
    t.equal(await admin.content('/to/a'), '/from/x/a')
    await plant(admin, '/to/folder/inside', '/from/folder')
    t.match(await gather('overwrite'), { code: 403, message: 'file [folder] exists' })
    t.equal(await admin.content('/to/folder/inside'), '/to/folder/inside')
  })

  await t.test('ignores files that are already in the target, and requires the move permission', async (t) => {
    const within = { src_dir: '/to', dst_dir: '/to' }
    t.match(await admin.post('/api/fs/recursive_move', within), { message: 'Successfully moved 1 file' })
    t.ok((await admin.names('/to')).includes('inside'))
    t.match(await admin.post('/api/fs/recursive_move', { src_dir: '/from', dst_dir: '/nowhere' }), {
      code: 500,
      message: 'failed to get dst dir: failed to get obj: object not found',
    })
    t.match(await admin.post('/api/fs/recursive_move', { src_dir: '/nowhere', dst_dir: '/to' }), {
      code: 500,
      message: /object not found$/,
    })
    const ann = await admin.as('ann', ['write', 'rename'])
    t.match(await gather('skip', ann), { code: 403, message: 'permission denied' })
  })
})

void t.test('remove_empty_directory', async (t) => {
  const admin = await serve(t)
  const clear = (served = admin) => served.post('/api/fs/remove_empty_directory', { src_dir: '/dir' })
  await plant(admin, '/dir/a/b/c/', '/dir/a/d/', '/dir/e/f/', '/dir/e/file', '/dir/secrets/hidden', '/dir/g/secrets/')
  await admin.rule('/dir', { hide: '^(hidden|secrets)$', hideSub: true })
  await admin.post('/api/admin/storage/create', { mount_path: '/dir/mounts/m', driver: 'Local' })
  const ann = await admin.as('ann', ['write', 'remove'])
  t.strictSame(await clear(ann), done)
  t.strictSame((await admin.names('/dir')).sort(), ['e', 'g', 'mounts', 'secrets'])
  t.strictSame(await admin.names('/dir/e'), ['file'])
  t.strictSame(await admin.names('/dir/secrets'), ['hidden'], 'a folder with hidden files is not empty')
  t.strictSame(await admin.names('/dir/g'), ['secrets'])
  t.strictSame(await clear(), done)
  t.strictSame((await admin.names('/dir')).sort(), ['e', 'mounts', 'secrets'])
  t.match(await admin.post('/api/fs/remove_empty_directory', { src_dir: '/nowhere' }), {
    code: 500,
    message: /object not found$/,
  })
  t.match(await admin.post('/api/fs/remove_empty_directory', {}), { code: 400 }, 'src_dir is required')
  t.match(await admin.post('/api/fs/recursive_move', { dst_dir: '/dir' }), { code: 400 })
  const bob = await admin.as('bob', ['write'])
  t.match(await clear(bob), { code: 403, message: 'permission denied' })
})
