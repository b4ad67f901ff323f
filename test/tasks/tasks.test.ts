/** Tasks without a gateway: queues, retries, restarts, and the rows that are stored of them. */
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { mock } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Principal } from '../../src/accounts/principal.js'
import type { Audit } from '../../src/audit/audit.js'
import type { EventFacts } from '../../src/database/audit-rows.js'
import { GatewayError, TreeError } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import type { Log } from '../../src/base/log.js'
import { createLog } from '../../src/process/log.js'
import type { TaskItemRow } from '../../src/database/tables/tasks.js'
import type { Store } from '../../src/database/tables.js'
import { openStore } from '../../src/database/store.js'
import { failureText, retryDelay } from '../../src/tasks/failures.js'
import { hasEnded, type Task, type TaskRequest, type TaskRun, type TaskType } from '../../src/tasks/task.js'
import { Tasks } from '../../src/tasks/tasks.js'
import { ItemJournal } from '../../src/tasks/task-items.js'
import { TaskUploads } from '../../src/transfer/task-uploads.js'
import { principal } from '../accounts/principals.js'
import { storageRow } from '../database/store-rows.js'
import type { Test } from '../tree/tree-fixture.js'

const ada = principal()
const eve = principal({ userId: 2, username: 'eve' })
const admin = principal({ userId: 3, username: 'admin', role: 'admin' })
const node = 'node'
const request: TaskRequest = { kind: 'copy', subject: { text: 'copy a to b' }, plan: { from: '/a' }, totalBytes: 10 }

interface Begun {
  readonly tasks: Tasks
  readonly store: Store
  readonly settings: Map<string, number>
  /** Ids of tasks whose resumable uploads were discarded. */
  readonly dropped: readonly string[]
  /** Notifies the tasks of changed settings. */
  readonly change: () => void
  readonly close: () => Promise<void>
}

async function begin(
  t: Test,
  type: TaskType,
  options: {
    folder?: string
    authority?: (userId: number) => Principal
    log?: Log
    audit?: Pick<Audit, 'record'>
  } = {},
): Promise<Begun> {
  const { folder = t.testdir(), authority = () => ada, log = createLog('silent'), audit } = options
  const store = await openStore(join(folder, 'tasks.db'), { node })
  const settings = new Map([['finished_tasks_days', 7]])
  let change: () => void = () => undefined
  const dropped: string[] = []
  const uploads = new TaskUploads({ store: store.uploads, storageOf: () => undefined, log: createLog('silent') })
  const tasks = await Tasks.load({
    store,
    ofOthers: () => undefined,
    uploads: {
      forFile: (...file) => uploads.forFile(...file),
      tasksWithUploads: () => uploads.tasksWithUploads(),
      close: () => uploads.close(),
      discardAll: async (taskId) => {
        dropped.push(taskId)
        await uploads.discardAll(taskId)
      },
    },
    settings: {
      number: (key) => settings.get(key) ?? 5,
      onChange: (listener) => {
        change = listener
        return () => true
      },
    },
    log,
    ...(audit && { audit }),
    authority,
  })
  tasks.register('copy', type)
  await tasks.start()
  let closed: Promise<void> | undefined
  const close = () => (closed ??= tasks.close().then(() => store.close()))
  t.teardown(close)
  return { tasks, store, settings, dropped, change: () => change(), close }
}

async function ended(tasks: Tasks, { id }: Task): Promise<Task> {
  for (;;) {
    const task = await tasks.get(admin, 'copy', id)
    if (hasEnded(task)) return task
    await delay(5)
  }
}

void t.test('a task is stored before it runs, and reports its progress', async (t) => {
  const seen: (readonly Task[])[] = []
  let checked: () => void = () => undefined
  const looking = new Promise<void>((resolve) => (checked = resolve))
  const { tasks, store } = await begin(t, {
    run: async (run) => {
      seen.push((await store.tasks.all()) as Task[])
      run.setPhase('looking_up')
      run.setTotal(100)
      run.advance(30)
      run.advance(-10)
      await looking
    },
  })
  const task = await tasks.add(ada, request)
  t.match(task, { state: 'pending', userId: 1, username: 'ada', plan: '{"from":"/a"}', totalBytes: 10 })
  t.match(await store.tasks.all(), [{ id: task.id }])
  while (seen.length === 0) await delay(5)
  t.match(seen, [[{ state: 'running', started: Date, tries: 1 }]])
  await delay(5)
  t.match(await tasks.get(ada, 'copy', task.id), { phase: 'looking_up', totalBytes: 100, doneBytes: 20 })
  checked()
  t.match(await ended(tasks, task), { state: 'succeeded', doneBytes: 100, phase: undefined, status: '', ended: Date })
})

void t.test('after a stop or a kill, unfinished tasks resume, and waiting ones run without delay', async (t) => {
  const runs: TaskRun[] = []
  const stuck: TaskType = {
    run: (run) =>
      new Promise((_resolve, reject) => {
        runs.push(run)
        run.signal.addEventListener('abort', () => reject(new GatewayError('aborted')), { once: true })
      }),
  }
  const folder = t.testdir()
  const first = await begin(t, stuck, { folder })
  const task = await first.tasks.add(ada, request)
  while (runs.length < 1) await delay(5)
  await runs[0]?.items.record(asPath('/a/x'), { source: 'r1', size: 1, distinct: true })
  await first.close()
  const waits = { ...task, id: 'waits', state: 'waiting', tries: 1, started: new Date() }
  const cancels = { ...task, id: 'cancels', state: 'canceling' }
  const over = { ...task, id: 'over', state: 'failed', ended: new Date() }
  const other = { ...task, id: 'other', kind: 'offline_download' }
  const store = await openStore(join(folder, 'tasks.db'), { node })
  t.match(await store.tasks.all(), [{ state: 'running' }], 'the row of an interrupted task remains in state running')
  for (const row of [waits, cancels, over, other]) await store.tasks.insert(row)
  await store.close()

  const resumed: [string, boolean, number][] = []
  const { tasks } = await begin(
    t,
    {
      run: async ({ task: { id }, resumes, items }) => {
        resumed.push([id, resumes, (await items.itemsIn(asPath('/a'))).copied.size])
      },
    },
    { folder },
  )
  t.match(await ended(tasks, task), { state: 'succeeded', tries: 2 })
  t.match(await ended(tasks, waits as Task), { state: 'succeeded', tries: 2 })
  t.equal((await tasks.get(ada, 'copy', 'cancels')).state, 'canceled')
  t.equal((await tasks.get(ada, 'copy', 'over')).state, 'failed')
  t.same(
    resumed.sort(),
    [
      [task.id, true, 1],
      ['waits', true, 0],
    ].sort(),
  )
  while (!hasEnded(await tasks.get(ada, 'offline_download', 'other'))) await delay(5)
  t.match(await tasks.get(ada, 'offline_download', 'other'), {
    state: 'failed',
    error: 'this server does not do such tasks',
  })
})

void t.test('a task of a deleted account fails, one of a changed account runs again with its new rights', async (t) => {
  const controller = new AbortController()
  const principals = [principal({ signal: controller.signal }), eve]
  const runs: string[] = []
  const { tasks } = await begin(
    t,
    {
      run: async ({ principal: { username }, signal, resumes }) => {
        runs.push(`${username} ${resumes}`)
        if (username !== 'ada') return
        controller.abort()
        if (signal.aborted) throw new GatewayError('unauthenticated')
      },
    },
    {
      authority: () => {
        const next = principals.shift()
        if (!next) throw new GatewayError('unauthenticated', { reason: 'the account is gone' })
        return next
      },
    },
  )
  t.match(await ended(tasks, await tasks.add(ada, request)), { state: 'succeeded', tries: 1 })
  t.same(runs, ['ada false', 'eve true'])
  t.match(await ended(tasks, await tasks.add(ada, request)), { state: 'failed', error: 'the account is gone' })
  t.equal(runs.length, 2)
})

void t.test('unfinished tasks are limited by their size, and a part is left for other users', async (t) => {
  let end: () => void = () => undefined
  const held = new Promise<void>((resolve) => (end = resolve))
  const { tasks } = await begin(t, { run: () => held })
  const large = {
    ...request,
    subject: { text: 'n'.repeat(8 * 1024 * 1024) },
    plan: { from: 'p'.repeat(8 * 1024 * 1024) },
  }
  const first = await tasks.add(ada, large)
  const refused = { code: 'throttled', reason: 'too many tasks are waiting' }
  await t.rejects(tasks.add(ada, large), refused)
  await tasks.add(ada, request)
  const other = await tasks.add(eve, large)
  await t.rejects(tasks.add(eve, large), refused, 'less is left for each')
  await tasks.add(principal({ userId: 4 }), request)
  end()
  await ended(tasks, first)
  await ended(tasks, other)
  await tasks.add(ada, large)
})

void t.test('the texts of a task are cut, and its failed items are complete', async (t) => {
  const long = 'e'.repeat(5000)
  const { tasks } = await begin(t, {
    run: async (run) => {
      await run.items.fail(asPath('/b'), long, 'exists')
      run.setRemark(long)
      if (tasks.all.length === 1) throw new GatewayError('denied', { reason: long })
    },
  })
  const cut = `${'e'.repeat(2047)}…`
  const failed = await ended(tasks, await tasks.add(ada, request))
  t.match(failed, { state: 'failed', error: cut, errorName: 'denied' })
  t.match(await tasks.failures(failed), [{ error: long, errorName: 'exists' }])
  t.match(await ended(tasks, await tasks.add(ada, request)), { state: 'succeeded', status: cut })
})

void t.test('the oldest finished tasks of a user are deleted when they are too large together', async (t) => {
  const { tasks, change } = await begin(t, { run: () => Promise.resolve() })
  const large = { ...request, subject: { text: 'n'.repeat(9 * 1024 * 1024) } }
  const older = await ended(tasks, await tasks.add(ada, large))
  const other = await ended(tasks, await tasks.add(eve, request))
  while (Date.now() === older.ended?.getTime()) await delay(1)
  const newer = await ended(tasks, await tasks.add(ada, large))
  change()
  while (tasks.all.length > 2) await delay(5)
  t.same(new Set(tasks.all.map(({ id }) => id)), new Set([other.id, newer.id]))
})

void t.test('a task is disposed when it ends and again when it is deleted', async (t) => {
  const disposed: string[] = []
  const { tasks, store } = await begin(t, {
    run: async ({ items }) => {
      await items.record(asPath('/a'), { source: 'r', size: 1, distinct: true })
      await items.fail(asPath('/b'), 'no')
      throw new GatewayError('denied')
    },
    dispose: async ({ state }) => void disposed.push(state),
  })
  const task = await ended(tasks, await tasks.add(ada, request))
  while (disposed.length === 0) await delay(5)
  t.same(disposed, ['failed'])
  t.match(await tasks.failures(task), [{ path: '/b', error: 'no' }])
  t.ok(await store.tasks.item(task.id, asPath('/a')), 'a retry can resume there')
  await tasks.delete(ada, 'copy', task.id)
  t.same(disposed, ['failed', 'failed'])
  t.equal(await store.tasks.item(task.id, asPath('/a')), undefined)
  await t.rejects(tasks.get(ada, 'copy', task.id), { code: 'not_found' })
})

void t.test('resumable uploads are discarded when their task ends, unless it can be retried', async (t) => {
  for (const retries of [true, false]) {
    const begun = await begin(
      t,
      { run: () => Promise.reject(new GatewayError('denied')), resumable: retries },
      { folder: mkdtempSync(join(t.testdir(), 'x')) },
    )
    const { tasks, dropped } = begun
    const failed = await ended(tasks, await tasks.add(ada, request))
    await delay(20)
    t.same(dropped, retries ? [] : [failed.id])
    await tasks.delete(ada, 'copy', failed.id)
    t.equal(dropped.at(-1), failed.id)
    await begun.close()
  }
  const { tasks, dropped } = await begin(t, { run: () => Promise.resolve(), resumable: true })
  const done = await ended(tasks, await tasks.add(ada, request))
  while (dropped.length === 0) await delay(5)
  t.same(dropped, [done.id])
})

void t.test('finished tasks are deleted after finished_tasks_days', async (t) => {
  const { tasks, store, settings, change } = await begin(t, { run: () => Promise.resolve() })
  const old = await ended(tasks, await tasks.add(ada, request))
  settings.set('finished_tasks_days', -1)
  change()
  await delay(20)
  t.equal((await tasks.list(ada, 'copy')).length, 1)
  settings.set('finished_tasks_days', 0)
  await delay(5)
  change()
  while ((await tasks.list(ada, 'copy')).length > 0) await delay(5)
  while ((await store.tasks.all()).length > 0) await delay(5)
  t.same(await store.tasks.all(), [], old.id)
})

void t.test('retryDelay() is defined for temporary errors only, and failureText() lists failures', (t) => {
  const fail = (code: GatewayError['code'], reason?: string, retryAfter?: number) =>
    new GatewayError(code, { reason, retryAfter })
  const tree = (...errors: GatewayError[]) => {
    const failures = errors.map((error, index) => ({
      path: asPath(`/to/${index}`),
      from: asPath(`/from/${index}`),
      error,
    }))
    const [first, ...others] = failures
    return new TreeError([first!, ...others])
  }
  t.equal(retryDelay(fail('unavailable'), 1), 2)
  t.equal(retryDelay(fail('timeout'), 4), 300)
  t.equal(retryDelay(fail('busy'), 5), undefined)
  t.equal(retryDelay(fail('throttled', '', 30), 1), 30)
  t.equal(retryDelay(fail('throttled', '', 999_999_999), 1), 3600, 'the delay that a backend asks for is limited')
  t.equal(retryDelay(tree(fail('denied'), fail('unavailable')), 1), 2, 'one of the failures is temporary')
  for (const code of ['denied', 'no_space', 'exists', 'not_found', 'internal', 'locked'] as const) {
    t.equal(retryDelay(fail(code), 1), undefined, code)
  }
  t.equal(failureText(fail('denied', 'no')), 'no')
  t.equal(failureText(tree(fail('denied', 'no'), fail('exists', 'taken'))), '/from/0: no; /from/1: taken')
  t.match(
    failureText(tree(...Array.from({ length: 25 }, () => fail('denied', 'no')))),
    /^\/from\/0: no; .*; and 15 more$/,
  )
  t.end()
})

void t.test('a failed run of many files is one line of the log, with the first of them', async (t) => {
  const lines: unknown[] = []
  const log: Log = { ...createLog('silent'), warn: (details, message) => lines.push({ ...details, message }) }
  const failures = Array.from({ length: 10_000 }, (_, index) => ({
    path: asPath(`/to/${index}`),
    error: new GatewayError('denied', { reason: 'no', cause: new Error('a secret of the backend') }),
  }))
  const [first, ...others] = failures
  const { tasks } = await begin(t, { run: () => Promise.reject(new TreeError([first!, ...others])) }, { log })
  const { id } = await ended(tasks, await tasks.add(ada, request))
  t.match(lines, [{ task: id, code: 'denied', message: /^task failed: \/to\/0: no; .*; and 9990 more$/ }])
  t.equal(lines.length, 1)
  t.ok(JSON.stringify(lines).length < 3000)
})

void t.test('ten thousand journal items take at most 20 commits', async (t) => {
  const commits: number[] = []
  const journal = new ItemJournal({
    putItems: async (rows) => {
      commits.push(rows.length)
      await delay(5)
    },
  })
  const row: TaskItemRow = {
    taskId: 't',
    path: asPath('/a'),
    state: 'copied',
    source: '',
    copy: '',
    size: 0,
    error: '',
  }
  for (let count = 0; count < 10_000; count++) await journal.put(row)
  await journal.flush()
  t.equal(
    commits.reduce((sum, rows) => sum + rows, 0),
    10_000,
  )
  t.ok(commits.filter((rows) => rows > 0).length <= 20, `${commits.length} commits`)
})

void t.test('a run reads items that it has recorded before they are committed', async (t) => {
  const copied = { source: 'r', size: 1, distinct: true, copy: 'c' }
  const found: unknown[] = []
  const { tasks } = await begin(t, {
    run: async ({ items }) => {
      await items.recordExtraneous(asPath('/a'), [])
      found.push(await items.hasBegun(asPath('/a')), await items.hasBegun(asPath('/b')))
      await items.record(asPath('/a/x'), copied)
      const known = await items.itemsIn(asPath('/a'))
      found.push([...known.copied], known.extraneous)
      await items.record(asPath('/a/y'), { source: 'r', size: 1, distinct: false })
      found.push(await items.copied(asPath('/a/y')))
    },
  })
  await ended(tasks, await tasks.add(ada, request))
  t.same(found, [true, false, [['x', copied]], [], { ...copied, distinct: false, copy: undefined }])
})

void t.test('journal rows whose commit failed are committed with the next rows', async (t) => {
  const kept: string[] = []
  let broken = true
  const journal = new ItemJournal({
    putItems: async (rows) => {
      if (broken) throw new GatewayError('unavailable')
      kept.push(...rows.map(({ path }) => path))
    },
  })
  const put = (path: string) =>
    journal.put({ taskId: 't', path: asPath(path), state: 'copied', source: '', copy: '', size: 0, error: '' })
  await put('/a')
  await t.rejects(journal.flush(), { code: 'unavailable' })
  broken = false
  await put('/b')
  await journal.flush()
  t.same(kept, ['/a', '/b'])
})

void t.test('at start, resumable uploads of ended tasks are discarded, except those of failed tasks', async (t) => {
  const folder = t.testdir()
  const store = await openStore(join(folder, 'tasks.db'), { node })
  const storage = await store.storages.insert(storageRow({ mountPath: asPath('/far') }))
  const row = {
    ...{ kind: 'copy', subject: '', userId: 1, username: 'ada', role: 'general' as const, status: '', error: '' },
    ...{ totalBytes: 0, doneBytes: 0, plan: '{}', tries: 1, created: new Date(), started: new Date() },
  }
  for (const state of ['succeeded', 'canceled', 'failed']) {
    await store.tasks.insert({ ...row, id: state, state, ended: new Date() })
    const file = { path: asPath('/near/file'), source: 'r1', storageId: storage.id, token: state }
    await store.uploads.insert({ ...file, taskId: state })
  }
  await store.close()
  const { store: second } = await begin(t, { run: async () => undefined, resumable: true }, { folder })
  t.same(await second.uploads.tokens(), ['failed'])
})

void t.test('queued tasks of one user do not delay those of others, who take turns', async (t) => {
  const order: number[] = []
  const ends: (() => void)[] = []
  const { tasks, settings, change } = await begin(
    t,
    {
      run: async ({ principal: { userId } }) => {
        order.push(userId)
        await new Promise<void>((resolve) => ends.push(resolve))
      },
    },
    { authority: (userId) => principal({ userId }) },
  )
  settings.set('copy_task_threads_num', 1)
  const begun = async (count: number) => {
    while (order.length < count) await delay(5)
  }
  for (let count = 0; count < 5; count++) await tasks.add(ada, request)
  await begun(1)
  await tasks.add(eve, request)
  await begun(2)
  t.same(order, [1, 2], 'beside the task of the first user')
  await tasks.add(eve, request)
  await tasks.add(principal({ userId: 4 }), request)
  for (let count = 2; count < 5; count++) {
    ends[count - 2]?.()
    await begun(count + 1)
  }
  t.same(order, [1, 2, 1, 2, 4], 'nobody waits for all tasks of another')
  settings.set('copy_task_threads_num', 5)
  change()
  while (tasks.all.some((task) => !hasEnded(task))) {
    for (const end of ends) end()
    await delay(5)
  }
  t.equal(order.length, 8)
})

void t.test('a pending task that is being canceled does not run, and its end is recorded once', async (t) => {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const recorded: EventFacts[] = []
  let goOn: () => void = () => undefined
  const disk = new Promise<void>((resolve) => (goOn = resolve))
  const record = (facts: EventFacts) => {
    recorded.push(facts)
    return 'error' in facts ? disk : undefined
  }
  const { tasks, settings } = await begin(
    t,
    {
      run: async ({ task }) => {
        begun.push(task.id)
        await new Promise<void>((resolve) => ends.push(resolve))
      },
    },
    { audit: { record } },
  )
  settings.set('copy_task_threads_num', 1)
  const first = await tasks.add(ada, request)
  while (ends.length < 1) await delay(5)
  const second = await tasks.add(ada, request)
  const third = await tasks.add(ada, request)
  const canceled = [1, 2].map(() => tasks.cancel(ada, 'copy', second.id))
  while (recorded.length < 1) await delay(5)
  ends[0]?.()
  while (ends.length < 2) await delay(5)
  t.same(begun, [first.id, third.id])
  goOn()
  await Promise.all(canceled)
  for (const end of ends) end()
  t.match(await ended(tasks, second), { state: 'canceled' })
  t.match(await ended(tasks, third), { state: 'succeeded' })
  t.same(
    recorded.map(({ actor, result }) => `${actor.credential} ${result}`),
    [`task:${second.id} failed`, `task:${first.id} done`, `task:${third.id} done`],
  )
})

void t.test('the error of a run is that of its task, also if its items cannot be stored then', async (t) => {
  const warnings: unknown[] = []
  const log: Log = Object.assign(createLog('silent'), { warn: (...[, text]: unknown[]) => void warnings.push(text) })
  const { tasks, store } = await begin(
    t,
    {
      run: async ({ items }) => {
        await items.fail(asPath('/a'), 'no')
        throw new GatewayError('denied', { reason: 'the error of the run' })
      },
    },
    { log },
  )
  const putItems = mock.method(store.tasks, 'putItems', () => Promise.reject(new GatewayError('internal')))
  const task = await ended(tasks, await tasks.add(ada, request))
  t.match(task, { state: 'failed', error: /the error of the run/ })
  t.ok(warnings.includes('the items of a task are not stored yet'))
  putItems.mock.restore()
  await tasks.close()
  t.match(await store.tasks.failed(task.id), [{ path: '/a', error: 'no' }])
})
