/**
 * Replacing files on Quark: whatever fails in between, the old or the new file has the name, and nothing is left over.
 */
import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Source } from '../../../src/contract/call-options.js'
import { byteSource } from '../../../src/contract/sources.js'
import { at, namesIn, refuses, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { startQuark, type QuarkDouble } from '../../doubles/quark.js'
import type { Fault } from '../../doubles/requests.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { file, openOn } from './mount.js'

const lag = 20
/** Calls that a broken connection does not stop are sent three times. */
const always = 99
const renames = /file\/rename/
const refusal: Fault = { answer: 400, body: '{"status":400,"code":1,"message":"no"}' }

function hashed(content: string): Source {
  const digest = (name: string) => createHash(name).update(content).digest('hex')
  return { ...byteSource(Buffer.from(content)), bytes: undefined, hashes: { md5: digest('md5'), sha1: digest('sha1') } }
}

async function withOldFile(t: Test, options: Parameters<typeof startQuark>[1] = {}) {
  const double = await startQuark(t, options)
  const { state } = memoryState()
  const driver = await openOn(double, { listingLag: lag }, { state })
  await driver.write(file, hashed('old'))
  const reopened = async () => {
    await driver.close?.()
    return openOn(double, { listingLag: lag }, { state })
  }
  return { double, driver, reopened }
}

/** Waits until the drive has one file, and checks that it is the one that the driver shows. */
async function settles(t: Test, { drive, contents }: QuarkDouble, driver: WritableDriver): Promise<string> {
  for (;;) {
    const shown = await namesIn(driver, '/')
    t.same(shown, ['file'], 'one file is shown')
    const [only, ...others] = drive.members('0')
    if (only?.name === 'file' && others.length === 0) break
    await wait(10)
  }
  const content = drive.members('0')[0]?.content
  t.ok(content)
  const stored = (await contents.read(content!).toArray()).join('')
  t.equal(await textAt(driver, '/file'), stored)
  return stored
}

await t.test('the old file is shown until the new one has its name, and no name is left over', async (t) => {
  const { double, driver } = await withOldFile(t)
  const names = new Set<string>()
  double.requests.inject(renames, { delay: 50 }, 2)
  const writing = driver.write(file, hashed('new'))
  let isWritten = false
  void writing.then(() => (isWritten = true))
  while (!isWritten) {
    const shown = await namesIn(driver, '/')
    t.same(shown, ['file'])
    names.add(await textAt(driver, '/file'))
    await wait(5)
  }
  t.same(
    [...names].filter((each) => each !== 'old' && each !== 'new'),
    [],
  )
  t.equal(await settles(t, double, driver), 'new')
  await driver.close?.()
})

for (const [what, which] of [
  ['setting the old file aside', /file\/rename/],
  ['completing', /^POST ul-zb\./],
  ['finishing', /upload\/finish/],
] as const) {
  await t.test(`a refusal of ${what} leaves the old file`, async (t) => {
    const { double, driver } = await withOldFile(t)
    double.requests.inject(which, refusal, 1)
    await t.rejects(driver.write(file, hashed('new')))
    double.requests.clearFaults()
    t.equal(await textAt(driver, '/file'), 'old')
    await driver.close?.()
  })
}

await t.test('if the new file cannot get the name, the old one gets it back at once', async (t) => {
  const { double, driver } = await withOldFile(t)
  double.requests.inject(renames, { delay: 0 }, 1)
  double.requests.inject(renames, refusal, 1)
  await t.rejects(driver.write(file, hashed('new')))
  t.equal(await textAt(driver, '/file'), 'old')
  t.equal(await settles(t, double, driver), 'old')
  await driver.close?.()
})

for (const isDone of [true, false]) {
  const title = isDone ? 'the answer to the last renaming is lost' : 'the last renaming fails for an unknown reason'
  for (const isReopened of [true, false]) {
    await t.test(`${title}${isReopened ? ', and the storage is opened again' : ''}`, async (t) => {
      const { double, driver, reopened } = await withOldFile(t)
      double.requests.inject(renames, { delay: 0 }, 1)
      double.requests.inject(renames, isDone ? { loseAnswer: true } : { answer: 502 }, always)
      await refuses(t, () => driver.write(file, hashed('new')), ['unavailable', 'timeout'], 'an unknown outcome')
      double.requests.clearFaults()
      t.same(await namesIn(driver, '/'), ['file'])
      const later = isReopened ? await reopened() : driver
      t.equal(await settles(t, double, later), isDone ? 'new' : 'old')
      await later.write(file, hashed('newer'))
      t.equal(await settles(t, double, later), 'newer')
      await later.close?.()
    })
  }
}

await t.test('an old file that cannot be removed is removed later', async (t) => {
  const { double, driver, reopened } = await withOldFile(t)
  double.requests.inject(/file\/delete/, refusal, 1)
  await driver.write(file, hashed('new'))
  t.equal(await textAt(driver, '/file'), 'new')
  t.same(await namesIn(driver, '/'), ['file'])
  const later = await reopened()
  t.equal(await settles(t, double, later), 'new')
  await later.close?.()
})

await t.test('what an older version has left is settled', async (t) => {
  const double = await startQuark(t)
  const { state } = memoryState()
  const driver = await openOn(double, { listingLag: lag }, { state })
  await driver.write(file, hashed('old'))
  await driver.move!(file, at('/file~replaced-00000000'))
  await driver.write(file, hashed('new'))
  await driver.close?.()
  const [oldId, newId] = ['file~replaced-00000000', 'file'].map(
    (name) => double.drive.members('0').find((each) => each.name === name)?.fid,
  )
  await state.set('replacing', JSON.stringify([{ folderId: '0', name: 'file', oldId, newId }]))
  const later = await openOn(double, { listingLag: lag }, { state })
  t.equal(await settles(t, double, later), 'new')
  await later.close?.()
})

await t.test('names that entries had for a moment only are not shown by listings that lag', async (t) => {
  const double = await startQuark(t, { lag: 300 })
  const driver = await openOn(double, { listingLag: 1000 })
  for (const folder of ['/one', '/two']) await driver.mkdir(at(folder))
  await driver.write(at('/one/file'), hashed('old'))
  await wait(350)
  const only = async (folder: string, names: readonly string[]) => {
    // The core adds to a listing what it lacks.
    const others = (await namesIn(driver, folder)).filter((name) => !names.includes(name))
    t.same(others, [], folder)
  }
  const whileItLags = async (look: () => Promise<void>) => {
    const end = performance.now() + 350
    while (performance.now() < end) {
      await look()
      await wait(20)
    }
  }
  await driver.write(at('/one/file'), hashed('new'))
  await whileItLags(() => only('/one', ['file']))
  await driver.move?.(at('/one/file'), at('/two/other'))
  await whileItLags(async () => {
    await only('/one', [])
    await only('/two', ['other'])
  })
  t.same(await namesIn(driver, '/two'), ['other'])
  await driver.close?.()
})

await t.test('a new file that was reported as stored stays, however late listings show it', async (t) => {
  const { double, driver, reopened } = await withOldFile(t, { lag: 600, sameName: 'allow' })
  await wait(700)
  double.requests.inject(/file\/delete/, refusal, 1)
  await driver.write(file, hashed('new'))
  const later = await reopened()
  await wait(800)
  t.equal(await settles(t, double, later), 'new')
  await later.close?.()
})

await t.test('a move that fails halfway is undone', async (t) => {
  const { double, driver } = await withOldFile(t)
  await driver.mkdir(at('/folder'))
  double.requests.inject(/file\/move/, refusal, 1)
  await t.rejects(driver.move!(file, at('/folder/other')))
  t.same(await namesIn(driver, '/'), ['file', 'folder'])
  double.requests.inject(renames, { delay: 0 }, 1)
  double.requests.inject(renames, refusal, 1)
  await t.rejects(driver.move!(file, at('/folder/other')))
  t.same(await namesIn(driver, '/'), ['file', 'folder'])
  t.same(await namesIn(driver, '/folder'), [])
  t.equal(await textAt(driver, '/file'), 'old')
  await driver.close?.()
})
