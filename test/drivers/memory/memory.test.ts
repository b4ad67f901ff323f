/** Memory passes the conformance suite, with and without distinction of case, and enforces its size limit. */
import t from 'tap'
import { memoryType } from '../../../drivers/memory/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, listed, put, refuses, type WritableDriver } from '../../driver-conformance/subject.js'
import { testEnv } from '../env.js'

const open = (limit: number) => memoryType.open({ size_limit: limit, case_sensitive: true }, testEnv())

await t.test('Memory passes the conformance suite', async (t) => {
  await conformance(t, {
    type: memoryType,
    open: async () => ({ driver: await open(0), dispose: async () => undefined }),
  })
})

await t.test('Memory that ignores case passes the conformance suite', async (t) => {
  await conformance(t, {
    type: memoryType,
    open: async () => ({
      driver: await memoryType.open({ size_limit: 0, case_sensitive: false }, testEnv()),
      dispose: async () => undefined,
    }),
  })
})

await t.test('a full Memory storage reports no_space, and removing files frees space', async (t) => {
  const driver = (await open(100)) as WritableDriver
  await put(driver, '/file', 'x'.repeat(60))
  await refuses(t, () => put(driver, '/more', 'x'.repeat(60)), 'no_space', 'over the limit')
  t.match(await driver.usage?.(), { total: 100, used: 60, free: 40 })
  await refuses(t, async () => driver.copy?.(at('/file'), at('/copy')), 'no_space', 'a copy over the limit')
  const handle = await driver.open?.(at('/file'), 'update')
  await refuses(t, async () => handle?.truncate?.(101), 'no_space', 'a handle over the limit')
  t.equal((await listed(driver, '/')).length, 1)
  await driver.remove(at('/file'))
  t.match(await driver.usage?.(), { used: 60 }, 'a file that is open occupies space')
  await handle?.write?.([Buffer.alloc(10)], 60)
  await handle?.truncate?.(80)
  t.match(await driver.usage?.(), { used: 80 })
  for (let closed = 0; closed < 2; closed++) await handle?.close()
  t.match(await driver.usage?.(), { used: 0 })
  await put(driver, '/file', 'x'.repeat(100))
})
