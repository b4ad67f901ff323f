/** Intents of changes in several calls: stored before, and settled when they were interrupted. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Intents } from '../../../../drivers/lib/api/intents.js'
import { GatewayError } from '../../../../src/contract/errors.js'
import { testEnv } from '../../env.js'
import { entriesOf, memoryState } from './vendor.js'

interface Intent {
  readonly name: string
}

/** Intents over a state. `failures`: how often settling fails first. */
async function intentsOver({ state }: Pick<ReturnType<typeof memoryState>, 'state'>, failures = 0) {
  const settled: string[] = []
  let left = failures
  const intents = new Intents<Intent>({
    state,
    key: 'intents',
    parse: (value) => (typeof value === 'object' && value !== null && 'name' in value ? (value as Intent) : undefined),
    settle: async ({ name }) => {
      if (left-- > 0) throw new GatewayError('unavailable')
      settled.push(name)
    },
    retryInterval: 5,
    log: testEnv().log,
  })
  await intents.load()
  return { intents, settled }
}

await t.test('an intent is stored before its change begins, and a change that has ended leaves none', async (t) => {
  const memory = memoryState()
  const { intents } = await intentsOver(memory)
  const [one, two] = [{ name: 'one' }, { name: 'two' }]
  await Promise.all([intents.add(one), intents.add(two)])
  t.same(entriesOf(memory, 'intents'), [one, two])
  await intents.forget(one)
  t.same(entriesOf(memory, 'intents'), [two])
  await intents.forget(two)
  t.same(entriesOf(memory, 'intents'), [])
  memory.failures.push(new Error('the disk is full'))
  await t.rejects(intents.add(one), { message: 'the disk is full' }, 'the change must not begin')
  await intents.close()
})

await t.test('what an earlier run has left is settled, again and again until that succeeds', async (t) => {
  const memory = memoryState()
  const left = await intentsOver(memory)
  for (const name of ['one', 'two']) await left.intents.add({ name })
  const { intents, settled } = await intentsOver(memory, 3)
  t.ok(intents.all.every((intent) => intents.isInterrupted(intent)))
  await intents.settle()
  t.same(settled, [])
  while (settled.length < 2) await wait(5)
  t.same(settled.sort(), ['one', 'two'])
  while (memory.values.size > 0) await wait(5)
  await intents.close()
})

await t.test('a change that is interrupted while others are being settled is settled too', async (t) => {
  const { intents, settled } = await intentsOver(memoryState())
  const [running, one, two] = [{ name: 'running' }, { name: 'one' }, { name: 'two' }]
  for (const intent of [running, one, two]) await intents.add(intent)
  intents.interrupted(one)
  intents.interrupted(two)
  await intents.settle()
  t.same(settled, ['one', 'two'])
  t.same(intents.all, [running], 'a running one is left alone')
  await intents.close()
})

await t.test('what cannot be read is ignored, and nothing is settled after the end', async (t) => {
  const memory = memoryState()
  for (const text of ['{"name":', '{"name":"x"}', '[5, null, {"name":"one"}]']) {
    await memory.state.set('intents', text)
    const { intents, settled } = await intentsOver(memory)
    await intents.close()
    await intents.settle()
    t.same(settled, [])
    t.equal(intents.all.length, text.startsWith('[') ? 1 : 0)
    t.equal(memory.values.size, intents.all.length, 'what cannot be read is removed')
  }
})
