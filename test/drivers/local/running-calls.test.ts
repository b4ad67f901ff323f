/** A running call of Local is notified once when its caller aborts or the driver closes, and not after its end. */
import t from 'tap'
import { RunningCalls } from '../../../drivers/local/running-calls.js'

void t.test('RunningCalls notifies each call once when its caller aborts or the driver closes', async (t) => {
  const stays = new RunningCalls()
  const caller = new AbortController()
  const told: string[] = []
  const [first, second] = [stays.begin(caller.signal), stays.begin(undefined)]
  first.onAbort(() => told.push('first'))
  second.onAbort(() => told.push('second'))
  const { signal } = second
  t.same([first.aborted, second.aborted, signal.aborted], [false, false, false])
  caller.abort('enough')
  t.same(told, ['first'])
  t.match(first.signal, { aborted: true, reason: 'enough' }, 'a signal that is read later is aborted, too')
  const ended = stays.abortAll()
  t.same(told, ['first', 'second'])
  t.match(signal, { aborted: true, reason: { code: 'aborted' } })
  first.onAbort(() => told.push('late'))
  t.same(told, ['first', 'second', 'late'], 'at once if already aborted')
  t.throws(() => stays.begin(undefined), { code: 'aborted' }, 'new calls are rejected')
  first.end()
  second.end()
  await ended
})

void t.test('RunningCalls does not notify a call that has ended', (t) => {
  const stays = new RunningCalls()
  const caller = new AbortController()
  const stay = stays.begin(caller.signal)
  let told = 0
  stay.onAbort(() => told++)
  stay.end()
  caller.abort()
  t.equal(told, 0)
  t.notOk(stay.aborted)
  t.ok(stays.begin(caller.signal).aborted, 'a call with an aborted signal begins as aborted')
  t.end()
})
