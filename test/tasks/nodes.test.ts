/** Tasks of several nodes: who owns them, what others see and want of them, and the tasks of a node that has ended. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { createLog } from '../../src/process/log.js'
import { openStore } from '../../src/database/store.js'
import type { Task, TaskRequest, TaskRun, TaskType } from '../../src/tasks/task.js'
import { Tasks } from '../../src/tasks/tasks.js'
import { TaskUploads } from '../../src/transfer/task-uploads.js'
import { principal } from '../accounts/principals.js'
import { engines } from '../database/engines.js'
import { storageRow, taskRow } from '../database/store-rows.js'
import { until } from '../until.js'

const ada = principal()
const eve = principal({ userId: 2, username: 'eve' })
const admin = principal({ userId: 3, username: 'admin', role: 'admin' })
const request: TaskRequest = { kind: 'copy', subject: { text: 'copy a to b' }, plan: {}, totalBytes: 10 }
const at = asPath('/a')
const item = { path: at, state: 'copied', source: 'r', copy: '', size: 1, error: '' } as const

/** A database that several nodes use: with SQLite, as several processes of one machine would. */
async function openNode(t: Test, location: string, id: string) {
  const store = await openStore(location, { node: id })
  await store.nodes.join({ id, name: id, version: '', addresses: '{}' })
  let closed: Promise<void> | undefined
  const close = () => (closed ??= store.close())
  t.teardown(close)
  return { store, close }
}

interface Node {
  readonly store: Awaited<ReturnType<typeof openNode>>['store']
  readonly tasks: Tasks
  /** The runs of this node. */
  readonly runs: TaskRun[]
  /** The states of the tasks that it has disposed of. */
  readonly disposed: string[]
  /** As if the node had been killed: what it does later has no effect. */
  kill(): Promise<unknown>
}

/** A node with tasks of the kind 'copy'. By default they run until they are aborted. */
async function nodeOf(t: Test, location: string, id: string, type: Partial<TaskType> = {}): Promise<Node> {
  const { store, close } = await openNode(t, location, id)
  const runs: TaskRun[] = []
  const disposed: string[] = []
  const log = createLog('silent')
  const tasks = await Tasks.load({
    store,
    uploads: new TaskUploads({ store: store.uploads, storageOf: () => undefined, log }),
    settings: { number: () => 5, onChange: () => () => true },
    log,
    authority: () => ada,
    ofOthers: (read) => read(),
  })
  const untilAborted: TaskType['run'] = ({ signal }) =>
    new Promise((_resolve, reject) => {
      const abort = () => reject(new GatewayError('aborted'))
      // A task may be canceled before it runs.
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort, { once: true })
    })
  tasks.register('copy', {
    dispose: async ({ state }) => void disposed.push(state),
    ...type,
    run: async (run) => {
      runs.push(run)
      await (type.run ?? untilAborted)(run)
    },
  })
  await tasks.start()
  t.teardown(async () => {
    await tasks.close()
    await close()
  })
  return { store, tasks, runs, disposed, kill: () => store.nodes.end(id) }
}

for (const engine of engines) {
  void t.test(`tasks of several nodes on ${engine.name}`, { skip: engine.skip }, async (s) => {
    const pair = async (t: Test, type: Partial<TaskType> = {}) => {
      const location = await engine.newDatabase(t)
      return [await nodeOf(t, location, 'one', type), await nodeOf(t, location, 'two', type)] as const
    }

    void s.test('only its owner changes a task, its items and its uploads', async (t) => {
      const location = await engine.newDatabase(t)
      const [one, two] = [await openNode(t, location, 'one'), await openNode(t, location, 'two')]
      const storage = await one.store.storages.insert(storageRow({}))
      const row = taskRow({ id: 'k' })
      await one.store.tasks.insert(row)
      const upload = { taskId: 'k', path: at, source: 'r', storageId: storage.id, token: 'first' }
      const id = await one.store.uploads.insert(upload)
      t.same(await one.store.tasks.putItems([{ taskId: 'k', ...item }]), new Set())
      const failed = { taskId: 'k', ...item, state: 'failed', path: asPath('/b'), error: 'no' } as const
      await one.store.tasks.putItems([failed])

      const { tasks, uploads, relaxed } = two.store
      t.same([await tasks.owned(), await tasks.get('k')], [[], row])
      t.equal(await tasks.update({ ...row, state: 'failed' }), false)
      await relaxed.tasks.setProgress({ id: 'k', totalBytes: 2, doneBytes: 1 })
      t.equal(await tasks.delete(['k']), 0)
      t.same(await tasks.putItems([{ taskId: 'k', ...item, source: 'other' }]), new Set(['k']))
      await tasks.deleteItem('k', at)
      await tasks.clearFailures('k')
      await tasks.deleteItems('k')
      await t.rejects(uploads.insert({ ...upload, path: asPath('/b') }), { code: 'not_found' })
      await uploads.setToken(id, 'second')
      await uploads.orphan(id)
      await uploads.orphanAll('k')
      await uploads.delete(id)
      t.same(await tasks.all(), [row])
      t.match(await tasks.item('k', at), item)
      t.same(await tasks.failed('k'), [failed])
      t.same(await uploads.of('k', at), { ...upload, id })

      await one.store.relaxed.tasks.setProgress({ id: 'k', totalBytes: 2, doneBytes: 1, phase: 'seeding' })
      t.match(await tasks.get('k'), { totalBytes: 2, doneBytes: 1, phase: 'seeding' })
      t.equal(await one.store.tasks.update({ ...row, state: 'succeeded' }), true)
      await one.store.relaxed.tasks.setProgress({ id: 'k', totalBytes: 3, doneBytes: 3, phase: 'seeding' })
      t.match(await tasks.get('k'), { totalBytes: 0, phase: undefined }, 'the end was stored before the progress')

      await two.store.nodes.end('one')
      t.equal(await two.store.nodes.claim('two'), 2)
      t.match(await tasks.owned(), [{ id: 'k' }])
      t.equal(await one.store.tasks.update(row), false)
      await uploads.setToken(id, 'second')
      t.match(await one.store.uploads.of('k', at), { token: 'second' })
    })

    void s.test('limits are counted over all nodes', async (t) => {
      const [one, two] = await pair(t)
      const task = await one.tasks.add(ada, request)
      await two.tasks.add(eve, request)
      const unfinished = async () => (await two.store.tasks.unfinished()).find(({ userId }) => userId === 1)
      t.same(await unfinished(), { userId: 1, count: 1, size: JSON.stringify(request.subject).length + 2 })
      await one.tasks.cancel(ada, 'copy', task.id)
      await until(async () => (await unfinished()) === undefined)
      const large = { ...request, subject: { text: 'n'.repeat(17 * 1024 * 1024) } }
      await one.tasks.add(ada, large)
      await t.rejects(two.tasks.add(ada, large), { code: 'throttled' })
      await two.tasks.add(eve, request)
      const { ended } = await one.tasks.get(ada, 'copy', task.id)
      t.same(await two.store.tasks.endOfOlder(0), ended)
      t.equal(await two.store.tasks.endOfOlder(1), undefined)
    })

    void s.test('a task runs on its node, and every node shows it', async (t) => {
      const [one, two] = await pair(t)
      const first = await one.tasks.add(ada, request)
      const second = await two.tasks.add(eve, request)
      await until(() => one.runs.length === 1 && two.runs.length === 1)
      for (const { tasks } of [one, two]) {
        const ids = (await tasks.list(admin, 'copy')).map(({ id }) => id)
        t.same(new Set(ids), new Set([first.id, second.id]))
        t.match(await tasks.list(ada, 'copy'), [{ id: first.id, state: 'running' }])
        t.match(await tasks.get(eve, 'copy', second.id), { state: 'running' })
        await t.rejects(tasks.get(ada, 'copy', second.id), { code: 'not_found', detail: 'task_missing' })
        await t.rejects(tasks.get(eve, 'move', second.id), { code: 'not_found' })
      }
      one.runs[0]?.setPhase('looking_up')
      one.runs[0]?.advance(5)
      await until(async () => (await two.tasks.get(ada, 'copy', first.id)).doneBytes === 5)
      t.match(await two.tasks.get(ada, 'copy', first.id), { phase: 'looking_up' })
    })

    void s.test('a task is canceled, retried and deleted on any node', async (t) => {
      const [one, two] = await pair(t)
      const task = await one.tasks.add(ada, request)
      const state = async () => (await two.tasks.get(ada, 'copy', task.id)).state
      await until(() => one.runs.length === 1)
      await t.rejects(two.tasks.cancel(eve, 'copy', task.id), { code: 'not_found' })
      await two.tasks.cancel(ada, 'copy', task.id)
      t.equal(one.runs[0]?.signal.aborted, true, 'the owner has acted')
      await until(async () => (await state()) === 'canceled')
      await two.tasks.cancel(ada, 'copy', task.id)
      await two.tasks.retry(ada, 'copy', task.id)
      await until(() => one.runs.length === 2)
      await two.tasks.retry(ada, 'copy', task.id)
      await until(async () => (await state()) === 'running')
      await two.tasks.delete(ada, 'copy', task.id)
      for (const { tasks, runs } of [one, two]) {
        t.same(await tasks.list(admin, 'copy'), [])
        await t.rejects(tasks.get(ada, 'copy', task.id), { code: 'not_found' })
        t.notOk(runs.some(({ signal }) => !signal.aborted))
      }
      await until(() => one.disposed.length === 2)
      t.same([one.runs.length, two.runs.length, two.disposed.length], [2, 0, 0])
    })

    void s.test('requests do not wait for a backend that is slow to dispose of a task', async (t) => {
      let resolve: () => void = () => undefined
      const slow = new Promise<void>((end) => (resolve = end))
      const [one, two] = await pair(t, { dispose: () => slow })
      const [first, second] = [await one.tasks.add(ada, request), await one.tasks.add(ada, request)]
      await until(() => one.runs.length === 2)
      await Promise.all([two.tasks.cancel(ada, 'copy', first.id), two.tasks.cancel(ada, 'copy', second.id)])
      await until(async () => (await two.tasks.list(ada, 'copy')).every(({ state }) => state === 'canceled'))
      await two.tasks.clear(ada, 'copy', ['canceled'])
      t.same(await two.tasks.list(ada, 'copy'), [])
      resolve()
    })

    void s.test('failed tasks of all nodes are retried and cleared together', async (t) => {
      let refuses = true
      const [one, two] = await pair(t, {
        run: () => Promise.reject(new GatewayError('denied')),
        assertRetryable: () => {
          if (refuses) throw new GatewayError('unsupported', { detail: 'upload_gone' })
        },
      })
      const added = [
        await one.tasks.add(ada, request),
        await one.tasks.add(eve, request),
        await two.tasks.add(ada, request),
      ]
      const [first] = added
      const tries = async () => {
        const tasks = await two.tasks.list(admin, 'copy')
        return tasks.every(({ state }) => state === 'failed') ? one.runs.length + two.runs.length : 0
      }
      await until(async () => (await tries()) === 3)
      await t.rejects(two.tasks.retry(ada, 'copy', first?.id ?? ''), { code: 'unsupported', detail: 'upload_gone' })
      await two.tasks.retryFailed(admin, 'copy')
      refuses = false
      await two.tasks.retryFailed(ada, 'copy')
      await until(async () => (await tries()) === 5)
      await two.tasks.clear(ada, 'copy', ['succeeded'])
      t.equal((await two.tasks.list(admin, 'copy')).length, 3)
      await two.tasks.clear(ada, 'copy', ['failed'])
      t.match(await two.tasks.list(admin, 'copy'), [{ username: 'eve' }])
      t.match(await one.tasks.list(admin, 'copy'), [{ username: 'eve' }])
    })

    void s.test('a node continues the tasks of one that has ended, whose own runs stop', async (t) => {
      const [one, two] = await pair(t)
      const [task, own] = [await one.tasks.add(ada, request), await two.tasks.add(ada, request)]
      await until(() => one.runs.length === 1 && two.runs.length === 1)
      await one.runs[0]?.items.record(at, { source: 'r', size: 1, distinct: true })
      await one.runs[0]?.items.flushed()
      await one.kill()
      t.equal(await two.store.nodes.claim('two'), 1)
      t.match(await two.tasks.get(ada, 'copy', task.id), { state: 'running' })
      await two.tasks.takeOver()
      await two.tasks.takeOver()
      await until(() => two.runs.length === 2)
      t.match(two.runs[1], { task: { id: task.id, tries: 2 }, resumes: true })
      t.ok((await two.runs[1]?.items.itemsIn(asPath('/')))?.copied.has('a'))

      await one.runs[0]?.items.record(asPath('/late'), { source: 'r', size: 1, distinct: true })
      await one.runs[0]?.items.flushed()
      t.equal(one.runs[0]?.signal.aborted, true)
      t.equal(await two.store.tasks.item(task.id, asPath('/late')), undefined)
      t.same(one.tasks.all, [])
      await wait(300)
      t.same([one.runs.length, two.runs.length, one.disposed], [1, 2, []])
      t.match(await one.tasks.list(ada, 'copy'), [
        { id: task.id, state: 'running', tries: 2 },
        { id: own.id, tries: 1 },
      ])
    })

    void s.test('a run that ends after another node has taken its task over stores nothing', async (t) => {
      const ends: (() => void)[] = []
      const [one, two] = await pair(t, { run: () => new Promise((resolve) => ends.push(resolve)) })
      const task = await one.tasks.add(ada, request)
      await until(() => ends.length === 1)
      await one.kill()
      await two.store.nodes.claim('two')
      await two.tasks.takeOver()
      await until(() => ends.length === 2)
      ends[0]?.()
      await until(() => one.tasks.all.length === 0)
      t.match(await one.tasks.get(ada, 'copy', task.id), { state: 'running' })
      ends[1]?.()
      await until(async () => (await one.tasks.get(ada, 'copy', task.id)).state === 'succeeded')
      await until(() => two.disposed.length > 0)
      t.same([one.disposed, two.disposed], [[], ['succeeded']])
    })

    void s.test('a request that the owner has not served is served by the node that takes over', async (t) => {
      const [one, two] = await pair(t)
      const [canceled, deleted] = [await one.tasks.add(ada, request), await one.tasks.add(ada, request)]
      await until(() => one.runs.length === 2)
      // As if it were frozen.
      await one.kill()
      await one.tasks.close()
      await Promise.all([two.tasks.cancel(ada, 'copy', canceled.id), two.tasks.delete(ada, 'copy', deleted.id)])
      t.match(await two.tasks.list(ada, 'copy'), [{ state: 'running' }, { state: 'running' }])
      await two.store.nodes.claim('two')
      await two.tasks.takeOver()
      t.match(await two.tasks.list(ada, 'copy'), [{ id: canceled.id, state: 'canceled' }])
      t.same(two.runs, [])
    })
  })
}

void t.test('what a database that does not answer has not stored is stored later', async (t) => {
  const [sqlite] = engines
  if (!sqlite) return
  const location = await sqlite.newDatabase(t)
  const node = await nodeOf(t, location, 'one', { run: () => Promise.resolve() })
  const update = node.store.tasks.update.bind(node.store.tasks)
  let failures = 0
  node.store.tasks.update = async (row) => {
    if (row.state === 'succeeded' && failures++ === 0) throw new GatewayError('unavailable')
    return update(row)
  }
  const task: Task = await node.tasks.add(ada, request)
  await until(() => failures > 0)
  t.match(await node.store.tasks.get(task.id), { state: 'running' })
  await until(async () => (await node.store.tasks.get(task.id))?.state === 'succeeded')
  t.equal(node.runs.length, 1)
})
