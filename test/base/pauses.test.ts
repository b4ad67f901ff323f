/** Long loops let others run, and each other. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Pauses } from '../../src/base/pauses.js'

void t.test('loops that pause at the same time go on in different turns of the event loop', async (t) => {
  let turns = 0
  let isDone = false
  const counting = (async () => {
    for (; !isDone; turns++) await turn()
  })()
  const loop = async () => {
    const pauses = new Pauses()
    while (!pauses.areDue);
    await pauses.take()
    return turns
  }
  const resumed = await Promise.all([loop(), loop(), loop()])
  isDone = true
  await counting
  t.equal(new Set(resumed).size, 3)
})

void t.test('a loop goes on after its pauses for its turn, and then the one that has waited longest', async (t) => {
  let now = performance.now() + 1000
  t.intercept(performance, 'now', { value: () => now })
  const order: string[] = []
  const loop = async (name: string, steps: number) => {
    const pauses = new Pauses()
    for (let step = 0; step < steps; step++) {
      now += 5
      await pauses.take()
      order.push(name)
    }
  }
  await Promise.all([loop('a', 8), loop('b', 2), loop('c', 2)])
  t.equal(order.join(''), 'aaaaabbccaaa')
})

void t.test('a loop without work to do does not pause, and an aborted one rejects', async (t) => {
  const stop = new AbortController()
  const pauses = new Pauses(stop.signal)
  t.notOk(pauses.areDue)
  while (!pauses.areDue);
  stop.abort()
  await t.rejects(pauses.take(), { code: 'aborted' })
})
