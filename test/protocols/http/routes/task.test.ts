/** The API of tasks, with copies and moves between two storages. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import { taskObject } from '../../../../protocols/http/compat/task-object.js'
import type { Driver } from '../../../../src/contract/driver.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { GatewayError } from '../../../../src/base/errors.js'
import type { Task } from '../../../../src/tasks/task.js'
import { serve, type Envelope, type Served, type TaskShown } from '../served.js'

const done = { code: 200, message: 'success', data: null }
const unknown = { code: 404, message: 'task not found', data: null }

/** A storage whose writes wait or fail as the test specifies. */
class Gate {
  readonly drivers: MemoryDriver[] = []
  /** A promise that every write waits for. */
  hold: Promise<void> = Promise.resolve()
  /** Errors of writes, by path; each is used once. */
  readonly faults = new Map<string, GatewayError[]>()
  readonly writes: string[] = []

  readonly type: AnyDriverType = {
    name: 'Gated',
    fields: {},
    open: async () => {
      const inner = new MemoryDriver(0)
      this.drivers.push(inner)
      const write: Driver['write'] = async (path, source, options) => {
        this.writes.push(path)
        await Promise.race([
          this.hold,
          new Promise((_resolve, reject) =>
            options?.signal?.addEventListener('abort', () => reject(new GatewayError('aborted')), { once: true }),
          ),
        ])
        const fault = this.faults.get(path)?.shift()
        if (fault) throw fault
        return inner.write(path, source, options)
      }
      return new Proxy<Driver>(inner, {
        get: (target, key) => {
          if (key === 'write') return write
          const value: unknown = Reflect.get(target, key)
          return typeof value === 'function' ? (value.bind(target) as unknown) : value
        },
      })
    },
  }
}

/** Two storages: the first one contains `/a`, the second one is mounted at `/far`. */
async function two(t: Parameters<typeof serve>[0]): Promise<{ served: Served; gate: Gate }> {
  const gate = new Gate()
  const served = await serve(t, '', [gate.type])
  t.equal((await served.mount('/far', 'Gated')).code, 200)
  await served.put('/a/one', 'first')
  await served.put('/a/sub/two', 'second')
  await served.post('/api/fs/mkdir', { path: '/a/empty' })
  return { served, gate }
}

function transfer(served: Served, kind: 'copy' | 'move', names: readonly string[], fields: object = {}) {
  return served.post(`/api/fs/${kind}`, { src_dir: '/', dst_dir: '/far', names, ...fields })
}

const tasksOf = ({ data }: Envelope) => (data as { tasks: TaskShown[] }).tasks

void t.test('a copy between storages is a task, and copies the whole tree', async (t) => {
  const { served } = await two(t)
  const modified = { 'last-modified': '1715961936465' }
  await served.put('/a/one', 'first', modified)
  const answer = await transfer(served, 'copy', ['a'])
  t.match(answer, {
    code: 200,
    message: 'success',
    data: {
      message: 'Successfully created 1 copy task(s)',
      tasks: [{ name: 'copy [/](/a) to [/far](/)', creator: 'admin', creator_role: 2, state: 0, progress: 0 }],
    },
  })
  const [task] = await served.ended('copy')
  t.match(task, { state: 2, progress: 100, total_bytes: 11, error: '', start_time: String, end_time: String })
  t.same((await served.names('/far/a')).sort(), ['empty', 'one', 'sub'])
  t.equal(await served.content('/far/a/sub/two'), 'second')
  t.match((await served.post('/api/fs/get', { path: '/far/a/one' })).data, { modified: '2024-05-17T16:05:36.465Z' })
  t.equal(await served.content('/a/one'), 'first')
  t.match(await transfer(served, 'copy', ['a']), { code: 403, message: 'file [a] exists' })
  t.strictSame(await transfer(served, 'copy', ['a'], { skip_existing: true }), done)
})

void t.test('existing files are kept by merge and replaced by overwrite', async (t) => {
  const { served } = await two(t)
  await served.put('/far/a/one', 'mine')
  await served.put('/far/a/other', 'mine too')
  t.match(await transfer(served, 'copy', ['a'], { merge: true }), {
    data: { tasks: [{ name: 'merge [/](/a) to [/far](/)' }] },
  })
  t.match(await served.ended('copy'), [{ state: 2 }])
  t.equal(await served.content('/far/a/one'), 'mine')
  t.equal(await served.content('/far/a/sub/two'), 'second')
  await transfer(served, 'copy', ['a'], { overwrite: true })
  await served.ended('copy')
  t.equal(await served.content('/far/a/one'), 'first')
  t.same((await served.names('/far/a')).sort(), ['empty', 'one', 'sub'])
})

void t.test('a move removes each verified source; a file that failed remains and is listed in the error', async (t) => {
  const { served, gate } = await two(t)
  gate.faults.set('/a/sub/two', [new GatewayError('no_space', { reason: 'the disk is full' })])
  const [task] = tasksOf(await transfer(served, 'move', ['a']))
  t.match(task, { name: 'move [/](/a) to [/far](/)' })
  const [failed] = await served.ended('move')
  t.match(failed, { state: 7, error: '/a/sub/two: the disk is full' })
  t.match(await served.post(`/api/task/move/info?tid=${task?.id}`), {
    data: { id: task?.id, state: 7, failures: [{ path: '/a/sub/two', error: 'the disk is full' }] },
  })
  t.same(await served.names('/a'), ['sub'], 'the source of a copied file is removed')
  t.equal(await served.content('/a/sub/two'), 'second')
  gate.writes.length = 0
  t.strictSame(await served.post(`/api/task/move/retry?tid=${task?.id}`), done)
  t.match(await served.ended('move'), [{ state: 2, error: '' }])
  t.same(gate.writes, ['/a/sub/two'], 'copied files are not copied again')
  t.notOk((await served.names('/')).includes('a'))
  t.equal(await served.content('/far/a/one'), 'first')
  t.equal(await served.content('/far/a/sub/two'), 'second')
  t.match(await served.post(`/api/task/move/info?tid=${task?.id}`), { data: { failures: [] } })
})

void t.test('a transfer of a missing source is accepted, and its task fails', async (t) => {
  const { served } = await two(t)
  t.match(await transfer(served, 'copy', ['nothing']), { data: { tasks: [{ state: 0 }] } })
  t.match(await served.ended('copy'), [{ state: 7, error: 'not found' }])
})

void t.test('recursive_move between storages moves files by tasks', async (t) => {
  const { served } = await two(t)
  t.match(await served.post('/api/fs/recursive_move', { src_dir: '/a', dst_dir: '/far' }), {
    code: 200,
    message: 'Successfully moved 2 files',
    data: null,
  })
  t.match(await served.ended('move'), [{ state: 2 }, { state: 2 }])
  t.same((await served.names('/far')).sort(), ['one', 'two'])
})

void t.test('temporary failures are retried automatically', async (t) => {
  const { served, gate } = await two(t)
  gate.faults.set('/a/one', [new GatewayError('unavailable', { reason: 'it does not answer' })])
  await transfer(served, 'copy', ['a'])
  for (;;) {
    const { data } = await served.get('/api/task/copy/undone')
    const [task] = data as TaskShown[]
    if (task?.state === 8) {
      t.match(task, { error: '/a/one: it does not answer', status: 'retry 1 in 2 s' })
      break
    }
    await delay(10)
  }
  t.match(await served.ended('copy'), [{ state: 2, error: '' }])
  t.same(gate.writes.sort(), ['/a/one', '/a/one', '/a/sub/two'])
})

void t.test('a task can be canceled, retried, deleted and cleared', async (t) => {
  const { served, gate } = await two(t)
  let release: () => void = () => undefined
  gate.hold = new Promise((resolve) => (release = resolve))
  await served.gateway.settings.set(new Map([['copy_task_threads_num', '1']]))
  await served.put('/b', 'b')
  const [running, queued] = tasksOf(await transfer(served, 'copy', ['a', 'b']))
  while (gate.writes.length < 2) await delay(10)
  t.match((await served.get('/api/task/copy/undone')).data, [{ state: 1, progress: 0 }, { state: 0 }])
  t.strictSame((await served.get('/api/task/count')).data, { unfinished: 2 })

  t.strictSame(await served.post(`/api/task/copy/cancel?tid=${queued?.id}`), done)
  t.strictSame(await served.post(`/api/task/copy/cancel?tid=${running?.id}`), done)
  t.match(await served.ended('copy'), [
    { id: running?.id, state: 4, error: '' },
    { id: queued?.id, state: 4, error: '' },
  ])
  t.strictSame(await served.post(`/api/task/copy/cancel?tid=${running?.id}`), done, 'an ended task is not canceled')
  t.equal((await served.get('/api/task/copy/done')).data instanceof Array, true)

  release()
  t.strictSame(await served.post('/api/admin/task/copy/retry_some', [running?.id, 'none']), {
    ...done,
    data: { none: 'task not found' },
  })
  t.match(await served.ended('copy'), [{ state: 2 }, { state: 4 }])
  t.equal(await served.content('/far/a/one'), 'first')
  t.strictSame(await served.post(`/api/task/copy/retry?tid=${running?.id}`), done)
  t.match(await served.ended('copy'), [{ state: 2 }, { state: 4 }], 'a succeeded task is not retried')
  t.strictSame(await served.post('/api/task/copy/clear_succeeded'), done)
  t.match((await served.get('/api/task/copy/done')).data, [{ id: queued?.id }])
  t.strictSame(await served.post('/api/task/copy/delete_some', [queued?.id]), { ...done, data: {} })
  t.strictSame((await served.get('/api/task/copy/done')).data, [])
  t.strictSame(await served.post(`/api/task/copy/delete?tid=${queued?.id}`), unknown)

  gate.faults.set('/b', [new GatewayError('denied'), new GatewayError('denied')])
  await transfer(served, 'copy', ['b'])
  t.match(await served.ended('copy'), [{ state: 7 }])
  t.strictSame(await served.post('/api/task/copy/retry_failed'), done)
  t.match(await served.ended('copy'), [{ state: 7, error: 'permission denied' }])
  t.strictSame(await served.post('/api/task/copy/clear_done'), done)
  t.strictSame((await served.get('/api/task/copy/done')).data, [])
  t.strictSame(await served.gateway.store.tasks.all(), [])
})

void t.test('deleting a running task removes its temporary files', async (t) => {
  const { served, gate } = await two(t)
  gate.hold = new Promise(() => undefined)
  const { data } = await served.put('/far/upload', 'bytes', { 'as-task': 'true' })
  const { task } = data as { task: TaskShown }
  while (gate.writes.length === 0) await delay(10)
  t.strictSame(await served.post(`/api/task/upload/delete?tid=${task.id}`), done)
  t.strictSame((await served.get('/api/task/upload/undone')).data, [])
  t.strictSame((await served.get('/api/task/upload/done')).data, [])
  t.notOk((await served.names('/far')).includes('upload'))
})

void t.test('a higher number of workers takes effect at once', async (t) => {
  const { served, gate } = await two(t)
  let release: () => void = () => undefined
  gate.hold = new Promise((resolve) => (release = resolve))
  await served.gateway.settings.set(new Map([['copy_task_threads_num', '1']]))
  for (const name of ['x', 'y', 'z']) await served.put(`/${name}`, name)
  await transfer(served, 'copy', ['x', 'y', 'z'])
  while (gate.writes.length < 1) await delay(10)
  await delay(50)
  t.equal(gate.writes.length, 1)
  await served.gateway.settings.set(new Map([['copy_task_threads_num', '3']]))
  while (gate.writes.length < 3) await delay(10)
  release()
  t.match(await served.ended('copy'), [{ state: 2 }, { state: 2 }, { state: 2 }])
})

void t.test('users see their own tasks, admins see all tasks', async (t) => {
  const { served } = await two(t)
  const ann = await served.as('ann', ['write', 'copy', 'move'], '/')
  const bob = await served.as('bob', ['write', 'copy', 'move'], '/a')
  const [task] = tasksOf(await transfer(ann, 'copy', ['a']))
  await ann.ended('copy')
  const id = task?.id ?? ''
  t.match((await ann.get('/api/task/copy/done')).data, [{ id, creator: 'ann', creator_role: 0 }])
  t.match((await served.get('/api/task/copy/done')).data, [{ id }])
  t.match((await served.get('/api/admin/task/copy/done')).data, [{ id }])
  t.strictSame((await bob.get('/api/task/copy/done')).data, [])
  for (const verb of ['info', 'cancel', 'delete', 'retry']) {
    t.strictSame(await bob.post(`/api/task/copy/${verb}?tid=${id}`), unknown, verb)
  }
  t.strictSame((await bob.post('/api/task/copy/delete_some', [id])).data, { [id]: 'task not found' })
  await bob.post('/api/task/copy/clear_done')
  t.match((await ann.get('/api/task/copy/done')).data, [{ id }])
  t.strictSame(await served.post(`/api/task/move/info?tid=${id}`), unknown, 'by another kind')
  t.match(await ann.post('/api/task/copy/delete_some', { ids: 1 }), { code: 400, message: 'invalid request format' })
  t.match(await ann.post('/api/task/copy/delete_some', {}), { code: 400, message: 'invalid request format' })
  t.match(await ann.get('/api/task/shrink/done'), { code: 404, message: 'no such endpoint' })
})

void t.test('a long list of tasks is sent in parts', async (t) => {
  const { served } = await two(t)
  const names = Array.from({ length: 120 }, (_value, index) => `missing-${index}`)
  await transfer(served, 'copy', names)
  await served.ended('copy')
  const headers = { authorization: served.token }
  const response = await fetch(`${served.url}/api/task/copy/done`, { headers })
  t.equal(response.headers.get('content-length'), null)
  const { data } = (await response.json()) as { readonly data: readonly TaskShown[] }
  t.strictSame(
    data.map(({ name }) => name),
    names.map((name) => `copy [/](/${name}) to [/far](/)`),
  )
})

void t.test('a transfer without permission is rejected; one whose user loses it fails', async (t) => {
  const { served, gate } = await two(t)
  const may = ['write', 'move', 'copy'] as const
  const ann = await served.as('ann', may)
  const plain = await served.as('plain', ['write'])
  for (const kind of ['copy', 'move'] as const) {
    t.match(await transfer(plain, kind, ['a']), { code: 403, message: 'permission denied' }, kind)
  }
  let release: () => void = () => undefined
  gate.hold = new Promise((resolve) => (release = resolve))
  const [task] = tasksOf(await transfer(ann, 'move', ['a']))
  while (gate.writes.length === 0) await delay(10)
  const { users } = served.gateway.accounts
  const { id } = users.byName('ann')!
  await users.update(id, { permission: 0 })
  release()
  t.match(await served.ended('move'), [{ id: task?.id, state: 7, error: 'permission denied' }])
  t.equal(await served.content('/a/one'), 'first')

  await served.post('/api/fs/remove', { dir: '/far', names: ['a'] })
  const eve = await served.as('eve', may)
  gate.hold = new Promise((resolve) => (release = resolve))
  gate.writes.length = 0
  await transfer(eve, 'move', ['a'])
  while (gate.writes.length === 0) await delay(10)
  await users.delete(users.byName('eve')!.id)
  release()
  t.match((await served.ended('move'))[1], { state: 7, creator: 'eve', error: 'the account does not exist' })
  t.equal(await served.content('/a/sub/two'), 'second')
})

void t.test('a task continues if its user loses an unrelated permission', async (t) => {
  const { served, gate } = await two(t)
  const ann = await served.as('ann', ['write', 'copy', 'remove'])
  let release: () => void = () => undefined
  gate.hold = new Promise((resolve) => (release = resolve))
  await transfer(ann, 'copy', ['a'])
  while (gate.writes.length === 0) await delay(10)
  const { users } = served.gateway.accounts
  const { id, permission } = users.byName('ann')!
  await users.update(id, { permission: permission & ~(1 << 7) })
  release()
  t.match(await served.ended('copy'), [{ state: 2 }])
  t.equal(await served.content('/far/a/sub/two'), 'second')
})

void t.test('the phase of a task is shown with the texts that existing clients expect', async (t) => {
  const task: Task = {
    ...{ id: 'x', kind: 'move', subject: 'move', userId: 1, username: 'ann', role: 'general', state: 'running' },
    ...{ status: 'left out 1', error: '', totalBytes: 0, doneBytes: 0, plan: '{}', tries: 1, created: new Date() },
    ...{ started: undefined, ended: undefined },
  }
  for (const [phase, status] of [
    [undefined, 'left out 1'],
    ['looking_up', 'getting src object'],
    ['transferring_file', 'getting src object link'],
    ['listing_folder', 'src object is dir, listing objs'],
    ['transferring_folder', 'src object is dir, added all move tasks of objs'],
    ['storing_upload', 'uploading'],
    ['storing_download', 'offline download completed, maybe transferring'],
    ['seeding', 'offline download completed, waiting for seeding'],
    [{ tool: 'aria2', state: 'active' }, '[aria2]: active'],
  ] as const) {
    t.equal(taskObject({ ...task, phase }).status, status)
  }
})
