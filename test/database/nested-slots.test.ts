/** Slots that work takes while it holds others. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { NestedSlots } from '../../src/database/advisory-locks.js'

void t.test('work that needs a slot of every level always goes on', async (t) => {
  const slots = new NestedSlots(6, 2000)
  let taken = 0
  let most = 0
  const take = async (level: number) => {
    const free = await slots.take(level)
    most = Math.max(most, ++taken)
    return () => {
      taken--
      free()
    }
  }
  const work = async (level: number): Promise<void> => {
    const free = await take(level)
    await wait(1)
    if (level < 3) await work(level + 1)
    free()
  }
  await Promise.all(Array.from({ length: 50 }, () => work(0)))
  t.equal(most, 6)
  t.equal(taken, 0)
})

void t.test('work that holds nothing leaves the last slots, and is busy after the timeout', async (t) => {
  const slots = new NestedSlots(5, 100)
  const free = [await slots.take(0), await slots.take(0)]
  await t.rejects(slots.take(0), { code: 'busy' })
  free.push(await slots.take(1), await slots.take(2), await slots.take(Infinity))
  await t.rejects(slots.take(Infinity), { code: 'busy' })
  for (const each of free) each()
  ;(await slots.take(0))()
})

void t.test('one slot serves all levels', async () => {
  const slots = new NestedSlots(1, 100)
  ;(await slots.take(0))()
  ;(await slots.take(3))()
})
