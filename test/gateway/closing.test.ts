/** The parts of a gateway are closed one after another, those that were opened last first. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Closing } from '../../src/gateway/closing.js'

void t.test('parts are closed in the reverse order, each when the one before it is', async (t) => {
  const closing = new Closing()
  const closed: string[] = []
  const close = (name: string, time: number) => async () => {
    await wait(time)
    closed.push(name)
  }
  closing.add(close('database', 0))
  closing.add(() => closed.push('settings'))
  closing.add(close('storages', 20))
  await closing.close()
  t.same(closed, ['storages', 'settings', 'database'])
  await closing.close()
  t.equal(closed.length, 3, 'none is closed twice')
})

void t.test('a part that fails to close keeps no other one open', async (t) => {
  const closing = new Closing()
  const closed: string[] = []
  closing.add(() => closed.push('database'))
  closing.add(() => Promise.reject(new Error('broken')))
  closing.add(() => closed.push('storages'))
  await t.rejects(closing.close(), { message: 'broken' })
  t.same(closed, ['storages', 'database'])
})

void t.test('calls that overlap close each part once, and end together', async (t) => {
  const closing = new Closing()
  const closed: string[] = []
  closing.add(() => closed.push('database'))
  closing.add(async () => {
    await wait(20)
    closed.push('storages')
  })
  await Promise.race([closing.close(), closing.close()])
  t.same(closed, ['storages', 'database'])
})
