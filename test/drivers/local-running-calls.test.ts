import t from 'tap'
import { RunningCalls } from '../../drivers/local/running-calls.js'

void t.test('whoever stays is told once that its end is asked for, by the caller or by the mount', async (t) => {
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
  t.match(first.signal, { aborted: true, reason: 'enough' }, 'a signal that is asked for later says so, too')
  const ended = stays.abortAll()
  t.same(told, ['first', 'second'])
  t.match(signal, { aborted: true, reason: { code: 'aborted' } })
  first.onAbort(() => told.push('late'))
  t.same(told, ['first', 'second', 'late'], 'at once where the end was asked for before')
  t.throws(() => stays.begin(undefined), { code: 'aborted' }, 'nobody enters any more')
  first.end()
  second.end()
  await ended
})

void t.test('whoever has left is not told, and holds on to no signal', (t) => {
  const stays = new RunningCalls()
  const caller = new AbortController()
  const stay = stays.begin(caller.signal)
  let told = 0
  stay.onAbort(() => told++)
  stay.end()
  caller.abort()
  t.equal(told, 0)
  t.notOk(stay.aborted)
  t.ok(stays.begin(caller.signal).aborted, 'who enters with a signal that has aborted knows at once')
  t.end()
})
