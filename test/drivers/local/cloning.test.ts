/** Copies of Local by clones, on a file system that is told to have them: which failures end the attempts. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { mock } from 'node:test'
import t from 'tap'
import { at, put, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

const skip = process.platform === 'linux' ? false : 'only Linux clones'

void t.test('cloning is tried again after a failure, unless the device cannot clone', { skip }, async (t) => {
  let code = ''
  type Callback = (error: NodeJS.ErrnoException | null) => void
  const copyFile = mock.method(fs, 'copyFile', (...[, , , callback]: [string, string, number, Callback]) => {
    callback(Object.assign(new Error(code), { code }))
  })
  syncBuiltinESMExports()
  t.teardown(() => {
    mock.restoreAll()
    syncBuiltinESMExports()
  })
  const driver = (await openLocal(t.testdir())) as WritableDriver
  t.teardown(() => driver.close?.())
  await put(driver, '/file', 'content')
  for (const [failure, attempts] of [
    ['ENOSPC', 1],
    ['EMFILE', 2],
    ['ENOTSUP', 3],
    ['ENOTSUP', 3],
  ] as const) {
    code = failure
    await driver.copy?.(at('/file'), at('/copy'))
    t.equal(await textAt(driver, '/copy'), 'content')
    t.equal(copyFile.mock.callCount(), attempts, failure)
  }
})
