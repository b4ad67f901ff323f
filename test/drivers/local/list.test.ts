/** Listings of Local: large folders, names that cannot be listed, hidden files, and sizes of folders. */
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { workerThread } from '../../../drivers/local/worker-thread.js'
import type { Entry } from '../../../src/contract/entry.js'
import { at, listed, namesIn, put, shownBy, type WritableDriver } from '../../driver-conformance/subject.js'
import { processorTime } from '../../processor-time.js'
import { openLocal } from '../env.js'

const base = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-list-'))
t.teardown(() => rm(base, { recursive: true }))

await t.test(
  'Local lists 100,000 entries in pages, with bounded memory and without blocking the event loop',
  async (t) => {
    const count = 100_000
    const folder = join(base, 'many')
    mkdirSync(folder)
    for (let index = 0; index < count; index++) writeFileSync(join(folder, `entry-${index}`), '')
    const driver = await openLocal(base)
    let longest = 0
    let last = process.cpuUsage()
    const timer = setInterval(() => {
      const { user, system } = process.cpuUsage(last)
      longest = Math.max(longest, (user + system) / 1000)
      last = process.cpuUsage()
    }, 1)
    const before = process.memoryUsage.rss()
    let most = 0
    let total = 0
    const took = await processorTime(async () => {
      for await (const page of driver.pages(at('/many'))) {
        total += page.length
        most = Math.max(most, process.memoryUsage.rss() - before)
      }
    })
    clearInterval(timer)
    t.comment(`${took.toFixed(0)} ms, longest turn ${longest.toFixed(0)} ms, ${(most / 1048576).toFixed(0)} MiB more`)
    t.equal(total, count)
    t.ok(took < 10_000, 'with little work for each entry')
    t.ok(longest < 1000, 'the event loop is not blocked')
    t.ok(most < 100 * 1024 * 1024, 'memory is bounded')
    await driver.close?.()
  },
)

await t.test('Local lists a large folder by the worker thread with the same entries as stat()', async (t) => {
  const folder = join(base, 'mixed')
  mkdirSync(folder)
  for (let index = 0; index < 6000; index++) {
    const file = join(folder, `entry-${index}`)
    if (index % 10 === 0) mkdirSync(file)
    else if (index % 10 === 1) symlinkSync(`entry-${index + 1}`, file)
    else writeFileSync(file, 'x'.repeat(index % 7))
  }
  const driver = await openLocal(base)
  // The first large listing only starts the thread.
  while (!workerThread()) await new Promise((resolve) => setTimeout(resolve, 10))
  const entries = (await listed(driver, '/mixed')).toSorted((a, b) => a.name.localeCompare(b.name))
  t.equal(entries.length, 6000)
  const alone: Entry[] = []
  for (const { name } of entries) alone.push(await driver.stat(at(`/mixed/${name}`)))
  t.strictSame(entries, alone)
  await driver.close?.()
})

await t.test('Local lists names that do not survive a round trip, and the core leaves them out', async (t) => {
  const folder = join(base, 'names')
  mkdirSync(folder)
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/bad-`), Buffer.from([0xff, 0xfe])]), '')
  writeFileSync(join(folder, 'back\\slash'), '')
  writeFileSync(join(folder, 'good'), '')
  const driver = await openLocal(folder)
  const { names, logged } = shownBy(driver)
  t.same(await names('/'), ['good'])
  t.equal(logged.length, 1)
  t.equal((await namesIn(driver, '/')).length, 3)
  await driver.close?.()
})

await t.test('show_hidden decides whether Local lists hidden files', async (t) => {
  const folder = join(base, 'hidden')
  mkdirSync(folder)
  writeFileSync(join(folder, '.dot'), '')
  writeFileSync(join(folder, 'file'), '')
  const shows = await openLocal(folder)
  const hides = await openLocal(folder, { show_hidden: false })
  t.same(await namesIn(shows, '/'), ['.dot', 'file'])
  t.same(await namesIn(hides, '/'), ['file'])
})

await t.test('directory_size makes the size of a folder the sum of its files', async (t) => {
  const folder = join(base, 'sizes')
  mkdirSync(folder)
  const driver = (await openLocal(folder, { directory_size: true })) as WritableDriver
  await driver.mkdir(at('/a'))
  await driver.mkdir(at('/a/b'))
  await put(driver, '/a/one', 'x'.repeat(100))
  await put(driver, '/a/b/two', 'x'.repeat(23))
  const entries = await listed(driver, '/')
  t.match(entries, [{ name: 'a', kind: 'folder', size: 123 }])
  t.same(entries[0], await driver.stat(at('/a')))
  await driver.close?.()
})

await t.test('Local returns a known entry again while it is unchanged', async (t) => {
  const folder = join(base, 'known')
  mkdirSync(folder)
  const driver = (await openLocal(folder)) as WritableDriver
  for (const name of ['same', 'longer', 'mode', 'other']) await put(driver, `/${name}`, 'abc')
  await driver.mkdir(at('/folder'))
  symlinkSync('same', join(folder, 'link'))
  const before = new Map((await listed(driver, '/')).map((entry) => [entry.name, entry]))
  const after = new Map<string, Entry>()
  await put(driver, '/longer', 'abcdef')
  chmodSync(join(folder, 'mode'), 0o600)
  await put(driver, '/moved', 'xyz')
  renameSync(join(folder, 'moved'), join(folder, 'other'))
  for await (const page of driver.pages(at('/'), { known: (name) => before.get(name) })) {
    for (const entry of page) after.set(entry.name, entry)
  }
  for (const name of ['same', 'folder']) t.equal(after.get(name), before.get(name), name)
  for (const name of ['longer', 'mode', 'other']) t.not(after.get(name), before.get(name), name)
  for (const entry of after.values()) t.same(entry, await driver.stat(at(`/${entry.name}`)), entry.name)
  await driver.close?.()
})
