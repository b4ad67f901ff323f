/** Turns: who waits may leave, and nobody goes before those who came before. */
import t from 'tap'
import { KeyedMutex } from '../../../drivers/lib/keyed-mutex.js'
import { refuses } from '../../conformance/subject.js'

await t.test('whoever waits leaves with the signal, and the others keep their turns', async (t) => {
  const turns = new KeyedMutex()
  const order: string[] = []
  let end: () => void = () => undefined
  const first = turns.run('key', () => new Promise<void>((resolve) => (end = resolve)))
  const controller = new AbortController()
  const second = turns.run('key', async () => void order.push('second'), controller.signal)
  const third = turns.run('key', async () => void order.push('third'))
  controller.abort()
  await refuses(t, () => second, 'aborted', 'one that waits')
  const fourth = turns.run('key', async () => void order.push('fourth'))
  await turns.run('another key', async () => void order.push('another'))
  t.same(order, ['another'], 'the first is at it still')
  end()
  await Promise.all([first, third, fourth])
  t.same(order, ['another', 'third', 'fourth'])
})

await t.test('work that has begun is waited for, and one that was aborted before is never begun', async (t) => {
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
  const never = turns.run('key', async () => t.fail('it was begun'), controller.signal)
  await refuses(t, () => never, 'aborted', 'aborted before')
})

await t.test('work that fails lets the next one go', async (t) => {
  const turns = new KeyedMutex()
  const failing = turns.run('key', () => Promise.reject(new Error('no')))
  const next = turns.run('key', async () => 'yes')
  await t.rejects(failing, { message: 'no' })
  t.equal(await next, 'yes')
})
