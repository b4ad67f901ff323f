/** Which way Local calls the system: at once while that holds nobody up. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { syncSyscalls, SyncAsyncPolicy } from '../../drivers/local/syscalls.js'

/** Calls that take so many milliseconds. */
function paceOf(took: number): SyncAsyncPolicy {
  const unlink = () => {
    for (const begin = performance.now(); performance.now() - begin < took;);
  }
  return new SyncAsyncPolicy({ ...syncSyscalls, unlink })
}

void t.test('after many calls in one turn of the event loop, the next gives way', async (t) => {
  const pace = paceOf(2)
  const { calls } = pace
  t.equal(calls.immediate, true)
  for (let count = 0; count < 6; count++) await calls.unlink('')
  t.equal(pace.calls.immediate, false)
  await nextTurn()
  t.equal(pace.calls.immediate, true)
})

void t.test('after a slow call none is made at once for a while', async (t) => {
  const pace = paceOf(60)
  await pace.calls.unlink('')
  await nextTurn()
  t.equal(pace.calls.immediate, false)
})
