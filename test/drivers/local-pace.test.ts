/** SyncAsyncPolicy: Local makes system calls synchronously while that does not block the event loop. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { syncSyscalls, SyncAsyncPolicy } from '../../drivers/local/syscalls.js'

/** A policy whose calls take this many milliseconds of its clock, which has no other time. */
function paceOf(took: number): SyncAsyncPolicy {
  let now = 1
  const unlink = () => {
    now += took
  }
  return new SyncAsyncPolicy({ ...syncSyscalls, unlink }, () => now)
}

void t.test(
  'SyncAsyncPolicy switches to asynchronous calls after many calls in one turn of the event loop',
  async (t) => {
    const pace = paceOf(2)
    const { calls } = pace
    t.equal(calls.immediate, true)
    for (let count = 0; count < 6; count++) await calls.unlink('')
    t.equal(pace.calls.immediate, false)
    await nextTurn()
    t.equal(pace.calls.immediate, true)
  },
)

void t.test('SyncAsyncPolicy uses asynchronous calls for a while after a slow call', async (t) => {
  const pace = paceOf(60)
  await pace.calls.unlink('')
  await nextTurn()
  t.equal(pace.calls.immediate, false)
})
