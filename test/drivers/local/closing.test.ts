/** Closing a Local storage while it is written to: the writes end, and no staged file is left. */
import { closeSync, openSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Driver } from '../../../src/contract/driver.js'
import { at, endless, put, refuses, source, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'
import { until } from '../../until.js'

async function storageAt(t: Test): Promise<{ folder: string; driver: WritableDriver }> {
  const folder = t.testdir({ file: 'old' })
  return { folder, driver: (await openLocal(folder)) as WritableDriver }
}

async function replacing(driver: Driver, path: string) {
  const handle = await driver.open?.(at(path), 'replace')
  if (!handle?.write || !handle.commit) throw new Error('no handle to write with')
  return { write: handle.write.bind(handle), commit: handle.commit.bind(handle), close: handle.close.bind(handle) }
}

await t.test('Local: closing a storage aborts its running writes and leaves no staged file', async (t) => {
  const { folder, driver } = await storageAt(t)
  const { source: body, body: stream, begun } = endless()
  const writing = refuses(t, () => driver.write(at('/file'), body), 'aborted', 'the write')
  await begun
  await driver.close?.()
  t.same(readdirSync(folder), ['file'], 'no staged file is left after closing')
  t.ok(stream.destroyed, 'the body is destroyed')
  await writing
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'old')
})

await t.test('Local: closing a storage aborts its open handles and leaves no staged file', async (t) => {
  const { folder, driver } = await storageAt(t)
  const handle = await replacing(driver, '/file')
  await handle.write([Buffer.alloc(100_000)], 0)
  await driver.close?.()
  t.same(readdirSync(folder), ['file'], 'no staged file is left after closing')
  await refuses(t, () => handle.write([Buffer.alloc(1)], 0), 'aborted', 'a write')
  await refuses(t, () => handle.commit(), 'aborted', 'the commit')
  await handle.close()
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'old')
})

await t.test('Local: calls on a closed storage are aborted and create nothing', async (t) => {
  const { folder, driver } = await storageAt(t)
  await put(driver, '/first', 'first')
  await driver.close?.()
  await refuses(t, () => put(driver, '/second', 'second'), 'aborted', 'a write')
  await refuses(t, async () => driver.open?.(at('/second'), 'replace'), 'aborted', 'a handle')
  await refuses(t, async () => driver.copy?.(at('/file'), at('/second')), 'aborted', 'a copy')
  t.same(readdirSync(folder).sort(), ['file', 'first'])
})

await t.test(
  'Local: closing a storage waits for a blocked write until a timeout; its staged file is removed later',
  async (t) => {
    const { folder, driver } = await storageAt(t)
    let reached: () => void = () => undefined
    const asked = new Promise<void>((resolve) => (reached = resolve))
    let go: () => void = () => undefined
    const gate = new Promise<void>((resolve) => (go = resolve))
    const beforePublish = () => {
      reached()
      return gate
    }
    const writing = refuses(
      t,
      () => driver.write(at('/file'), source('new'), { beforePublish }),
      'aborted',
      'the write',
    )
    await asked
    const begin = performance.now()
    await driver.close?.()
    t.ok(performance.now() - begin < 20_000, 'closing ends')
    // Files that reuse the closed descriptors must not be taken for the staging folder.
    const taken = Array.from({ length: 20 }, () => openSync(tmpdir(), 'r'))
    go()
    await writing
    for (const fd of taken) closeSync(fd)
    await until(() => readdirSync(folder).length <= 1)
    t.same(readdirSync(folder), ['file'])
    t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'old')
  },
)

await t.test(
  'Local: a handle commits from its staging folder even after that was moved and created anew',
  async (t) => {
    const { folder, driver } = await storageAt(t)
    const staging = join(folder, '.tidegate-staging')
    const handle = await replacing(driver, '/file')
    await handle.write([Buffer.from('new')], 0)
    const [instance = ''] = readdirSync(staging)
    const moved = join(folder, 'moved')
    renameSync(join(staging, instance), moved)
    const [name = ''] = readdirSync(moved)
    await put(driver, '/other', 'other')
    t.same(readdirSync(moved), [name])
    await handle.commit()
    t.same(readdirSync(moved), [], 'the staged file was found in the moved folder')
    await handle.close()
    t.equal(await textAt(driver, '/file'), 'new')
    await driver.close?.()
  },
)

await t.test('Local leaves no descriptor open after closing', { skip: process.platform !== 'linux' }, async (t) => {
  const open = () => readdirSync('/proc/self/fd').length
  const before = open()
  const { driver } = await storageAt(t)
  const { source: body, begun } = endless()
  const writing = refuses(t, () => driver.write(at('/one'), body), 'aborted', 'the write')
  await replacing(driver, '/two')
  await begun
  await driver.close?.()
  await writing
  t.equal(open(), before)
})
