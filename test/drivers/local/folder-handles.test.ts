/** Folder handles that stay open for a moment after use: at each event, a path means the folder that is there then. */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextEvent } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { RootFolder } from '../../../drivers/local/root-folder.js'
import { asPath } from '../../../src/base/path.js'
import { byteSource } from '../../../src/contract/sources.js'
import { openLocal } from '../env.js'

const path = asPath('/shelf/box')

function rootAt(test: Test) {
  const host = test.testdir({ outside: { mark: 'outside' }, root: { shelf: { box: { mark: 'first' } } } })
  const root = new RootFolder(join(host, 'root'))
  test.teardown(() => root.close())
  const mark = async (): Promise<string> => {
    const folder = await root.folder(path)
    try {
      return readFileSync(folder.pathOf('mark'), 'utf8')
    } finally {
      folder.close()
    }
  }
  return { host, root, mark }
}

await t.test('RootFolder finds a folder that replaced a cached one', async (t) => {
  const { host, mark } = rootAt(t)
  t.equal(await mark(), 'first')
  await nextEvent()
  renameSync(join(host, 'root/shelf/box'), join(host, 'root/shelf/old'))
  mkdirSync(join(host, 'root/shelf/box'))
  writeFileSync(join(host, 'root/shelf/box/mark'), 'second')
  t.equal(await mark(), 'second')
})

await t.test('RootFolder does not follow a symlink that replaced a parent of a cached folder', async (t) => {
  const { host, mark } = rootAt(t)
  t.equal(await mark(), 'first')
  await nextEvent()
  rmSync(join(host, 'root/shelf'), { recursive: true })
  mkdirSync(join(host, 'outside/box'))
  symlinkSync(join(host, 'outside'), join(host, 'root/shelf'))
  await t.rejects(mark(), { code: 'denied' })
})

await t.test('RootFolder reports a cached folder that was removed as not_found', async (t) => {
  const { host, mark } = rootAt(t)
  t.equal(await mark(), 'first')
  await nextEvent()
  rmSync(join(host, 'root/shelf'), { recursive: true })
  await t.rejects(mark(), { code: 'not_found' })
})

await t.test('RootFolder shares a cached folder between callers, and closes it after the last one', async (t) => {
  if (process.platform !== 'linux') {
    t.pass('counting', { skip: 'descriptors are counted in /proc' })
    return
  }
  const { root } = rootAt(t)
  const open = () => readdirSync('/proc/self/fd').length
  const before = open()
  const [one, other] = [await root.folder(path), await root.folder(path)]
  one.close()
  root.close()
  t.equal(readFileSync(other.pathOf('mark'), 'utf8'), 'first')
  other.close()
  t.equal(open(), before)
})

await t.test('the driver finds a folder that it has itself moved or removed, without waiting in between', async (t) => {
  const driver = await openLocal(t.testdir({ a: { f: 'old' }, c: {} }))
  t.teardown(() => driver.close?.())
  const [a, b, c] = [asPath('/a'), asPath('/b'), asPath('/c')]
  const inA = asPath('/a/f')
  await driver.stat(inA)
  await driver.move?.(a, b)
  await t.rejects(driver.stat(inA), { code: 'not_found' })
  await driver.mkdir?.(a)
  await driver.write?.(inA, byteSource(Buffer.from('newer')))
  t.equal((await driver.stat(inA)).size, 5)
  t.equal((await driver.stat(asPath('/b/f'))).size, 3)
  await t.rejects(driver.stat(asPath('/c/x')), { code: 'not_found' })
  await driver.remove?.(c)
  await driver.mkdir?.(c)
  t.equal((await driver.write?.(asPath('/c/x'), byteSource(Buffer.from('x'))))?.size, 1)
})
