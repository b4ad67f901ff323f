/** Local passes the conformance suite, with and without `sync`, and stores times before 1970. */
import { mkdtemp, realpath, rm, stat, utimes } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { localType } from '../../../drivers/local/index.js'
import { asPath } from '../../../src/base/path.js'
import { conformance } from '../../driver-conformance/driver.js'
import { sourceOf } from '../../tree/tree-fixture.js'
import { openLocal } from '../env.js'

for (const [title, sync] of [
  ['Local passes the conformance suite', false],
  ['Local with sync passes the conformance suite', true],
] as const) {
  await t.test(title, async (t) => {
    await conformance(t, {
      type: localType,
      many: sync ? 200 : 10_000,
      open: async () => {
        const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-local-'))
        return {
          driver: await openLocal(folder, { sync }),
          again: (uploads) => openLocal(folder, { sync }, { resumableUploads: async () => uploads }),
          dispose: () => rm(folder, { recursive: true }),
        }
      },
    })
  })
}

await t.test('Local stores times before 1970', async (t) => {
  const folder = t.testdir()
  const driver = await openLocal(folder)
  for (const time of [-1000, -1, -12_345_678, 0]) {
    const modified = new Date(time)
    t.same((await driver.write?.(asPath('/file'), sourceOf('x'), { modified }))?.modified, modified, 'with a write')
    await driver.setAttributes?.(asPath('/file'), { modified: new Date() })
    await driver.setAttributes?.(asPath('/file'), { modified })
    t.same((await driver.stat(asPath('/file'))).modified, modified, 'by setAttributes()')
    await utimes(join(folder, 'file'), modified, modified)
    await driver.setAttributes?.(asPath('/file'), { modified: new Date() })
    t.same((await stat(join(folder, 'file'))).atime, modified, 'the access time is unchanged')
  }
})
