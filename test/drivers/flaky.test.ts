/** The faulty driver of the tests fails exactly the planned calls; failed transfers leave no staged file on Local. */
import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { at, bytesAt, namesIn, put, refuses, textAt, type WritableDriver } from '../driver-conformance/subject.js'
import { openLocal } from './env.js'
import { flaky } from './flaky.js'

await t.test('flaky() fails exactly the planned calls', async (t) => {
  const inner = new MemoryDriver(0)
  const plan = [
    { method: 'stat', call: 2, fault: { kind: 'fail' } },
    { method: 'mkdir', call: 1, fault: { kind: 'fail after' } },
    { method: 'open', fault: { kind: 'short', bytes: 2 } },
    { method: 'read', call: 1, fault: { kind: 'short', bytes: 2 } },
    { method: 'remove', call: 1, fault: { kind: 'stall' } },
    { method: 'pages', call: 1, fault: { kind: 'cut', after: 0 } },
  ] as const
  const struck = flaky(inner, plan)
  const driver = struck.driver as WritableDriver
  await put(driver, '/file', 'hello')
  await driver.stat(at('/file'))
  await refuses(t, () => driver.stat(at('/file')), 'unavailable', 'the second stat')
  await driver.stat(at('/file'))
  t.equal(struck.calls('stat'), 3)
  await refuses(t, () => driver.mkdir(at('/folder')), 'unavailable', 'mkdir')
  t.equal((await inner.stat(at('/folder'))).kind, 'folder', 'the folder was created')
  const handle = await driver.open?.(at('/file'), 'read')
  t.equal(await handle?.read(Buffer.alloc(5), 0), 2, 'a short read')
  const chunks: string[] = []
  for await (const chunk of (await driver.read(at('/file'))) as AsyncIterable<Buffer>) chunks.push(chunk.toString())
  t.same(chunks, ['he', 'll', 'o'], 'short chunks')
  await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing that fails')
  t.same(await namesIn(driver, '/'), ['file', 'folder'])
  const removing = driver.remove(at('/file'))
  t.equal(await textAt(inner, '/file'), 'hello')
  struck.release()
  await removing
  t.same(await namesIn(inner, '/'), ['folder'])
})

await t.test('a body or stream that fails leaves no staged file on Local', async (t) => {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-flaky-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const inner = (await openLocal(folder)) as WritableDriver
  await put(inner, '/file', Buffer.alloc(3_000_000, 'old'))
  for (const after of [0, 1, 65_536, 1_048_576, 2_999_999]) {
    const fault = { kind: 'cut', after } as const
    const driver = flaky(inner, [
      { method: 'write', fault },
      { method: 'read', fault },
    ]).driver as WritableDriver
    await refuses(t, () => put(driver, '/file', Buffer.alloc(3_000_000, 'new')), 'unavailable', `write ${after}`)
    await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', `read ${after}`)
    t.ok((await bytesAt(inner, '/file')).equals(Buffer.alloc(3_000_000, 'old')), 'the old file is unchanged')
  }
  await inner.close?.()
  t.same(await readdir(folder), ['file'])
})
