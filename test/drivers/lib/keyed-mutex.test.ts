/** KeyedMutex: waiting calls can be aborted, and calls run in the order in which they arrived. */
import t from 'tap'
import { KeyedMutex } from '../../../drivers/lib/keyed-mutex.js'
import { refuses } from '../../driver-conformance/subject.js'

await t.test('KeyedMutex: an aborted call leaves the queue, and the others keep their order', async (t) => {
  const turns = new KeyedMutex()
  const order: string[] = []
  let end: () => void = () => undefined
  const first = turns.run('key', () => new Promise<void>((resolve) => (end = resolve)))
  const controller = new AbortController()
  const second = turns.run('key', async () => void order.push('second'), controller.signal)
  const third = turns.run('key', async () => void order.push('third'))
  controller.abort()
  await refuses(t, () => second, 'aborted', 'a waiting call')
  const fourth = turns.run('key', async () => void order.push('fourth'))
  await turns.run('another key', async () => void order.push('another'))
  t.same(order, ['another'], 'the first call still runs')
  end()
  await Promise.all([first, third, fourth])
  t.same(order, ['another', 'third', 'fourth'])
})

await t.test('KeyedMutex: running work is not aborted, and a call with an aborted signal does not start', async (t) => {
  const turns = new KeyedMutex()
  const controller = new AbortController()
  let end: () => void = () => undefined
  const begun = turns.run(
    'key',
    () => new Promise<string>((resolve) => (end = () => resolve('done'))),
    controller.signal,
  )
  await new Promise((resolve) => setImmediate(resolve))
  controller.abort()
  end()
  t.equal(await begun, 'done')
  const never = turns.run('key', async () => t.fail('the call ran'), controller.signal)
  await refuses(t, () => never, 'aborted', 'an aborted signal')
})

await t.test('KeyedMutex: the next call runs after a failure', async (t) => {
  const turns = new KeyedMutex()
  const failing = turns.run('key', () => Promise.reject(new Error('no')))
  const next = turns.run('key', async () => 'yes')
  await t.rejects(failing, { message: 'no' })
  t.equal(await next, 'yes')
})
