/** SyncAsyncPolicy: Local makes system calls synchronously while that does not block the event loop. */
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { ReadHandle } from '../../../drivers/local/handles.js'
import { syncSyscalls, SyncAsyncPolicy } from '../../../drivers/local/syscalls.js'

/** A policy whose calls take this many milliseconds of its clock, which has no other time. */
function paceOf(took: number): SyncAsyncPolicy {
  let now = 1
  const unlink = () => {
    now += took
  }
  return new SyncAsyncPolicy({ ...syncSyscalls, unlink }, { now: () => now })
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

void t.test('SyncAsyncPolicy is asked again for each call of a file that is open', async (t) => {
  const path = join(t.testdir({ file: 'content' }), 'file')
  const file = await open(path)
  t.teardown(() => file.close())
  let now = 1
  let syncReads = 0
  const read = (...args: Parameters<typeof syncSyscalls.read>) => {
    syncReads++
    now += 60
    return syncSyscalls.read(...args)
  }
  const { calls } = new SyncAsyncPolicy({ ...syncSyscalls, read }, { now: () => now })
  const entry = { name: 'file', kind: 'file', size: 7, modified: new Date() } as const
  const handle = new ReadHandle(entry, file.fd, calls, () => undefined)
  const into = Buffer.alloc(7)
  await handle.read(into, 0)
  t.equal(syncReads, 1)
  await nextTurn()
  into.fill(0)
  t.equal(await handle.read(into, 0), 7)
  t.equal(into.toString(), 'content')
  t.equal(syncReads, 1, 'a disk that has just been slow is read asynchronously')
  now += 10_000
  await handle.read(into, 0)
  t.equal(syncReads, 2)
})
