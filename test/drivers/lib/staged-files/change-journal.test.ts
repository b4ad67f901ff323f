/** Changes in several calls: stored before, and settled when they were interrupted. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { ChangeJournal } from '../../../../drivers/lib/staged-files/change-journal.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { testEnv } from '../../env.js'
import { entriesOf, memoryState } from '../cloud/vendor.js'

interface Change {
  readonly name: string
}

/** A journal over a state. `failures`: how often settling fails first. */
async function journalOver({ state }: Pick<ReturnType<typeof memoryState>, 'state'>, failures = 0) {
  const settled: string[] = []
  let left = failures
  const journal: ChangeJournal<Change> = new ChangeJournal<Change>({
    state,
    keys: ['changes'],
    parse: (value) => (typeof value === 'object' && value !== null && 'name' in value ? (value as Change) : undefined),
    settle: async (change) => {
      if (left-- > 0) throw new GatewayError('unavailable')
      settled.push(change.name)
      await journal.forget(change)
    },
    retryInterval: 5,
    log: testEnv().log,
  })
  await journal.load()
  return { journal, settled }
}

await t.test('a change is stored before it begins, and a change that has ended leaves none', async (t) => {
  const memory = memoryState()
  const { journal } = await journalOver(memory)
  const [one, two] = [{ name: 'one' }, { name: 'two' }]
  await Promise.all([journal.add(one), journal.add(two)])
  t.same(entriesOf(memory, 'changes'), [one, two])
  await journal.forget(one)
  t.same(entriesOf(memory, 'changes'), [two])
  await journal.forget(two)
  t.same(entriesOf(memory, 'changes'), [])
  memory.failures.push(new Error('the disk is full'))
  await t.rejects(journal.add(one), { message: 'the disk is full' }, 'the change must not begin')
  t.same(journal.all, [])
  await journal.close()
})

await t.test('what an earlier run has left is settled, again and again until that succeeds', async (t) => {
  const memory = memoryState()
  const left = await journalOver(memory)
  for (const name of ['one', 'two']) await left.journal.add({ name })
  const { journal, settled } = await journalOver(memory, 3)
  t.ok(journal.all.every((change) => journal.isInterrupted(change)))
  await journal.settle()
  t.same(settled, [])
  while (settled.length < 2) await wait(5)
  t.same(settled.sort(), ['one', 'two'])
  while (memory.values.size > 0) await wait(5)
  await journal.close()
})

await t.test('a change that is interrupted while others are being settled is settled too', async (t) => {
  const { journal, settled } = await journalOver(memoryState())
  const [running, one, two] = [{ name: 'running' }, { name: 'one' }, { name: 'two' }]
  for (const change of [running, one, two]) await journal.add(change)
  journal.interrupted(one)
  journal.interrupted(two)
  await journal.settle()
  t.same(settled, ['one', 'two'])
  t.same(journal.all, [running], 'a running one is left alone')
  await journal.close()
})

await t.test('what cannot be read is ignored, and nothing is settled after the end', async (t) => {
  const memory = memoryState()
  for (const text of ['{"name":', '{"name":"x"}', '[5, null, {"name":"one"}]']) {
    await memory.state.set('changes', text)
    const { journal, settled } = await journalOver(memory)
    await journal.close()
    await journal.settle()
    t.same(settled, [])
    t.equal(journal.all.length, text.startsWith('[') ? 1 : 0)
    t.equal(memory.values.size, journal.all.length, 'what cannot be read is removed')
  }
})
