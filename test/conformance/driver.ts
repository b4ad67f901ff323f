/**
 * The contract of `src/contract/driver.ts` in executable form. Every writable driver runs all of it. A test is skipped
 * only for a feature that the driver lacks, by an absent method or a trait, and reports that. A read-only driver is
 * tested on the files it has.
 */
import type { Test } from 'tap'
import { bundleTests } from './bundles.js'
import { handleTests } from './handles.js'
import { symlinkTests } from './symlinks.js'
import { listingTests } from './listing.js'
import { moveTests } from './moving.js'
import { nameTests } from './names.js'
import { readingTests } from './reading.js'
import { readOnlyTests } from './read-only.js'
import { subjects, type Candidate } from './subject.js'
import { uploadTests } from './uploads.js'
import { writingTests } from './writing.js'

export async function conformance(t: Test, candidate: Candidate): Promise<void> {
  const run = subjects(t, candidate)
  if (candidate.readOnly === true) {
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
}
