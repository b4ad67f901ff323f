/** Creating, renaming, moving, copying and removing by the API, with the refusals for locked files and mount points. */
import t from 'tap'
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { asPath } from '../../../../src/base/path.js'
import { altered, bare } from '../../../tree/tree-fixture.js'
import { serve } from '../served.js'
import { http } from '../../../../protocols/http/index.js'

const done = { code: 200, message: 'success', data: null }
const climbing = { code: 403, message: 'using relative path is not allowed', data: null }

void t.test('mkdir creates a folder and its missing parents', async (t) => {
  const served = await serve(t)
  t.strictSame(await served.post('/api/fs/mkdir', { path: '/a/b/c' }), done)
  t.strictSame(await served.post('/api/fs/mkdir', { path: '/a/b/c' }), done, 'again')
  await served.put('/file', 'x')
  t.match(await served.post('/api/fs/mkdir', { path: '/file' }), { code: 500, message: 'file exists' })
  t.match(await served.post('/api/fs/mkdir', { path: '/file/below' }), { code: 500 })
  t.match(await served.post('/api/fs/mkdir', { path: '/' }), { code: 500 })
  t.match(await served.post('/api/fs/mkdir', {}), { code: 400, message: 'path: is missing' })
  t.strictSame(await served.post('/api/fs/mkdir', { path: '/a/../../b' }), climbing)
  t.match(await served.post('/api/fs/mkdir', { path: '/a\nb' }), { code: 400 })
  const ann = await served.as('ann', ['rename'])
  t.match(await ann.post('/api/fs/mkdir', { path: '/x' }), { code: 403, message: 'permission denied' })
})

void t.test('rename changes a name within its folder', async (t) => {
  const served = await serve(t)
  await served.put('/a/one', '1')
  await served.put('/a/two', '2')
  t.strictSame(await served.post('/api/fs/rename', { path: '/a/one', name: 'uno' }), done)
  t.same(await served.names('/a'), ['two', 'uno'])
  t.strictSame(await served.post('/api/fs/rename', { path: '/a/uno', name: 'uno' }), done, 'its own name')
  t.match(await served.post('/api/fs/rename', { path: '/a/uno', name: 'two' }), {
    code: 403,
    message: 'file [two] exists',
  })
  t.strictSame(await served.post('/api/fs/rename', { path: '/a/uno', name: 'two', overwrite: true }), done)
  t.same(await served.names('/a'), ['two'])
  t.equal(await served.content('/a/two'), '1')
  for (const name of ['', '.', '..', 'x/y', '..\\x']) {
    t.strictSame(await served.post('/api/fs/rename', { path: '/a/two', name }), climbing, name)
  }
  t.match(await served.post('/api/fs/rename', { path: '/a/two', name: 'a\0b' }), { code: 400 })
  t.match(await served.post('/api/fs/rename', { path: '/a/none', name: 'x' }), {
    code: 500,
    message: /object not found$/,
  })
  t.match(
    await served.post('/api/fs/rename', { path: '/a/none', name: 'two' }),
    { code: 403, message: 'file [two] exists' },
    'an existing name is reported first',
  )
  t.match(await served.post('/api/fs/rename', { path: '/a/none', name: 'two', overwrite: true }), { code: 500 })
  t.match(await served.post('/api/fs/rename', { path: '/', name: 'x' }), {
    code: 500,
    message: 'rename root folder is not allowed',
  })
  const ann = await served.as('ann', ['write', 'move'])
  t.match(await ann.post('/api/fs/rename', { path: '/a/two', name: 'x' }), { code: 403 })
})

for (const kind of ['move', 'copy'] as const) {
  void t.test(
    'a folder that is renamed item by item: what the refusals say, and a rename that is made again',
    async (t) => {
      const driver = new MemoryDriver(0)
      let fault: (path: string) => void = () => undefined
      const faulty = altered(driver, {
        ...bare,
        write: async (path, source, options) => {
          fault(path)
          return driver.write(path, source, options)
        },
      })
      const served = await serve(t, '', [{ name: 'Renames nothing', fields: {}, open: async () => faulty }])
      await served.mount('/s', 'Renames nothing')
      const rename = () => served.post('/api/fs/rename', { path: '/s/d', name: 'e' })
      await served.put('/s/d/a', 'one')
      await served.put('/s/d/b', 'two')
      fault = (path) => {
        if (path.startsWith('/e/')) throw new GatewayError('unavailable')
      }
      t.match(await rename(), { code: 500, message: /^(?!.*exists)/ })
      fault = () => undefined
      await served.put('/s/e/a', 'theirs')
      t.match(await rename(), { code: 403, message: 'file [a] exists' }, 'the member that exists is named')
      t.strictSame(await served.post('/api/fs/remove', { dir: '/s/e', names: ['a'] }), done)
      fault = () => {
        throw new GatewayError('not_found')
      }
      t.match(
        await rename(),
        { code: 500, message: /object not found$/ },
        'what a backend does not find does not exist',
      )
      fault = () => undefined
      t.strictSame(await rename(), done)
      t.same(await served.names('/s/e'), ['a', 'b'])
      t.match(await rename(), { code: 403, message: 'file [e] exists' }, 'an existing name is reported first')
    },
  )

  void t.test(`${kind} transfers members of one folder to another`, async (t) => {
    const served = await serve(t)
    const call = (body: object) => served.post(`/api/fs/${kind}`, { src_dir: '/from', dst_dir: '/to', ...body })
    await served.put('/from/one', '1')
    await served.put('/from/two', '2')
    await served.put('/from/folder/deep/three', '3')
    await served.put('/to/two', 'old')
    const left = (names: string[]) => (kind === 'move' ? [] : names)

    await t.test('checks every name before it begins', async (t) => {
      t.strictSame(await call({ names: ['one', 'two'] }), { code: 403, message: 'file [two] exists', data: null })
      for (const bad of ['', '.', '..', 'a/b', '..\\x', '/']) {
        t.strictSame(await call({ names: ['one', bad] }), climbing, bad)
      }
      t.match(await call({ names: ['one', 'a\0'] }), { code: 400 })
      t.match(await call({ names: [] }), { code: 400, message: 'Empty file names' })
      t.match(await call({}), { code: 400, message: 'Empty file names' })
      t.match(await call({ names: 5 }), { code: 400 })
      t.same(await served.names('/to'), ['two'])
      t.match(await call({ names: ['one'], dst_dir: '/none' }), {
        code: 500,
        message: 'failed to get dst dir: failed to get obj: object not found',
      })
      t.match(await call({ names: ['one'], dst_dir: '/to/two' }), { code: 500, message: /not a folder$/ })
    })

    await t.test('skips or replaces existing entries if requested', async (t) => {
      t.strictSame(await call({ names: ['one', 'two'], skip_existing: true }), done)
      t.same(await served.names('/to'), ['one', 'two'])
      t.equal(await served.content('/to/two'), 'old')
      t.strictSame(await call({ names: ['two'], overwrite: true }), done)
      t.equal(await served.content('/to/two'), '2')
      t.same(await served.names('/from'), ['folder', ...left(['one', 'two'])])
    })

    await t.test('transfers whole folders', async (t) => {
      t.strictSame(await call({ names: ['folder'] }), done)
      t.equal(await served.content('/to/folder/deep/three'), '3')
      t.same(await served.names('/from'), left(['folder', 'one', 'two']))
    })

    await t.test('rejects impossible requests', async (t) => {
      await served.put('/from/again/file', 'x')
      t.match(await call({ names: ['again'], dst_dir: '/from/again' }), {
        code: 500,
        message: 'the destination folder is a subfolder of the source folder',
      })
      await served.put('/from/before', 'x')
      t.match(await call({ names: ['before', 'again'], dst_dir: '/from/again' }), { code: 500 })
      t.same(await served.names('/from/again'), ['file'], 'no name is changed if another one is refused')
      t.match(await call({ names: ['again'], dst_dir: '/from', overwrite: true }), {
        code: 500,
        message: `${kind} in place`,
      })
      t.match(await call({ names: ['again'], dst_dir: '/from' }), { code: 403, message: 'file [again] exists' })
      t.match(await call({ names: ['none'] }), { code: 500, message: /object not found$/ })
    })

    await t.test('requires its permission', async (t) => {
      await served.put('/from/four', '4')
      const without = await served.as('ann', ['write', 'rename', kind === 'move' ? 'copy' : 'move'])
      const body = { src_dir: '/from', dst_dir: '/to', names: ['four'] }
      t.match(await without.post(`/api/fs/${kind}`, body), { code: 403, message: 'permission denied' })
      t.notOk((await served.names('/to')).includes('four'))
    })
  })
}

void t.test('copy with merge merges existing folders and keeps existing files', async (t) => {
  const served = await serve(t)
  for (const [path, content] of [
    ['/from/f/a', 'new'],
    ['/from/f/sub/b', 'new'],
    ['/from/g', 'new'],
    ['/to/f/a', 'old'],
    ['/to/g', 'old'],
  ] as const) {
    await served.put(path, content)
  }
  const body = { src_dir: '/from', dst_dir: '/to', names: ['f', 'g'], merge: true }
  t.strictSame(await served.post('/api/fs/copy', body), done)
  t.equal(await served.content('/to/f/a'), 'old')
  t.equal(await served.content('/to/f/sub/b'), 'new')
  t.equal(await served.content('/to/g'), 'old')
})

void t.test('remove deletes members of a folder', async (t) => {
  const served = await serve(t)
  await served.put('/a/one', '1')
  await served.put('/a/folder/deep/two', '2')
  await served.put('/a/three', '3')
  for (const name of ['', '.', '..', 'folder/deep', '..\\a']) {
    t.strictSame(await served.post('/api/fs/remove', { dir: '/a', names: ['one', name] }), climbing, name)
  }
  t.match(await served.post('/api/fs/remove', { dir: '/a' }), { code: 400, message: 'Empty file names' })
  t.same(await served.names('/a'), ['folder', 'one', 'three'])
  const ann = await served.as('ann', ['write', 'rename', 'move', 'copy'])
  t.match(await ann.post('/api/fs/remove', { dir: '/a', names: ['one'] }), { code: 403, message: 'permission denied' })
  t.strictSame(await served.post('/api/fs/remove', { dir: '/a', names: ['one', 'none', 'folder'] }), done)
  t.same(await served.names('/a'), ['three'])
  t.strictSame(
    await served.post('/api/fs/remove', { dir: '/none', names: ['x'] }),
    done,
    'a missing entry counts as removed',
  )
})

void t.test('changes of a locked file are rejected with 423', async (t) => {
  const served = await serve(t)
  await served.put('/a/file', '1')
  const fs = served.gateway.as(await served.gateway.accounts.tokens.principalOf(served.token, http))
  await fs.lock(asPath('/a/file'), { scope: 'exclusive', deep: false, owner: '', seconds: 60 })
  const locked = { code: 423, message: 'locked by admin', data: null }
  t.strictSame(await served.put('/a/file', '2'), locked)
  t.strictSame(await served.post('/api/fs/remove', { dir: '/a', names: ['file'] }), locked)
  t.strictSame(await served.post('/api/fs/rename', { path: '/a/file', name: 'other' }), locked)
  t.equal(await served.content('/a/file'), '1')
})

void t.test('a mount point cannot be moved, renamed or removed', async (t) => {
  const served = await serve(t)
  const { store, supervisor } = served.gateway
  const [mounted] = await store.storages.all()
  if (mounted === undefined) throw new Error('nothing is mounted')
  const row = { ...mounted, id: mounted.id + 1, mountPath: asPath('/folder/mounted') }
  await supervisor.apply(await store.storages.insert(row))
  await served.put('/folder/mounted/file', 'x')
  await served.post('/api/fs/mkdir', { path: '/other' })
  for (const [call, body] of [
    ['remove', { dir: '/folder', names: ['mounted'] }],
    ['move', { src_dir: '/folder', dst_dir: '/other', names: ['mounted'] }],
    ['rename', { path: '/folder/mounted', name: 'new' }],
  ] as const) {
    t.match(await served.post(`/api/fs/${call}`, body), { code: 500, message: /root folder is not allowed$/ }, call)
  }
  t.match(await served.post('/api/fs/copy', { src_dir: '/folder', dst_dir: '/other', names: ['mounted'] }), {
    data: { tasks: [{ name: 'copy [/folder/mounted](/) to [/](/other)' }] },
  })
  t.match(await served.ended('copy'), [{ state: 2 }])
  t.equal(await served.content('/other/mounted/file'), 'x')
  t.equal(await served.content('/folder/mounted/file'), 'x')
})
