import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { localType } from '../../drivers/local/index.js'
import { conformance } from '../conformance/driver.js'
import { openLocal } from './env.js'

// A busy disk takes its time.
t.setTimeout(180_000)

for (const [title, sync] of [
  ['Local keeps the contract', false],
  ['Local with sync keeps the contract', true],
] as const) {
  await t.test(title, async (t) => {
    await conformance(t, {
      name: 'Local',
      many: sync ? 200 : 10_000,
      traits: localType.traits,
      open: async () => {
        const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-local-'))
        return {
          driver: await openLocal(folder, { sync }),
          again: (uploads) => openLocal(folder, { sync }, { uploads: async () => uploads }),
          dispose: () => rm(folder, { recursive: true }),
        }
      },
    })
  })
}
