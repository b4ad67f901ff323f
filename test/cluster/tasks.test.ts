/**
 * Tasks of two daemons that share a database: one node serves the tasks of the other, and continues them after a kill.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon, startGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { connect, ended, type Client, type Kind, type TaskShown } from '../stories/task-client.js'
import { mountSlow, setSpeed } from './slow-storages.js'
import { until } from '../until.js'

const skip = lacks('postgres', 'initdb')
const megabyte = 1024 * 1024
/** KiB per second. */
const slow = '256'

void t.test('a node serves the tasks of another one, and continues them after its death', { skip }, async (t) => {
  const disks = t.testdir({ left: { tree: {} } })
  const files = Array.from({ length: 64 }, (_, index) => ({
    name: `file-${index}`,
    content: randomBytes(megabyte / 8),
  }))
  for (const { name, content } of files) await writeFile(join(disks, 'left', 'tree', name), content)
  const store = await (await thisServer()).createDatabase()
  // The storage to which the tasks copy: a network storage, whose speed can be limited.
  const remote = await startDaemon(t)
  const one = await startDaemon(t, { environment: { TIDEGATE_STORE: store } })
  const two = await startGateway(t, { config: { store }, adminPassword: one.adminPassword })
  const [first, second] = [await connect(one), await connect(two)]
  await setSpeed(first, slow)
  await mountSlow(first, join(disks, 'left'), remote)
  const tasks = async (client: Client, kind: Kind, which: 'undone' | 'done') =>
    (await client.get(`/api/task/${kind}/${which}`)) as readonly (TaskShown & { readonly progress: number })[]

  await first.post('/api/fs/copy', { src_dir: '/left', dst_dir: '/far', names: ['tree'] })
  const [copy] = await tasks(second, 'copy', 'undone')
  t.match(copy, { name: /copy .*tree/, error: '' })
  await until(async () => ((await tasks(second, 'copy', 'undone'))[0]?.progress ?? 0) > 0)
  t.match(await tasks(second, 'copy', 'undone'), [{ id: copy?.id, state: 1, status: /src object/ }])

  await second.post(`/api/task/copy/cancel?tid=${copy?.id}`, {})
  await until(async () => (await tasks(first, 'copy', 'undone')).length === 0)
  for (const client of [first, second]) t.match(await tasks(client, 'copy', 'done'), [{ id: copy?.id, state: 4 }])
  await second.post(`/api/task/copy/retry?tid=${copy?.id}`, {})
  for (const client of [first, second]) t.match(await tasks(client, 'copy', 'undone'), [{ id: copy?.id }])

  await first.upload('/far/uploaded', randomBytes(4 * megabyte))
  await second.upload('/far/own', randomBytes(megabyte))
  t.match(await tasks(second, 'upload', 'undone'), [{ name: /uploaded/ }, { name: /own/ }])
  await until(async () => (await tasks(second, 'copy', 'undone'))[0]?.state === 1)
  await one.kill()
  await setSpeed(second, '-1')
  await until(async () => two.gateway.tasks.all.some(({ id }) => id === copy?.id))
  t.match(await ended(second, 'copy'), [{ id: copy?.id, state: 2 }])
  for (const { name, content } of files) {
    t.ok(content.equals(await second.read(`/far/tree/${name}`)), name)
  }
  t.match(await ended(second, 'upload'), [
    {
      name: /uploaded/,
      state: 7,
      error: /^the received bytes are not on the disk of the server that continues this task/,
    },
    { name: /own/, state: 2 },
  ])
  t.match(
    two.gateway.tasks.all.find(({ id }) => id === copy?.id),
    { tries: 2 },
  )
  await second.post('/api/task/copy/clear_done', {})
  t.same(await tasks(second, 'copy', 'done'), [])
})
