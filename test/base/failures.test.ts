/** The failures of trees of any size: what is kept of them. */
import t from 'tap'
import { GatewayError, TreeError, type ErrorCode } from '../../src/base/errors.js'
import { Failures, maxKept } from '../../src/base/failures.js'
import { asPath } from '../../src/base/path.js'

/** The error of so many failures with a code, and a last one. */
function thrown(count: number, code: ErrorCode, last: ErrorCode): TreeError {
  const failures = new Failures()
  const add = (index: number, of: ErrorCode) =>
    failures.add({ path: asPath(`/${index}`), error: new GatewayError(of, { reason: `${of} here` }) })
  for (let index = 1; index < count; index++) add(index, code)
  add(count, last)
  try {
    failures.throwIfAny()
  } catch (error) {
    if (error instanceof TreeError) return error
  }
  throw new Error('nothing was thrown')
}

void t.test('a tree that fails as a whole has the first failures and their number', async (t) => {
  const error = thrown(maxKept + 5, 'denied', 'not_found')
  t.equal(error.failures.length, maxKept)
  t.equal(error.reason, `denied here (and ${maxKept + 4} more)`)
  t.equal(error.failures.at(-1)?.error.code, 'denied')
  const seen = error.converted((path) => path).at('copy', '/x')
  t.equal(seen instanceof TreeError && seen.count, maxKept + 5)
})

void t.test('a failure that may pass by itself is kept, because the task is tried again then', async (t) => {
  t.equal(thrown(maxKept + 5, 'denied', 'unavailable').failures.at(-1)?.error.code, 'unavailable')
})

void t.test('no failure throws nothing', async () => {
  new Failures().throwIfAny()
})
