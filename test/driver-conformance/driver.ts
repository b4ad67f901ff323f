/**
 * The contract of `src/contract/driver.ts` in executable form. Every writable driver runs all of it. Tests are left out
 * only for a feature that the driver lacks, by an absent method or a trait: one skip for each such feature lists them.
 * A read-only driver is tested on the files it has.
 */
import type { Test } from 'tap'
import { directUrlTests } from './direct-urls.js'
import { elsewhereTests } from './elsewhere.js'
import { bundleTests } from './bundles.js'
import { downloadTests } from './downloads.js'
import { handleTests } from './handles.js'
import { symlinkTests } from './symlinks.js'
import { listingTests } from './listing.js'
import { moveTests } from './moving.js'
import { nameTests } from './names.js'
import { readingTests } from './reading.js'
import { readOnlyTests } from './read-only.js'
import { subjects, type Candidate, type LeftOut, type Run } from './subject.js'
import { uploadTests } from './uploads.js'
import { writingTests } from './writing.js'

export async function conformance(t: Test, candidate: Candidate): Promise<void> {
  const leftOut: LeftOut = new Map()
  await contractTests(subjects(t, candidate, leftOut), candidate)
  for (const [reason, titles] of leftOut) t.pass(`${reason}: ${titles.join('; ')}`, { skip: reason })
}

async function contractTests(run: Run, candidate: Candidate): Promise<void> {
  if (candidate.type.facts?.readOnly === true) {
    await readOnlyTests(run)
    return
  }
  await readingTests(run)
  await listingTests(run)
  await writingTests(run)
  await nameTests(run)
  await moveTests(run)
  await bundleTests(run)
  await handleTests(run)
  await uploadTests(run)
  await symlinkTests(run)
  await directUrlTests(run)
  await downloadTests(run)
  await elsewhereTests(run)
}
