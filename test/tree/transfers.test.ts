/** Copies and moves of trees, item by item: repeated checks before a removal, resumption, and partial failures. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p } from '../../src/base/path.js'
import { principal } from '../accounts/principals.js'
import { Journal } from '../transfer/journal.js'
import { altered, bare, contents, newTree, sourceOf, text, type Test, type Tree } from './tree-fixture.js'

const lockAsk = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
const keep = { overwrite: false } as const
const overwrite = { overwrite: true } as const

async function fill({ as }: Tree, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await as().write(p(path), sourceOf(content), { parents: true })
  }
}

/** A driver that calls `work` after it has stored the file of this path. */
function after(path: string, work: () => Promise<unknown>): Driver {
  const inner = new MemoryDriver(0)
  return altered(inner, {
    write: async (at, ...rest) => {
      const entry = await inner.write(at, ...rest)
      if (at === path) await work()
      return entry
    },
  })
}

void t.test('a move does not remove a source that is locked after it was copied', async (t) => {
  const far = after('/tree/b', async () =>
    tree.dependencies.locks.grant(p('/near/tree/a'), lockAsk, principal({ userId: 2 })),
  )
  const tree: Tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/tree/a': 'a', '/near/tree/b': 'b' })
  const failed = { code: 'locked', failures: [{ from: '/near/tree/a' }] }
  await t.rejects(tree.as().move(p('/near/tree'), p('/far/tree'), keep), failed)
  t.same(await contents(tree.as(), p('/near')), { '/near/tree': null, '/near/tree/a': 'a' })
  t.same(await contents(tree.as(), p('/far')), { '/far/tree': null, '/far/tree/a': 'a', '/far/tree/b': 'b' })
})

void t.test('a move does not remove a source that a new rule protects after it was copied', async (t) => {
  const rule = () => tree.rule('/near/tree', { writeUsers: [2], writeUsersSub: true })
  const far = after('/tree/a', rule)
  const tree: Tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/tree/a': 'a' })
  await t.rejects(tree.as().move(p('/near/tree'), p('/far/tree'), keep), { code: 'denied' })
  t.same(await contents(tree.as(), p('/near')), { '/near/tree': null, '/near/tree/a': 'a' })
})

void t.test('a replacing copy does not remove an extraneous file of the target that is locked meanwhile', async (t) => {
  const far = after('/tree/a', async () =>
    tree.dependencies.locks.grant(p('/far/tree/old/x'), lockAsk, principal({ userId: 2 })),
  )
  const tree: Tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/tree/a': 'a', '/far/tree/old/x': 'x' })
  await t.rejects(tree.as().copy(p('/near/tree'), p('/far/tree'), overwrite), { code: 'locked' })
  t.equal(await text(tree.as().read(p('/far/tree/old/x'))), 'x')
})

void t.test('a move waits for the path lock of its source before it removes the source', async (t) => {
  const tree = await newTree(t, { '/near': {}, '/far': {} })
  await fill(tree, { '/near/a': 'a' })
  const removed: string[] = []
  tree.dependencies.events.on((event) => {
    if (event.kind === 'removed') removed.push(event.path)
  })
  const release: (() => void)[] = []
  tree.dependencies.events.on((event) => {
    if (event.kind !== 'written' || event.path !== '/far/a' || release.length > 0) return
    release.push(() => undefined)
    void tree.dependencies.pathLocks.acquire([{ path: p('/near/a'), tree: false }]).then((end) => release.push(end))
  })
  const moved = tree.as().move(p('/near/a'), p('/far/a'), keep)
  while (release.length < 2) await new Promise(setImmediate)
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.same(removed, [])
  release[1]?.()
  await moved
  t.same(removed, ['/near/a'])
})

void t.test('a resumed copy fails with exists if the target folder was created by another request', async (t) => {
  let broken = true
  const inner = new MemoryDriver(0)
  const mkdir: MemoryDriver['mkdir'] = async (...args) => {
    if (broken) throw new GatewayError('unavailable')
    return inner.mkdir(...args)
  }
  const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => altered(inner, { mkdir }) } })
  await fill(tree, { '/near/tree/a': 'a', '/near/tree/sub/b': 'b' })
  const journal = new Journal()
  const copy = () => tree.as().copy(p('/near/tree'), p('/far/tree'), { ...keep, journal })
  const move = () => tree.as().move(p('/near/tree'), p('/far/tree'), { ...keep, journal })
  await t.rejects(tree.as().copy(p('/near/tree'), p('/none/tree'), { ...keep, journal }), 'the target has no storage')
  broken = false
  journal.resumes = true
  await fill(tree, { '/far/tree/a': 'theirs' })
  await t.rejects(copy(), { code: 'exists' })
  await t.rejects(move(), { code: 'exists' })
  t.same(await contents(tree.as(), p('/far')), { '/far/tree': null, '/far/tree/a': 'theirs' })
  t.equal(await text(tree.as().read(p('/near/tree/a'))), 'a')

  await tree.as().remove(p('/far/tree'))
  journal.resumes = false
  broken = true
  await t.rejects(copy(), { code: 'unavailable' })
  broken = false
  journal.resumes = true
  await copy()
  await tree.as().remove(p('/far/tree/sub/b'))
  await copy()
  t.equal(await text(tree.as().read(p('/far/tree/sub/b'))), 'b', 'it resumes in a folder that it has created itself')
})

await t.test('a resumed copy to a disabled storage is unavailable until the storage is enabled', async (t) => {
  const tree = await newTree(t, { '/': {}, '/near': {}, '/far': {} })
  await fill(tree, { '/near/tree/a': 'a' })
  const journal = new Journal()
  journal.resumes = true
  const copy = () => tree.as().copy(p('/near/tree'), p('/far/tree'), { ...keep, journal })
  const far = (await tree.store.storages.all()).find((row) => row.mountPath === '/far')
  if (!far) throw new Error('no storage at /far')
  await tree.supervisor.apply({ ...far, disabled: true })
  await t.rejects(copy(), { code: 'unavailable' })
  await fill(tree, { '/far/other': 'of the storage below' })
  await t.rejects(copy(), { code: 'unavailable' })
  await tree.supervisor.apply(far)
  await copy()
  t.equal(await text(tree.as().read(p('/far/tree/a'))), 'a')
})

/** A move of `/near/x` that was canceled while it wrote `big`: all other files are copied, and no source is removed. */
async function cutOff(t: Test, ask: { readonly overwrite: boolean }, files: Readonly<Record<string, string>>) {
  const [inner, journal, cancel] = [new MemoryDriver(0), new Journal(), new AbortController()]
  const others = Object.keys(files).filter((path) => path.startsWith('/near/') && !path.endsWith('/big'))
  const write: MemoryDriver['write'] = async (path, ...rest) => {
    if (!path.endsWith('/big') || journal.resumes) return inner.write(path, ...rest)
    while (!others.every((other) => journal.kept.has(p(other)))) await new Promise(setImmediate)
    cancel.abort()
    throw new GatewayError('aborted')
  }
  const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => altered(inner, { write }) } })
  journal.resumes = true
  await fill(tree, files)
  journal.resumes = false
  const move = (signal?: AbortSignal) => tree.as().move(p('/near/x'), p('/far/x'), { ...ask, journal, signal })
  await move(cancel.signal).catch(() => undefined)
  journal.resumes = true
  return { tree, fs: tree.as(), journal, move }
}

void t.test('a resumed move does not mistake a different file at the target for its own copy', async (t) => {
  const { tree, fs, move } = await cutOff(t, keep, { '/near/x/a': 'mine', '/near/x/b': 'mine', '/near/x/big': 'big' })
  await fs.remove(p('/far/x'))
  await fill(tree, { '/far/x/a': 'else', '/far/x/b': 'mine' })
  await t.rejects(move(), { code: 'exists', failures: [{ from: '/near/x/a' }] })
  t.same(
    await contents(fs, p('/near')),
    { '/near/x': null, '/near/x/a': 'mine' },
    'the source of an equal file is removed',
  )
  t.same(await contents(fs, p('/far')), { '/far/x': null, '/far/x/a': 'else', '/far/x/b': 'mine', '/far/x/big': 'big' })
})

void t.test('a resumed move whose journal has no copy states keeps a different file at the target', async (t) => {
  const files = { '/near/x/a': 'mine', '/near/x/b': 'mine', '/near/x/big': 'big' }
  const { tree, fs, journal, move } = await cutOff(t, keep, files)
  for (const [path, { copy: _copy, ...kept }] of journal.kept) journal.kept.set(path, kept)
  await fill(tree, { '/far/x/a': 'else' })
  await t.rejects(move(), { code: 'exists', failures: [{ from: '/near/x/a' }] })
  t.same(await contents(fs, p('/near')), { '/near/x': null, '/near/x/a': 'mine' })
  t.equal(await text(fs.read(p('/far/x/a'))), 'else')
})

void t.test('a resumed replacing move copies a file again if its copy was replaced', async (t) => {
  const { tree, fs, move } = await cutOff(t, overwrite, { '/near/x/a': 'mine', '/near/x/big': 'big' })
  await fill(tree, { '/far/x/a': 'else' })
  await move()
  t.same(await contents(fs, p('/near')), {})
  t.same(await contents(fs, p('/far')), { '/far/x': null, '/far/x/a': 'mine', '/far/x/big': 'big' })
})

void t.test('a move does not remove a source whose copy is replaced before the removal', async (t) => {
  const far = new MemoryDriver(0)
  const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/x/a': 'mine', '/near/x/b': 'mine' })
  const journal = new Journal()
  journal.flushed = async () => {
    await far.write(p('/x/a'), sourceOf('else'), {})
    await far.write(p('/x/b'), sourceOf('mine'), {})
  }
  await t.rejects(tree.as().move(p('/near/x'), p('/far/x'), { ...keep, journal }), {
    code: 'busy',
    failures: [{ from: '/near/x/a' }],
  })
  t.same(await contents(tree.as(), p('/near')), { '/near/x': null, '/near/x/a': 'mine' })
})

void t.test('a resumed replacing move keeps files that were added to the target after the first run', async (t) => {
  const { tree, fs, move } = await cutOff(t, overwrite, {
    '/near/x/made/big': 'big',
    '/near/x/empty/big': 'big',
    '/near/x/done/a': 'a',
    '/far/x/old': 'old',
    '/far/x/empty/big': 'old',
  })
  const uploads = { '/far/x/made/mine': '1', '/far/x/empty/mine': '2', '/far/x/done/mine': '3', '/far/x/mine': '4' }
  await fill(tree, uploads)
  await move()
  const files = { '/far/x/made/big': 'big', '/far/x/empty/big': 'big', '/far/x/done/a': 'a' }
  const folders = { '/far/x': null, '/far/x/made': null, '/far/x/empty': null, '/far/x/done': null }
  t.same(await contents(fs, p('/far')), { ...folders, ...files, ...uploads })
  t.same(await contents(fs, p('/near')), {})
})

void t.test('a resumed replacing move keeps a new file with the name of a removed extraneous file', async (t) => {
  const { tree, fs, journal, move } = await cutOff(t, overwrite, { '/near/x/big': 'big', '/far/x/old': 'old' })
  t.same(journal.extraneous.get(p('/near/x')), ['old'])
  await fs.remove(p('/far/x'))
  journal.flushed = async () => {
    journal.flushed = () => Promise.resolve()
    throw new GatewayError('unavailable')
  }
  await t.rejects(move(), { code: 'unavailable' })
  await fill(tree, { '/far/x/old': 'new' })
  await move()
  t.same(await contents(fs, p('/far')), { '/far/x': null, '/far/x/big': 'big', '/far/x/old': 'new' })
})

for (const [what, copies] of [
  ['copies server-side', true],
  ['only reads and writes', false],
] as const) {
  void t.test(`on a storage that cannot rename and ${what}, a replaced folder is removed last`, async (t) => {
    const inner = new MemoryDriver(0)
    const there: boolean[] = []
    let broken = true
    const driver = altered(inner, {
      ...bare,
      copy: copies ? (...args) => inner.copy(...args) : undefined,
      write: async (path, ...rest) => {
        there.push(await inner.stat(p('/x/old')).then(Boolean, () => false))
        if (broken) throw new GatewayError('no_space')
        return inner.write(path, ...rest)
      },
    })
    const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => driver } })
    await inner.mkdir(p('/x'))
    await inner.write(p('/x/old'), sourceOf('old'))
    await fill(tree, { '/near/x': 'new' })
    await t.rejects(tree.as().copy(p('/near/x'), p('/far/x'), overwrite), { code: 'no_space' })
    t.same(await contents(tree.as(), p('/far')), { '/far/x': null, '/far/x/old': 'old' })
    broken = false
    await tree.as().copy(p('/near/x'), p('/far/x'), overwrite)
    t.same(await contents(tree.as(), p('/far')), { '/far/x': 'new' })
    t.same(there.slice(0, 2), [true, true], 'it still existed while the new file was written')
    t.same(await tree.store.intents.all(), [])
  })
}

void t.test('on a storage that rejects reserved names, the backup of a folder has a visible name', async (t) => {
  const inner = new MemoryDriver(0)
  const names: string[] = []
  const driver = altered(inner, {
    move: async (from, to, options) => {
      names.push(to)
      if (to.includes('/.tidegate-')) throw new GatewayError('not_found')
      await inner.move(from, to, options)
    },
    stat: async (path, options) => {
      if (path.includes('/.tidegate-')) throw new GatewayError('not_found')
      return inner.stat(path, options)
    },
  })
  const tree = await newTree(t, { '/': { driverOf: async () => driver } })
  await fill(tree, {
    '/new/file': 'new',
    '/old/file': 'old',
    '/old/more': 'more',
    '/file': 'file',
    '/folder/file': 'old',
  })
  const fs = tree.as()
  await fs.move(p('/new'), p('/old'), overwrite)
  await fs.move(p('/file'), p('/folder'), overwrite)
  t.same(await contents(fs, p('/')), { '/old': null, '/old/file': 'new', '/folder': 'file' })
  t.same(await tree.store.intents.all(), [])
  names.length = 0
  await t.rejects(fs.move(p('/none'), p('/old'), overwrite), { code: 'not_found' })
  t.same(names, [], 'no backup is made for a missing source')
})

void t.test('after a partial failure, properties of the transferred files follow in few steps', async (t) => {
  const bad = new Set(['/tree/7', '/tree/70'])
  const inner = new MemoryDriver(0)
  const write: MemoryDriver['write'] = async (path, ...rest) => {
    if (bad.has(path)) throw new GatewayError('denied')
    return inner.write(path, ...rest)
  }
  const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => altered(inner, { write }) } })
  const { properties } = tree.store
  const note = (value: string) => [{ set: { namespace: 'urn:x', name: 'note', value, language: '' } }]
  const count = 120
  const files = Array.from({ length: count }, (_, index) => `/tree/${index}`)
  await fill(tree, Object.fromEntries(files.map((file) => [`/near${file}`, 'x'])))
  await fill(tree, { '/far/tree/5': 'old', '/far/tree/200': 'old' })
  for (const file of files) if (file !== '/tree/5') await properties.change(p(`/near${file}`), note(file))
  await properties.change(p('/far/tree/5'), note('of the old file'))
  let steps = 0
  const follow = properties.transfer.bind(properties)
  properties.transfer = (...args) => {
    steps += 1
    return follow(...args)
  }
  const valueOf = async (path: string) => (await properties.of(p(path)))[0]?.value
  for (const kind of ['copy', 'move'] as const) {
    await t.rejects(tree.as()[kind](p('/near/tree'), p('/far/tree'), overwrite), { code: 'denied' })
    t.equal(await valueOf('/far/tree/8'), '/tree/8', kind)
    t.equal(await valueOf('/near/tree/8'), '/tree/8', 'the source stays whole, since an old folder is replaced')
    t.equal(await valueOf('/far/tree/5'), undefined, 'the properties of the replaced file are deleted')
    t.equal(await valueOf('/far/tree/7'), undefined)
    t.equal(await valueOf('/near/tree/7'), '/tree/7', 'a file that failed keeps its properties')
    t.ok(steps <= 3, `${steps} steps`)
    steps = 0
  }
})

const sameKind = { overwrite: 'same kind' } as const

void t.test('a move over an empty folder does not remove a file that was stored there while it waited', async (t) => {
  const tree = await newTree(t)
  await fill(tree, { '/full/a': 'a' })
  await tree.as().mkdir(p('/empty'))
  const release = await tree.dependencies.pathLocks.acquire([{ path: p('/empty/new'), tree: false }])
  const moved = tree.as().move(p('/full'), p('/empty'), sameKind)
  moved.catch(() => undefined)
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  await tree.drivers.get('/')?.write?.(p('/empty/new'), sourceOf('new'), {})
  release()
  await t.rejects(moved, { code: 'not_empty' })
  t.same(await contents(tree.as()), { '/empty': null, '/empty/new': 'new', '/full': null, '/full/a': 'a' })
})

/** A driver where another program stores a file in `/empty` as soon as that was listed and found empty. */
function filledWhenListed(): Driver {
  const inner = new MemoryDriver(0)
  let isFilled = false
  return altered(inner, {
    pages: async function* (path, options) {
      yield* inner.pages(path, options)
      if (path !== '/empty' || isFilled) return
      isFilled = true
      await inner.write(p('/empty/new'), sourceOf('new'))
    },
  })
}

void t.test('a move over an empty folder keeps what another program stores there after the check', async (t) => {
  const tree = await newTree(t, { '/': { driverOf: async () => filledWhenListed() } })
  await fill(tree, { '/full/a': 'a' })
  await tree.as().mkdir(p('/empty'))
  await t.rejects(tree.as().move(p('/full'), p('/empty'), sameKind), { code: 'not_empty' })
  t.same(await contents(tree.as()), { '/empty': null, '/empty/new': 'new', '/full': null, '/full/a': 'a' })
})

void t.test('so does a move between storages', async (t) => {
  const tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => filledWhenListed() } })
  await fill(tree, { '/near/full/a': 'a' })
  await tree.as().mkdir(p('/far/empty'))
  await tree.as().move(p('/near/full'), p('/far/empty'), sameKind)
  t.same(await contents(tree.as(), p('/far')), { '/far/empty': null, '/far/empty/a': 'a', '/far/empty/new': 'new' })
})

void t.test('a folder whose rename fails leaves the empty folder that it would have replaced', async (t) => {
  for (const code of ['denied', 'unsupported'] as const) {
    const move = async () => Promise.reject(new GatewayError(code))
    const inner = new MemoryDriver(0)
    let isFull = false
    const write: MemoryDriver['write'] = async (...parameters) => {
      if (isFull) throw new GatewayError('no_space')
      return inner.write(...parameters)
    }
    const copy = async () => Promise.reject(new GatewayError('no_space'))
    const tree = await newTree(t, { '/': { driverOf: async () => altered(inner, { move, write, copy }) } })
    await fill(tree, { '/full/a': 'a' })
    await tree.as().mkdir(p('/empty'))
    const property = { namespace: 'urn:x', name: 'note', value: 'kept', language: '' }
    await tree.as().setProperties(p('/empty'), [{ set: property }])
    isFull = true
    await t.rejects(tree.as().move(p('/full'), p('/empty'), sameKind), GatewayError)
    t.same(await contents(tree.as()), { '/empty': null, '/full': null, '/full/a': 'a' }, code)
    t.match(await tree.as().properties(p('/empty')), [property], code)
  }
})

void t.test('a copy that its driver gives up while it waits for the path lock leaves no lock behind', async (t) => {
  const inner = new MemoryDriver(0)
  let check: Promise<string> | undefined
  const far = altered(inner, {
    write: (_path, _source, options) => {
      check = options?.beforePublish?.().then(
        () => 'may be published',
        (error: unknown) => (error as GatewayError).code,
      )
      return Promise.reject(new GatewayError('unavailable'))
    },
  })
  const tree: Tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/a': 'a' })
  const { pathLocks } = tree.dependencies
  const claims = [{ path: p('/far/a'), tree: false }]
  const release = await pathLocks.acquire(claims)
  await t.rejects(tree.as().copy(p('/near/a'), p('/far/a'), keep), { code: 'unavailable' })
  release()
  t.equal(await check, 'aborted')
  const next = await pathLocks.acquire(claims)
  next()
})

void t.test('the journal has each failure, as the principal is told of it', async (t) => {
  const visitor = principal({
    userId: 2,
    base: '/far',
    folder: p('/far'),
    share: { id: 'Secret', pseudonym: 'p', mode: 'both' },
  })
  const far = after('/tree/a', () => tree.dependencies.locks.grant(p('/far/tree/old'), lockAsk, visitor))
  const tree: Tree = await newTree(t, { '/near': {}, '/far': { driverOf: async () => far } })
  await fill(tree, { '/near/tree/a': 'a', '/far/tree/old': 'old' })
  const journal = new Journal()
  const copying = tree.as().copy(p('/near/tree'), p('/far/tree'), { ...overwrite, journal })
  await t.rejects(copying, { code: 'locked', failures: [{ from: '/near/tree' }] })
  t.same([...journal.failures], [['/near/tree', 'locked by a visitor of a share']])
})
