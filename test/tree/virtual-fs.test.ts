/** What the tree asks of drivers: which calls, how often, and with which options. */
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { asPath } from '../../src/base/path.js'
import { openLocal } from '../drivers/env.js'
import { altered, newTree, sourceOf, text, lockAsk, fill, pagesOf } from './tree-fixture.js'

const p = asPath

void t.test('listing a file fails with not_folder, and paths below a file are not_found', async (t) => {
  const { as } = await newTree(t, { '/': {}, '/disk': { driverOf: () => openLocal(t.testdir()) } })
  for (const file of ['/x', '/disk/x']) {
    await fill(as(), { [file]: 'abc' })
    await t.rejects(as().list(p(file)), { code: 'not_folder' }, file)
    await t.rejects(pagesOf(as(), file), { code: 'not_folder' }, file)
    for (const below of [`${file}/y`, `${file}/y/z`]) {
      await t.rejects(as().stat(p(below)), { code: 'not_found' }, below)
      await t.rejects(as().list(p(below)), { code: 'not_found' }, below)
      await t.rejects(pagesOf(as(), below), { code: 'not_found' }, below)
    }
  }
})

void t.test('no driver receives what only the tree evaluates: passwords, lock tokens and preconditions', async (t) => {
  const seen = new Map<string, Set<string>>()
  const noting = (inner: Driver): Driver =>
    new Proxy(inner, {
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key)
        if (typeof value !== 'function') return value
        return (...args: readonly unknown[]) => {
          const keys = seen.get(String(key)) ?? new Set()
          for (const name of Object.keys(args.at(-1) ?? {})) keys.add(name)
          seen.set(String(key), keys)
          return Reflect.apply(value, target, args) as unknown
        }
      },
    })
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-options-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const { as } = await newTree(t, {
    '/': { driverOf: async () => noting(await openLocal(folder)) },
    '/memory': { driverOf: async () => noting(altered(new MemoryDriver(0), { folderRevision: undefined })) },
  })
  const fs = as()
  const signal = new AbortController().signal
  const ask = { signal, password: 'secret', lockTokens: ['opaquelocktoken:x'], ifMatch: '*' } as const
  const fresh = { signal, password: 'secret', lockTokens: ['opaquelocktoken:x'] } as const
  for (const base of ['', '/memory']) {
    const at = (name: string) => p(`${base}/${name}`)
    await fs.mkdir(at('a/b'), { ...fresh, parents: true })
    await fs.mkdir(at('c'), fresh)
    await fs.write(at('a/x'), sourceOf('abc'), { ...fresh, parents: true })
    await fs.write(at('a/x'), sourceOf('abc'), ask)
    for (const mode of ['replace', 'update'] as const) {
      const handle = await fs.open(at('a/x'), mode, ask)
      await handle.write([Buffer.from('def')], 0)
      await handle.commit?.()
      await handle.close()
    }
    await (await fs.open(at('a/x'), 'read', fresh)).close()
    const sent = await fs.openToSend(at('a/x'), { ...fresh, route: 'file server' })
    if (sent.kind === 'stream') await sent.file?.close()
    await text(fs.read(at('a/x'), undefined, fresh))
    await fs.stat(at('a/x'), fresh)
    await fs.view(at('a/x'), fresh)
    await fs.list(at('a'), { ...fresh, refresh: true, limit: 1 })
    for await (const page of fs.pages(at('a'), fresh)) t.ok(page)
    await fs.usage(at('a'), fresh).catch(() => undefined)
    await fs.directUrl(at('a/x'), fresh)
    await fs.downloadRoute(at('a/x'), { ...fresh, route: 'file details' }).catch(() => undefined)
    await fs.thumbnail(at('a/x'), 'image', fresh).catch(() => undefined)
    await fs.setAttributes(at('a/x'), { modified: new Date(0) }, ask)
    await fs.setProperties(at('a/x'), [], ask)
    const { lock } = await fs.lock(at('a/x'), lockAsk, ask)
    await fs.unlock(at('a/x'), lock.token, fresh)
    await fs.copy(at('a/x'), at('a/y'), { ...ask, overwrite: false })
    await fs.copy(at('a'), at('d'), { ...ask, overwrite: false })
    await fs.move(at('d'), at('e'), { ...ask, overwrite: false })
    await fs.move(at('e/x'), at('e/y'), { ...ask, overwrite: true })
    if (base === '') {
      await fs.symlink(at('link'), 'a/x', fresh)
      await fs.readSymlink(at('link'), fresh)
      await fs.setOwnAttributes(at('link'), { modified: new Date(0) }, fresh)
      await fs.hardLink(at('a/x'), at('hard'), fresh)
    }
    await fs.remove(at('e'), ask)
  }
  await fs.copy(p('/a'), p('/memory/f'), { ...ask, overwrite: false })
  await fs.move(p('/memory/f'), p('/f'), { ...ask, overwrite: false })
  const own = ['password', 'lockTokens', 'ifMatch', 'overwrite', 'parents', 'limit', 'preferred']
  const leaked = [...seen].flatMap(([method, keys]) => {
    return own.filter((key) => keys.has(key)).map((key) => `${method}: ${key}`)
  })
  t.same(leaked, [])
  t.ok(seen.size > 12, [...seen.keys()].join(' '))
})

void t.test('a driver without handles knows for whom each read and write of a handle is', async (t) => {
  const holders: [string, unknown][] = []
  const memory = new MemoryDriver(0)
  const driver = altered(memory, {
    open: undefined,
    read: (path, range, options) => {
      holders.push(['read', options?.holder])
      return memory.read(path, range, options)
    },
    write: (path, source, options) => {
      holders.push(['write', options?.holder])
      return memory.write(path, source, options)
    },
  })
  const { as } = await newTree(t, { '/': { driverOf: async () => driver } })
  const fs = as()
  for (const mode of ['replace', 'update'] as const) {
    const handle = await fs.open(p('/x'), mode)
    await handle.write([Buffer.from('abc')], 0)
    await handle.commit?.()
    await handle.close()
  }
  const file = await fs.open(p('/x'), 'read')
  await file.read(Buffer.alloc(3), 0)
  await file.close()
  const { holder } = fs.principal
  t.same(
    holders,
    ['write', 'read', 'write', 'read'].map((call) => [call, holder]),
  )
})

void t.test('a write that is refused for its share of descriptors leaves no transfer open', async (t) => {
  const { as, dependencies } = await newTree(t, { '/': {} })
  const { descriptors, events } = dependencies
  const { holder } = as().principal
  const held: (() => void)[] = []
  t.throws(() => {
    for (;;) held.push(descriptors.take(holder, 1))
  })
  await t.rejects(as().write(p('/x'), sourceOf('abc', { rereadable: false })), { code: 'busy' })
  t.equal(events.openTransfers, 0)
  for (const release of held) release()
  await as().write(p('/x'), sourceOf('abc', { rereadable: false }))
})

void t.test('a download from a driver without handles leaves no transfer open', async (t) => {
  const driverOf = async () => altered(new MemoryDriver(0), { open: undefined })
  const { as, dependencies } = await newTree(t, { '/': { driverOf } })
  await fill(as(), { '/x': 'abc' })
  const sent = await as().openToSend(p('/x'))
  t.match(sent, { kind: 'stream', file: undefined })
  t.equal(await text(as().read(p('/x'))), 'abc')
  t.equal(dependencies.events.openTransfers, 0)
})

void t.test('a driver with look() is called once for the real path and the entry of a path', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-looks-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const asked: string[] = []
  const counted = async (): Promise<Driver> => {
    const disk = (await openLocal(folder)) as Required<Driver>
    return altered(disk, {
      look: (path, options) => {
        asked.push(`look ${path}`)
        return disk.look(path, options)
      },
      realPath: (path, options) => {
        asked.push(`real ${path}`)
        return disk.realPath(path, options)
      },
      stat: (path, options) => {
        asked.push(`stat ${path}`)
        return disk.stat(path, options)
      },
    })
  }
  const { as } = await newTree(t, { '/': { driverOf: counted } })
  await as().mkdir(p('/d'))
  const written = async (path: string, changes: number): Promise<Entry | undefined> => {
    asked.length = 0
    const file = await as().open(p(path), 'replace')
    await file.write([Buffer.from(`${changes}`)], 0)
    await file.commit?.()
    await file.close()
    return file.old
  }
  t.equal(await written('/d/x', 1), undefined)
  t.same(asked, ['look /d/x', 'look /d/x'], 'at the opening and before publishing')
  t.match(await written('/d/x', 20), { kind: 'file', size: 1 }, 'the replaced entry is returned')
  asked.length = 0
  await as().write(p('/d/x'), sourceOf('300'))
  t.same(asked, ['look /d/x', 'look /d/x'])
  await as().symlink(p('/d/link'), 'x')
  t.match(await written('/d/link', 4), { size: 3 }, 'through a symlink, the entry of its target')
  t.equal(await text(as().read(p('/d/x'))), '4')
  await as().symlink(p('/d/nowhere'), 'missing')
  t.equal(await written('/d/nowhere', 5), undefined)
  t.equal(await text(as().read(p('/d/missing'))), '5', 'a missing target of a symlink is made')
  t.match(await as().stat(p('/d/nowhere'), { ofSymlink: true }), { kind: 'symlink' }, 'the symlink stays')
})

void t.test('setAttributes() loads no entry unless a precondition needs one', async (t) => {
  const asked: string[] = []
  const memory = new MemoryDriver(0)
  const counted = altered(memory, {
    stat: (path, options) => {
      asked.push(path)
      return memory.stat(path, options)
    },
  })
  const { as } = await newTree(t, { '/': { driverOf: async () => counted } })
  await as().write(p('/x'), sourceOf('abc'))
  asked.length = 0
  await as().setAttributes(p('/x'), { modified: new Date(1000) })
  t.same(asked, [])
  t.match(await as().stat(p('/x')), { modified: new Date(1000) })
  await t.rejects(as().setAttributes(p('/x'), { modified: new Date(0) }, { ifMatch: ['other'] }), {
    code: 'precondition_failed',
  })
  await t.rejects(as().setAttributes(p('/none'), { modified: new Date(0) }), { code: 'not_found' })
})

void t.test('a listing resolves the spelling of its path once, whole or in pages', async (t) => {
  const asked: string[] = []
  const memory = new MemoryDriver(0, false)
  const counted = altered(memory, {
    stat: (path, options) => {
      asked.push(path)
      return memory.stat(path, options)
    },
  })
  const { as } = await newTree(t, { '/': { driverOf: async () => counted } })
  await as().mkdir(p('/Folder/Sub'), { parents: true })
  asked.length = 0
  for await (const page of as().pages(p('/folder/sub'))) t.same(page, [])
  t.equal(asked.filter((path) => path === '/Folder/sub').length, 1, 'in pages')
  asked.length = 0
  t.equal((await as().list(p('/folder/sub'))).total, 0)
  t.equal(asked.filter((path) => path === '/Folder/sub').length, 1, 'whole')
})

void t.test('searches and thumbnails of one user wait for their turns, and those of others do not', async (t) => {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const thumbnail: Driver['thumbnail'] = async (path) => {
    begun.push(path)
    await new Promise<void>((resolve) => ends.push(resolve))
    return { type: 'image/png', bytes: Buffer.alloc(0) }
  }
  const { as, dependencies } = await newTree(t, { '/': { over: { thumbnail } } })
  const [ada, eve] = [as({ userId: 1 }), as({ userId: 2 })]
  const paths = Array.from({ length: 20 }, (_, number) => asPath(`/${number}`))
  for (const path of [...paths, asPath('/eve')]) await ada.write(path, sourceOf('x'))
  const made = paths.map((path) => ada.thumbnail(path, 'image'))
  while (begun.length < 8) await delay(5)
  made.push(eve.thumbnail(asPath('/eve'), 'image'))
  while (!begun.includes('/eve')) await delay(5)
  t.equal(begun.length, 9, 'half of 16, and one')
  t.equal(dependencies.thumbnails.held, 9)
  const all = Promise.all(made)
  while (begun.length < 21 || ends.length > 0) {
    ends.shift()?.()
    await delay(1)
  }
  await all
  t.equal(dependencies.thumbnails.held, 0)

  const held = Array.from({ length: 4 }, () => dependencies.searches.hold(1))
  const controller = new AbortController()
  const options = { keywords: 'x', kind: 'any', offset: 0, limit: 1, signal: controller.signal } as const
  const waiting = ada.search(asPath('/'), options)
  t.match(await eve.search(asPath('/'), options).catch((error: unknown) => error), { code: 'unavailable' }, 'at once')
  controller.abort()
  await t.rejects(waiting, { code: 'aborted' })
  for (const release of held) release()
  t.equal(dependencies.searches.held, 0)
})
