/** Moves of folders that a backend cannot rename: made again after a failure, and while others change the folder. */
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p, type Path } from '../../src/base/path.js'
import { altered, bare, contents, fill, keep, newTree, overwrite } from './tree-fixture.js'

const sameKind = { overwrite: 'same kind' } as const
const nothing = async () => undefined
const unavailable = async () => {
  throw new GatewayError('unavailable')
}
const members = { '/d/a': 'one', '/d/b': 'two', '/d/n': null, '/d/n/c': 'three' }
const moved = { '/e': null, '/e/a': 'one', '/e/b': 'two', '/e/n': null, '/e/n/c': 'three' }

/** A tree with `members`. `before` and `after` are called at each change of the backend, and may make it fail. */
async function start(t: Test) {
  type Step = (path: Path) => Promise<void>
  const before: Record<'write' | 'remove', Step> = { write: nothing, remove: nothing }
  const after: Record<'mkdir', Step> = { mkdir: nothing }
  const driver = new MemoryDriver(0)
  const faulty = altered(driver, {
    ...bare,
    write: async (path, source, options) => {
      await before.write(path)
      return driver.write(path, source, options)
    },
    mkdir: async (path) => {
      await driver.mkdir(path)
      await after.mkdir(path)
    },
    remove: async (path) => {
      await before.remove(path)
      await driver.remove(path)
    },
  })
  const tree = await newTree(t, { '/': { driverOf: async () => faulty } })
  const fs = tree.as()
  await fill(fs, members)
  const rename = (options: typeof keep | typeof overwrite | typeof sameKind = keep) =>
    fs.move(p('/d'), p('/e'), options)
  const restart = async () => {
    for (const row of tree.mounts.rows()) await tree.supervisor.apply(row)
  }
  return { fs, driver, before, after, rename, restart, intents: tree.store.intents }
}

for (const options of [keep, sameKind, overwrite]) {
  void t.test(`the same move completes one that failed, overwrite: ${options.overwrite}`, async (t) => {
    const { fs, before, after, rename, restart, intents } = await start(t)
    after.mkdir = unavailable
    await t.rejects(rename(options), { code: 'unavailable' }, 'the target is made, but that is not known')
    t.same(await contents(fs), { ...members, '/d': null, '/e': null })
    after.mkdir = nothing
    before.write = unavailable
    await t.rejects(rename(options), { code: 'unavailable' }, 'no member is copied')
    await t.rejects(rename(options), { code: 'unavailable' }, 'again')
    before.write = (path) => (path === '/e/b' ? unavailable() : nothing())
    await t.rejects(rename(options), { code: 'unavailable' }, 'one member is not copied')
    t.match(
      await contents(fs),
      { ...members, '/e/a': 'one', '/e/n/c': 'three' },
      'nothing is removed before all is copied',
    )
    await restart()
    before.write = nothing
    before.remove = (path) => (path === '/d/b' ? unavailable() : nothing())
    await t.rejects(rename(options), { code: 'unavailable' }, 'one member is not removed')
    before.remove = (path) => (path === '/d' ? unavailable() : nothing())
    await t.rejects(rename(options), { code: 'unavailable' }, 'the empty folder is not removed')
    before.remove = nothing
    await rename(options)
    t.same(await contents(fs), moved)
    t.same(await intents.all(), [])
  })
}

void t.test('a move that is made again replaces nothing that others have put at the target', async (t) => {
  const { fs, before, rename } = await start(t)
  before.write = unavailable
  await t.rejects(rename(), { code: 'unavailable' })
  before.write = nothing
  await fill(fs, { '/e/a': 'theirs', '/e/other': 'theirs' })
  await t.rejects(rename(), { code: 'exists', failures: [{ path: '/e/a' }] })
  t.match(await contents(fs), { ...members, '/e/a': 'theirs', '/e/other': 'theirs', '/e/b': 'two' })
  await fs.remove(p('/e/a'))
  await rename()
  t.same(await contents(fs), { ...moved, '/e/other': 'theirs' })
})

void t.test('a folder that the move has not made is not entered', async (t) => {
  const foreign = { '/e': null, '/e/other': 'theirs' }
  const refuses = async ({ fs, rename }: Awaited<ReturnType<typeof start>>, why: string) => {
    const seen = await contents(fs)
    await t.rejects(rename(), { code: 'exists' }, why)
    await t.rejects(rename(sameKind), { code: 'not_empty' }, why)
    t.same(await contents(fs), seen, why)
  }
  const failed = async () => {
    const ask = await start(t)
    ask.before.write = unavailable
    await ask.rename().catch(nothing)
    ask.before.write = nothing
    return ask
  }

  const never = await start(t)
  await fill(never.fs, foreign)
  await refuses(never, 'no move was made')

  const unmade = await start(t)
  const mkdir = unmade.driver.mkdir.bind(unmade.driver)
  unmade.driver.mkdir = unavailable
  await t.rejects(unmade.rename(), { code: 'unavailable' })
  unmade.driver.mkdir = mkdir
  await fill(unmade.fs, foreign)
  await refuses(unmade, 'the move could not make its target')

  const removed = await failed()
  await removed.fs.remove(p('/e'))
  await fill(removed.fs, foreign)
  await refuses(removed, 'what it made was removed')

  const renamed = await failed()
  await renamed.fs.move(p('/e'), p('/f'), keep)
  await fill(renamed.fs, foreign)
  await refuses(renamed, 'what it made was renamed')

  for (const kind of ['copy', 'move'] as const) {
    const replaced = await failed()
    await fill(replaced.fs, { '/x/other': 'theirs' })
    await replaced.fs[kind](p('/x'), p('/e'), overwrite)
    await refuses(replaced, `what it made was replaced by a ${kind}`)
  }

  const another = await failed()
  await another.fs.remove(p('/d'))
  await fill(another.fs, { ...members, ...foreign })
  await refuses(another, 'its source was removed')

  const merged = await start(t)
  await fill(merged.fs, { '/e': null })
  merged.before.write = (path) => (path === '/e/b' ? unavailable() : nothing())
  await t.rejects(merged.rename(sameKind), { code: 'unavailable' })
  await refuses(merged, 'it moved into an empty folder that existed')
})

void t.test('a running move is not continued by another one', async (t) => {
  const { fs, before, rename } = await start(t)
  let second: Promise<unknown> | undefined
  before.write = async () => {
    second ??= rename().catch((error: unknown) => error)
    await second
  }
  await rename()
  t.match(await second, { code: 'exists' })
  t.same(await contents(fs), moved)
})

void t.test('a move leaves out what another client removes meanwhile', async (t) => {
  const away = async (driver: MemoryDriver, ...paths: readonly string[]) => {
    for (const path of paths) await driver.remove(p(path))
  }
  const { '/e/b': b, ...others } = moved
  const { '/e/n/c': c, ...withoutC } = moved

  const uncopied = await start(t)
  uncopied.before.write = async (path) => {
    if (path !== '/e/b') return
    await away(uncopied.driver, '/d/b')
    throw new GatewayError('not_found')
  }
  await uncopied.rename()
  t.same(await contents(uncopied.fs), others, `${b} was not copied`)

  const folder = await start(t)
  folder.before.write = async (path) => {
    if (path !== '/e/n/c') return
    await away(folder.driver, '/d/n/c', '/d/n')
    throw new GatewayError('not_found')
  }
  await folder.rename()
  t.same(await contents(folder.fs), withoutC, `${c} was removed with its folder`)

  const copied = await start(t)
  copied.before.remove = async (path) => {
    if (path === '/d/a') await away(copied.driver, '/d/b', '/d/n/c', '/d/n')
    copied.before.remove = nothing
  }
  await copied.rename()
  t.same(await contents(copied.fs), moved, 'what was copied remains')
})

void t.test('a move of a source that is missing as a whole fails', async (t) => {
  const { fs, driver, before, rename } = await start(t)
  before.write = async () => {
    const stat = driver.stat.bind(driver)
    driver.stat = async (path, options) => {
      if (path.startsWith('/d')) throw new GatewayError('not_found')
      return stat(path, options)
    }
    throw new GatewayError('not_found')
  }
  await t.rejects(rename(), { code: 'not_found' })
  t.same(await contents(fs, p('/e')), { '/e/n': null })
})
