/** The steps of a change: names, preconditions, locks, path locks, and the end of a session meanwhile. */
import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, nameOf, type Path } from '../../src/base/path.js'
import { renameEach } from '../../src/tree/bulk-operations.js'
import { etagOf } from '../../src/tree/preconditions.js'
import {
  altered,
  bare,
  newTree,
  openBody,
  sourceOf,
  text,
  lockAsk,
  property,
  overwrite,
  keep,
  fill,
  names,
  type MountAsk,
  type Tree,
} from './tree-fixture.js'

const p = asPath

void t.test('names of new entries are validated, and existing entries with invalid names remain usable', async (t) => {
  const { as, drivers } = await newTree(t)
  await drivers.get('/')?.write?.('/odd\tname' as Path, sourceOf('abc'))
  const ada = as()
  for (const name of ['a\n', 'a\u0001', 'x'.repeat(256), 'a\\b']) {
    const at = `/${name}` as Path
    await t.rejects(ada.write(at, sourceOf('')), { code: 'invalid' })
    await t.rejects(ada.mkdir(at), { code: 'invalid' })
    await t.rejects(ada.open(at, 'replace'), { code: 'invalid' })
    await t.rejects(ada.copy('/odd\tname' as Path, at, keep), { code: 'invalid' })
    await t.rejects(ada.move('/odd\tname' as Path, at, keep), { code: 'invalid' })
    await t.rejects(ada.write(`${at}/x` as Path, sourceOf(''), { parents: true }), { code: 'invalid' })
  }
  t.equal(await text(ada.read('/odd\tname' as Path)), 'abc')
  await ada.remove('/odd\tname' as Path)
  for (const name of ['.tidegate-backup-x', '.TIDEGATE-staging']) {
    await t.rejects(
      ada.write(p(`/${name}`), sourceOf('')),
      { code: 'not_found' },
      'reserved names do not exist for users',
    )
  }
})

void t.test('of several concurrent createOnly writes, one succeeds', async (t) => {
  const { as } = await newTree(t, { '/': { over: bare } })
  const writers = Array.from({ length: 5 }, (_, index) => {
    const { source, body } = openBody()
    body.push(`from ${index}`)
    return { done: as().write(p('/x'), source, { createOnly: true }), body }
  })
  await turn()
  for (const { body } of writers) body.push(null)
  const ended = await Promise.allSettled(writers.map(({ done }) => done))
  t.equal(ended.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const each of ended) if (each.status === 'rejected') t.match(each.reason, { code: 'exists' })
  await as().write(p('/x'), sourceOf('free again'))
})

void t.test('preconditions are checked before the body is read and again before publishing', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  const { entry } = await ada.write(p('/x'), sourceOf('one'))
  const ifMatch = [etagOf(entry)]
  await t.rejects(ada.write(p('/x'), sourceOf('two'), { ifMatch: ['"other"'] }), { code: 'precondition_failed' })
  const { source, body } = openBody()
  const slow = ada.write(p('/x'), source, { ifMatch })
  await turn()
  await ada.write(p('/x'), sourceOf('meanwhile'))
  body.push('slow')
  body.push(null)
  await t.rejects(slow, { code: 'precondition_failed' })
  t.equal(await text(ada.read(p('/x'))), 'meanwhile')
  for (const call of [
    () => ada.remove(p('/x'), { ifMatch }),
    () => ada.move(p('/x'), p('/y'), { ...keep, ifMatch }),
    () => ada.copy(p('/x'), p('/y'), { ...keep, ifMatch }),
    () => ada.setAttributes(p('/x'), { mode: 0o600 }, { ifMatch }),
    () => ada.setProperties(p('/x'), [], { ifMatch }),
    () => ada.check(p('/x'), { ifMatch }),
    () => ada.open(p('/x'), 'update', { ifMatch }),
  ]) {
    await t.rejects(
      async () => {
        await call()
      },
      { code: 'precondition_failed' },
      call.toString(),
    )
  }
})

void t.test('a removal checks its preconditions after it has acquired the path lock', async (t) => {
  const { as, dependencies } = await newTree(t)
  const ada = as()
  const { entry } = await ada.write(p('/x'), sourceOf('one'))
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  const removing = ada.remove(p('/x'), { ifMatch: [etagOf(entry)] })
  for (let i = 0; i < 20; i++) await turn()
  const { storage } = dependencies.mounts.find(p('/x'))
  await storage.write(p('/x'), sourceOf('two'))
  release()
  await t.rejects(removing, { code: 'precondition_failed' })
})

void t.test('a lock is granted after the change that is being published, not during it', async (t) => {
  const { as, dependencies } = await newTree(t)
  const ada = as()
  await ada.write(p('/x'), sourceOf('old'))
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  let isGranted = false
  const locking = ada.lock(p('/x'), lockAsk).then(() => (isGranted = true))
  for (let i = 0; i < 20; i++) await turn()
  t.equal(isGranted, false)
  release()
  await locking
  t.equal(dependencies.locks.list().length, 1)
})

void t.test('bytes in memory are not stored for a session that ends while they wait for the path lock', async (t) => {
  const { as, dependencies } = await newTree(t)
  await as().write(p('/x'), sourceOf('old'))
  const session = new AbortController()
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  const bytes = Buffer.from('new')
  const writing = as({ signal: session.signal }).write(p('/x'), sourceOf(bytes, { bytes }))
  for (let i = 0; i < 20; i++) await turn()
  session.abort(new GatewayError('unauthenticated'))
  release()
  await t.rejects(writing, { code: 'unauthenticated' })
  t.equal(await text(as().read(p('/x'))), 'old')
})

void t.test('a lock that is taken after a file was opened excludes writes in place', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  await ada.write(p('/x'), sourceOf('old'))
  const file = await as({ userId: 2, username: 'bob' }).open(p('/x'), 'update')
  await file.write([Buffer.from('1')], 0)
  const { lock } = await ada.lock(p('/x'), lockAsk)
  await t.rejects(file.write([Buffer.from('2')], 0), { code: 'locked' })
  await t.rejects(file.truncate(0), { code: 'locked' })
  await ada.unlock(p('/x'), lock.token)
  await file.write([Buffer.from('3')], 0)
  await file.close()
  t.equal(await text(ada.read(p('/x'))), '3ld')
})

void t.test('a folder that is renamed is never without its rule', async (t) => {
  const { as, rule, store } = await newTree(t)
  await fill(as(), { '/secret/x': 'abc' })
  await rule('/secret', { password: 'open sesame', passwordSub: true })
  const guest = as({ userId: 3, may: [] })
  const apply = store.intents.apply.bind(store.intents)
  let during: Promise<unknown> | undefined
  store.intents.apply = async () => {
    during = guest.stat(p('/public/x')).catch((error: unknown) => error)
    await during
    throw new Error('the disk is full')
  }
  await as()
    .move(p('/secret'), p('/public'), keep)
    .catch(() => undefined)
  t.match(await during, { code: 'password_required' }, 'after the rename, before its record')
  await t.rejects(guest.stat(p('/public/x')), { code: 'password_required' }, 'the record has failed')
  store.intents.apply = apply
})

void t.test('every change is rejected if the token of a lock is missing', async (t) => {
  const { as } = await newTree(t)
  const ada = as()
  await fill(ada, { '/d/x': 'abc', '/y': 'abc' })
  const { lock } = await ada.lock(p('/d/x'), lockAsk)
  const folder = (await ada.lock(p('/d'), lockAsk)).lock
  const lockTokens = [lock.token, folder.token]
  for (const call of [
    (change: object) => ada.write(p('/d/x'), sourceOf('new'), change),
    (change: object) => ada.write(p('/d/new'), sourceOf('new'), change),
    (change: object) => ada.mkdir(p('/d/folder'), change),
    (change: object) => ada.setAttributes(p('/d/x'), { mode: 0o600 }, change),
    (change: object) => ada.setProperties(p('/d/x'), [{ set: property }], change),
    (change: object) => ada.copy(p('/y'), p('/d/x'), { ...overwrite, ...change }),
    (change: object) => ada.move(p('/y'), p('/d/y'), { ...keep, ...change }),
    async (change: object) => (await ada.open(p('/d/x'), 'update', change)).close(),
    async (change: object) => (await ada.open(p('/d/z'), 'replace', change)).close(),
    (change: object) => ada.remove(p('/d'), change),
  ]) {
    await t.rejects(
      async () => {
        await call({})
      },
      { code: 'locked' },
      call.toString(),
    )
    await call({ lockTokens })
  }
  t.same(await ada.locks(p('/')), [], 'the locks are deleted with the folder')
})

void t.test('a hard link to a locked file requires the lock token', async (t) => {
  const inner = new MemoryDriver(0)
  const hardLink: Driver['hardLink'] = async (from, to) => {
    await inner.copy(from, to)
  }
  const { as } = await newTree(t, { '/': { driverOf: async () => altered(inner, { hardLink }) } })
  await fill(as(), { '/x': 'x' })
  const { lock } = await as().lock(p('/x'), lockAsk)
  await t.rejects(as({ username: 'ada' }).hardLink(p('/x'), p('/y')), { code: 'locked' })
  t.same(await names(as(), '/'), ['x'])
  await as().hardLink(p('/x'), p('/y'), { lockTokens: [lock.token] })
  await t.rejects(as().hardLink(p('/y'), p('/y')), { code: 'exists' })
  t.same(await names(as(), '/'), ['x', 'y'])
})

void t.test('a lock on a missing path creates an empty file, without truncating a concurrent one', async (t) => {
  const { as, drivers } = await newTree(t)
  const ada = as()
  t.match(await ada.lock(p('/x'), lockAsk), { created: true, lock: { path: '/x' } })
  t.equal((await ada.stat(p('/x'))).size, 0)
  await t.rejects(ada.lock(p('/none/x'), lockAsk), { code: 'parent_missing' })
  t.same(
    (await ada.locks(p('/'), { members: ['x', 'free'] })).map(({ path }) => path),
    ['/x'],
  )
  const racing = ada.lock(p('/y'), lockAsk)
  await drivers.get('/')?.write?.(p('/y'), sourceOf('came first'))
  await racing
  t.equal(await text(ada.read(p('/y'))), 'came first')
})

void t.test('a lock whose file cannot be created is released, even if the backend fails meanwhile', async (t) => {
  const memory = new MemoryDriver(0, false)
  let fails = false
  const failing = altered(memory, {
    write: async () => {
      fails = true
      throw new GatewayError('exists')
    },
    stat: async (path, options) => {
      if (fails) throw new GatewayError('unavailable')
      return memory.stat(path, options)
    },
  })
  const { as, dependencies } = await newTree(t, { '/': { driverOf: async () => failing } })
  await t.rejects(as().lock(p('/new'), lockAsk), { code: 'exists' })
  t.same(dependencies.locks.list(), [])
})

void t.test("the path of a lock is relative to the user's base folder", async (t) => {
  const { as } = await newTree(t)
  await fill(as(), { '/home/ada/x': 'abc' })
  const ada = as({ base: '/home/ada', userId: 2 })
  const { lock } = await ada.lock(p('/x'), lockAsk)
  t.equal(lock.path, '/x')
  t.equal((await ada.refreshLock(p('/x'), lock.token, 60)).path, '/x')
  await t.rejects(as().lock(p('/home/ada/x'), lockAsk), { code: 'locked', lock: { path: '/home/ada/x' } })
  await t.rejects(ada.lock(p('/x'), lockAsk), { code: 'locked', lock: { path: '/x' } })
  await ada.unlock(p('/x'), lock.token)
  await ada.write(p('/x'), sourceOf('free'))
})

void t.test('operations that are running when the authority of their principal ends are aborted', async (t) => {
  const { as } = await newTree(t)
  await fill(as(), { '/x': 'x'.repeat(3_000_000) })
  const authority = new AbortController()
  const ada = as({ signal: authority.signal })
  const reading = await ada.read(p('/x'))
  const handle = await ada.open(p('/x'), 'read')
  const change = await ada.open(p('/new'), 'replace')
  await change.write([Buffer.from('abc')], 0)
  const { source, body } = openBody()
  body.push('abc')
  const writing = ada.write(p('/y'), source)
  await turn()
  authority.abort()
  await t.rejects(text(Promise.resolve(reading)))
  await t.rejects(writing, { code: 'unauthenticated' })
  await t.rejects(handle.read(Buffer.alloc(1), 0), { code: 'unauthenticated' })
  await t.rejects(async () => change.commit?.(), { code: 'unauthenticated' })
  await handle.close()
  await change.close()
  await t.rejects(ada.stat(p('/x')), { code: 'unauthenticated' })
  t.same(await names(as(), '/'), ['x'])
})

void t.test('operations that have ended leave no listeners on long-lived signals', async (t) => {
  const { as } = await newTree(t, { '/': { over: { open: undefined } } })
  const authority = new AbortController()
  const session = new AbortController()
  const ada = as({ signal: authority.signal })
  const ask = { signal: session.signal }
  for (let i = 0; i < 5; i++) {
    await ada.write(p('/x'), sourceOf('abc'), ask)
    await ada.write(p('/none/x'), sourceOf('abc'), ask).catch(() => undefined)
    await text(ada.read(p('/x'), undefined, ask))
    ;(await ada.read(p('/x'), undefined, ask)).destroy()
    await ada.read(p('/none'), undefined, ask).catch(() => undefined)
    await ada.list(p('/'), ask)
    await ada.copy(p('/x'), p('/y'), { ...overwrite, ...ask })
    await ada.move(p('/y'), p('/z'), { ...overwrite, ...ask })
    const file = await ada.open(p('/w'), 'replace', ask)
    await file.write([Buffer.from('abc')], 0)
    await file.commit?.()
    await file.close()
    await (await ada.open(p('/v'), 'replace', ask)).close()
    await ada.remove(p('/z'), ask)
  }
  await turn()
  t.equal(getEventListeners(authority.signal, 'abort').length, 0)
  t.equal(getEventListeners(session.signal, 'abort').length, 0)
})

void t.test('an upload that fails while publishing releases its path lock', async (t) => {
  const inner = new MemoryDriver(0)
  let fails = true
  const write: MemoryDriver['write'] = async (path, source, options) => {
    if (!fails) return inner.write(path, source, options)
    await options?.beforePublish?.()
    throw new GatewayError('no_space')
  }
  const driver = altered(inner, { write, open: undefined })
  const { as } = await newTree(t, { '/': { driverOf: async () => driver } })
  await t.rejects(as().write(p('/x'), sourceOf('abc')), { code: 'no_space' })
  const file = await as().open(p('/x'), 'replace')
  await t.rejects(async () => file.commit?.(), { code: 'no_space' })
  await file.close()
  fails = false
  t.match(await as().write(p('/x'), sourceOf('abc')), {}, 'a path that is still locked would be `busy`')
})

void t.test('an upload whose backend times out while it waits for the path lock does not hold the lock', async (t) => {
  const inner = new MemoryDriver(0)
  const write = async (path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> => {
    if (options.createOnly !== true) return inner.write(path, source, options)
    const asked = options.beforePublish?.().catch(() => undefined)
    await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, 20))])
    throw new GatewayError('timeout')
  }
  const { as, dependencies } = await newTree(t, { '/': { driverOf: async () => altered(inner, { write }) } })
  const release = await dependencies.pathLocks.acquire([{ path: p('/x'), tree: false }])
  await t.rejects(as().write(p('/x'), sourceOf('abc'), { createOnly: true }), { code: 'timeout' })
  release()
  await turn()
  t.match(await as().write(p('/x'), sourceOf('abc')), {}, 'a path that is still locked would be `busy`')
})

void t.test('properties and locks of a removed file do not reappear with a new file of that name', async (t) => {
  const { as, dependencies } = await newTree(t)
  const ada = as()
  await fill(ada, { '/d/x': 'abc' })
  await ada.setProperties(p('/d/x'), [{ set: property }])
  const { lock } = await ada.lock(p('/d/x'), lockAsk)
  await ada.remove(p('/d'), { lockTokens: [lock.token] })
  await fill(ada, { '/d/x': 'abc' })
  t.same(await ada.properties(p('/d/x')), [])
  t.same(dependencies.locks.list(), [])
})

/** A backend whose folders have no revision, so that listings are cached for a time. */
const cached: MountAsk = { over: { ...bare, folderRevision: undefined, look: undefined }, cacheExpiration: 30 }

/** Another program replaces a file behind the storage that is mounted at `/`. Returns its new entry. */
async function replacedByOthers({ as, drivers }: Tree, content: string): Promise<Entry> {
  await as().write(p('/x'), sourceOf('first'))
  await as().list(p('/'))
  const replaced = await drivers.get('/')?.write?.(p('/x'), sourceOf(content))
  if (!replaced) throw new Error('the driver cannot write')
  return replaced
}

void t.test('preconditions are about what another program has stored, not about a cached listing', async (t) => {
  const tree = await newTree(t, { '/': cached })
  const seen = (await tree.as().write(p('/x'), sourceOf('first'))).entry
  const current = await replacedByOthers(tree, 'theirs')
  t.not(etagOf(current), etagOf(seen))
  const write = (ifMatch: string) => tree.as().write(p('/x'), sourceOf('mine'), { ifMatch: [ifMatch] })
  await t.rejects(write(etagOf(seen)), { code: 'precondition_failed' })
  await t.rejects(tree.as().check(p('/x'), { ifMatch: [etagOf(seen)] }), { code: 'precondition_failed' })
  t.equal(await text(tree.as().read(p('/x'))), 'theirs')
  await write(etagOf(current))
  t.equal(await text(tree.as().read(p('/x'))), 'mine')
})

void t.test('a file is changed in place as another program has stored it', async (t) => {
  const tree = await newTree(t, { '/': cached })
  await replacedByOthers(tree, 'a longer text')
  const file = await tree.as().open(p('/x'), 'update')
  await file.write([Buffer.from('A')], 0)
  await file.commit?.()
  await file.close()
  t.equal(await text(tree.as().read(p('/x'))), 'A longer text')
})

void t.test('a handle whose commit was refused can commit again', async (t) => {
  const { as, dependencies } = await newTree(t)
  const file = await as().open(p('/x'), 'replace')
  await file.write([Buffer.from('mine')], 0)
  const { lock } = await as({ userId: 2 }).lock(p('/x'), lockAsk)
  await t.rejects(async () => file.commit?.(), { code: 'locked' })
  await dependencies.locks.break(lock.token)
  const other = as().write(p('/other'), sourceOf('free'))
  await file.commit?.()
  await file.close()
  await other
  t.equal(await text(as().read(p('/x'))), 'mine')
  await as().write(p('/x'), sourceOf('later'))
})

void t.test('an operation on more than 200,000 files is refused before it changes one', async (t) => {
  let moves = 0
  const files = Array.from({ length: 200_001 }, (_, number): Entry => {
    return { name: `${number}`, kind: 'file', size: 0, modified: new Date(0) }
  })
  const over = {
    stat: async (path: Path): Promise<Entry> => ({
      name: nameOf(path),
      kind: 'folder',
      size: 0,
      modified: new Date(0),
    }),
    pages: async function* () {
      yield files
    },
    move: async () => {
      moves++
    },
  }
  const tree = (await newTree(t, { '/': { over } })).as()
  await t.rejects(
    renameEach(tree, p('/'), (name) => `${name}.old`),
    { code: 'too_large' },
  )
  t.equal(moves, 0)
})
