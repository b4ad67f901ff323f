/** Listeners are notified of changes by other processes: once per commit, and again after a failure. */
import t, { type Test } from 'tap'
import { ForeignChanges } from '../../src/database/foreign-changes.js'
import { PolledCommits } from '../../src/database/sqlite.js'
import type { Topic } from '../../src/database/topics.js'
import { until } from '../until.js'

/** A database that another process changes. */
class Changing {
  #version = 1
  readonly #counts = new Map<Topic, number>()
  /** Number of reads that fail from now on. */
  failures = 0

  commit(...topics: readonly Topic[]): void {
    this.#version++
    for (const topic of topics) this.#counts.set(topic, (this.#counts.get(topic) ?? 0) + 1)
  }

  async version(): Promise<number> {
    return this.#version
  }

  async counts(): Promise<ReadonlyMap<Topic, number>> {
    if (this.failures-- > 0) throw new Error('the database is locked')
    return new Map(this.#counts)
  }
}

async function open(t: Test) {
  const database = new Changing()
  const changes = new ForeignChanges(await PolledCommits.open(database))
  t.teardown(() => changes.close())
  const notified: string[] = []
  return { database, changes, notified }
}

/** Longer than two polls. */
const polls = () => new Promise((resolve) => setTimeout(resolve, 600))

void t.test('one commit notifies the listeners of all its topics, each once', async (t) => {
  const { database, changes, notified } = await open(t)
  changes.listen('rules', () => void notified.push('rules'))
  changes.listen('locks', () => void notified.push('locks'))
  changes.listen('locks', () => void notified.push('other locks'))
  changes.listen('settings', () => void notified.push('settings'))
  database.commit('locks')
  database.commit('rules', 'locks')
  await until(() => notified.length >= 3)
  t.same(notified, ['rules', 'locks', 'other locks'])
  database.commit()
  await polls()
  t.equal(notified.length, 3, 'a commit without a topic notifies no listener')
})

void t.test('a change is not lost if the counts cannot be read', async (t) => {
  const { database, changes, notified } = await open(t)
  changes.listen('rules', () => void notified.push('rules'))
  database.failures = 1
  database.commit('rules')
  await until(() => notified.length > 0)
  t.same(notified, ['rules'])
})

void t.test('a listener that fails is notified again, and no other listener is', async (t) => {
  const { database, changes, notified } = await open(t)
  changes.listen('rules', async () => {
    notified.push('failing')
    if (notified.length < 3) throw new Error('not now')
  })
  changes.listen('rules', () => void notified.push('rules'))
  database.commit('rules')
  await until(() => notified.length >= 3)
  await polls()
  t.same(notified, ['failing', 'rules', 'failing'])
})

void t.test(
  'a listener that is still running delays no other, and is not called again until it has ended',
  async (t) => {
    const { database, changes, notified } = await open(t)
    let end: () => void = () => undefined
    changes.listen('storages', () => {
      notified.push('storages')
      return new Promise<void>((resolve) => (end = resolve))
    })
    changes.listen('accounts', () => void notified.push('accounts'))
    database.commit('storages')
    await until(() => notified.length >= 1)
    database.commit('accounts', 'storages')
    await until(() => notified.length >= 2)
    await polls()
    t.same(notified, ['storages', 'accounts'])
    end()
    await until(() => notified.length >= 3)
    t.same(notified, ['storages', 'accounts', 'storages'], 'the change in between is not lost')
    end()
  },
)

void t.test('close() waits for a running listener', async (t) => {
  const { database, changes, notified } = await open(t)
  const unsubscribe = changes.listen('storages', async () => {
    notified.push('begun')
    await polls()
    notified.push('ended')
  })
  database.commit('storages')
  while (notified.length === 0) await new Promise(setImmediate)
  unsubscribe()
  await changes.close()
  t.same(notified, ['begun', 'ended'])
})

void t.test('a listener that has unsubscribed is not notified', async (t) => {
  const { database, changes, notified } = await open(t)
  const end = changes.listen('rules', () => void notified.push('first'))
  changes.listen('rules', () => void notified.push('second'))
  database.commit('rules')
  end()
  await until(() => notified.length > 0)
  t.same(notified, ['second'])
})
