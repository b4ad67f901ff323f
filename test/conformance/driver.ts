/**
 * The contract of `src/contract/driver.ts` in executable form. Every driver runs all of it; a test is skipped only for what a
 * driver says it lacks, by an absent method or a trait, and says so.
 */
import type { Test } from 'tap'
import { bundleTests } from './bundles.js'
import { handleTests } from './handles.js'
import { linkTests } from './links.js'
import { listingTests } from './listing.js'
import { moveTests } from './moving.js'
import { nameTests } from './names.js'
import { readingTests } from './reading.js'
import { subjects, type Candidate } from './subject.js'
import { uploadTests } from './uploads.js'
import { writingTests } from './writing.js'

export async function conformance(t: Test, candidate: Candidate): Promise<void> {
  const run = subjects(t, candidate)
  await readingTests(run)
  await listingTests(run)
  await writingTests(run)
  await nameTests(run)
  await moveTests(run)
  await bundleTests(run)
  await handleTests(run)
  await uploadTests(run)
  await linkTests(run)
}
