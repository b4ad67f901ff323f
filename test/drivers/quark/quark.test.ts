/**
 * The drivers `Quark` and `UC` keep the contract on a double of their API, whatever it does with names that are taken.
 */
import t from 'tap'
import { quarkType, ucType } from '../../../drivers/quark/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { elsewhereTests } from '../../driver-conformance/elsewhere.js'
import { subjects, type Candidate } from '../../driver-conformance/subject.js'
import { onlyWithVariants } from '../../programs.js'
import { startQuark, startUc, type QuarkDouble } from '../../doubles/quark.js'
import { newFolder, openOn } from './mount.js'
import { memoryState } from '../lib/cloud/vendor.js'

/** Names that the service refuses. */
const cannotKeep = (name: string) => name.includes('/')

function candidate(double: QuarkDouble, listingLag?: number): Omit<Candidate, 'type'> {
  return {
    many: 120,
    cannotKeep,
    open: async () => {
      const { fid: root_folder_id, elsewhere, dispose } = newFolder(double)
      const { state } = memoryState()
      const open = (uploads: readonly string[] = []) => {
        const env = { state, resumableUploads: async () => uploads }
        return openOn(double, { root_folder_id, ...(listingLag !== undefined && { listingLag }) }, env)
      }
      return {
        driver: await open(),
        again: open,
        // With a lag, what another program changes is shown when it is over.
        ...(listingLag === 0 && { elsewhere }),
        dispose,
      }
    },
  }
}

await t.test('Quark keeps the contract, also while its listings lag', async (t) => {
  await conformance(t, { type: quarkType, ...candidate(await startQuark(t, { lag: 300 })) })
})

const renamed = 'UC keeps the contract where an entry gets another name if its name is taken'
await t.test(renamed, { skip: onlyWithVariants }, async (t) => {
  await conformance(t, { type: ucType, ...candidate(await startUc(t, { sameName: 'rename' })) })
})

for (const sameName of ['refuse', 'allow'] as const) {
  await t.test(`Quark shows what another program changes: entries of one name, ${sameName}`, async (t) => {
    const double = await startQuark(t, { sameName })
    await elsewhereTests(subjects(t, { type: quarkType, ...candidate(double, 0) }, new Map()))
  })
}
