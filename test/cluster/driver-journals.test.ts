/** What a driver has begun on one node is settled by another one only when the first has ended, and by one only. */
import t, { type Test } from 'tap'
import { ChangeJournal } from '../../drivers/lib/staged-files/change-journal.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { DriverEnv, LeftEntry } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { createLog } from '../../src/process/log.js'
import { DriverJournals } from '../../src/mounts/driver-journals.js'
import { openStore } from '../../src/database/store.js'
import { startNodes } from '../gateway.js'
import { lacks } from '../programs.js'
import { engines, thisServer } from '../database/engines.js'
import { storageRow } from '../database/store-rows.js'

/** A node with a journal, and the values that it has adopted. */
async function node(t: Test, location: string, id: string, storageId?: number) {
  const store = await openStore(location, { node: id })
  t.teardown(() => store.close())
  if (!(await store.nodes.all()).some((each) => each.id === id)) {
    await store.nodes.join({ id, name: id, version: '', addresses: '{}' })
  }
  const storage = storageId ?? (await store.storages.insert(storageRow({}))).id
  const journals = new DriverJournals(store.driverState, storage)
  const adopted: LeftEntry[] = []
  const journal = journals.journal('work')
  await journal.adopt((left) => adopted.push(...left))
  return { store, storage, journals, journal, adopted, values: () => adopted.map(({ value }) => value) }
}

for (const engine of engines) {
  void t.test(
    `on ${engine.name}, a journal belongs to its node until that has ended`,
    { skip: engine.skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const one = await node(t, location, 'one')
      const entries = [one.journal.entry(), one.journal.entry(), one.journal.entry()] as const
      for (const [index, entry] of entries.entries()) await entry.set({ index })
      await entries[0].set({ index: 'changed' })
      await entries[1].set(undefined)
      const two = await node(t, location, 'two', one.storage)
      const three = await node(t, location, 'three', one.storage)
      await two.journals.takeOver()
      t.same([two.values(), three.values()], [[], []], 'the first node is alive')
      const again = await node(t, location, 'one', one.storage)
      t.same(again.values(), [{ index: 'changed' }, { index: 2 }], 'the storage was opened again')

      await one.store.nodes.end('one')
      await Promise.all([two.journals.takeOver(), three.journals.takeOver()])
      t.equal(two.adopted.length + three.adopted.length, 2, 'each by one node')
      await entries[0].set(undefined)
      for (const { store } of [two, three]) await store.nodes.end(store === two.store ? 'two' : 'three')
      const four = await node(t, location, 'four', one.storage)
      t.same(four.values(), [{ index: 'changed' }, { index: 2 }], 'what the dead node does then changes nothing')
      for (const { entry } of four.adopted) await entry.set(undefined)
      await four.store.nodes.end('four')
      t.same((await node(t, location, 'five', one.storage)).values(), [])
    },
  )

  void t.test(
    `on ${engine.name}, the list of an older version is taken over once`,
    { skip: engine.skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const { store, storage } = await node(t, location, 'one')
      await store.driverState.set(storage, 'work', '[{"name":"a"},{"name":"b"}]')
      const nodes = await Promise.all(['two', 'three'].map((id) => node(t, location, id, storage)))
      t.same(nodes.flatMap(({ values }) => values()).length, 2)
      t.equal(await store.driverState.get(storage, 'work'), undefined)
      await store.driverState.set(storage, 'work', '{"half')
      t.same((await node(t, location, 'four', storage)).values(), [])
    },
  )
}

void t.test(
  'a gateway settles what another one has left, and nothing before',
  { skip: lacks('postgres', 'initdb') },
  async (t) => {
    const settled: string[] = []
    const opened: ChangeJournal<string>[] = []
    const type: AnyDriverType = {
      name: 'Journaling',
      fields: {},
      open: async (_options: never, { state }: DriverEnv) => {
        const changes: ChangeJournal<string> = new ChangeJournal<string>({
          state,
          keys: ['work'],
          parse: (value) => (typeof value === 'string' ? value : undefined),
          settle: async (change) => {
            settled.push(change)
            await changes.forget(change)
          },
          log: createLog('silent'),
        })
        await changes.load()
        opened.push(changes)
        return new MemoryDriver(0)
      },
    }
    const store = await (await thisServer()).createDatabase()
    const [one, two] = await startNodes(t, store, 2, { driver: { name: 'Journaling' }, driverTypes: [type] })
    const [first, second] = opened
    if (!one || !two || !first || !second) throw new Error('no gateway')
    await first.add('of the first')
    await second.add('of the second')
    t.same([first.all, second.all], [['of the first'], ['of the second']])
    await one.stop()
    while (settled.length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
    t.same(settled, ['of the first'])
    t.same(second.all, ['of the second'])
  },
)
