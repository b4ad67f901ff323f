/** A hundred copies are started on one of three nodes, and that node is killed: the others complete all, each once. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { startDaemon } from '../gateway.js'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { connect, ended, type Client, type TaskShown } from '../stories/task-client.js'
import { mountSlow, setSpeed } from './slow-storages.js'

const count = 100
const size = 64 * 1024
/** KiB per second, for all nodes together. */
const slow = '1500'
/** Copies that have ended before the kill. */
const early = 20

const shown = async (client: Client, which: 'undone' | 'done') =>
  ((await client.get(`/api/task/copy/${which}`)) as readonly TaskShown[] | undefined) ?? []

void t.test('copies of a killed node', { skip: lacks('postgres', 'initdb'), timeout: 180_000 }, async (t) => {
  const disks = t.testdir({ left: {} })
  const contents = new Map(Array.from({ length: count }, (_, index) => [`file-${index}`, randomBytes(size)]))
  for (const [name, content] of contents) await writeFile(join(disks, 'left', name), content)
  const store = await (await thisServer()).createDatabase()
  // A network storage, whose speed can be limited.
  const remote = await startDaemon(t)
  const start = () => startDaemon(t, { environment: { TIDEGATE_STORE: store } })
  const [one, two, three] = [await start(), await start(), await start()]
  const [first, ...others] = [await connect(one), await connect(two), await connect(three)] as const
  await setSpeed(first, slow)
  await mountSlow(first, join(disks, 'left'), remote)

  await first.post('/api/fs/copy', { src_dir: '/left', dst_dir: '/far', names: [...contents.keys()] })
  // One that ends meanwhile is in both lists.
  const tasks = [...(await shown(first, 'undone')), ...(await shown(first, 'done'))]
  const ids = [...new Set(tasks.map(({ id }) => id))].sort()
  t.equal(ids.length, count)
  while ((await shown(others[0], 'done')).length < early) await wait(50)
  await one.kill()
  const before = await shown(others[0], 'done')
  t.ok(before.length < count, `${before.length} have ended before the kill`)
  const nameOf = (task: TaskShown) => /file-\d+/.exec(task.name)?.[0] ?? ''
  // A copy that is made a second time would have the new content.
  for (const task of before) await writeFile(join(disks, 'left', nameOf(task)), 'changed')
  await setSpeed(others[0], '-1')

  while ((await shown(others[0], 'undone')).length > 0) await wait(100)
  for (const client of others) {
    const done = await ended(client, 'copy')
    t.same(done.map(({ id }) => id).sort(), ids, 'each task has ended once')
    t.same(
      done.filter(({ state, error }) => state !== 2 || error !== ''),
      [],
      'all have succeeded',
    )
  }
  const far = await connect(remote)
  for (const [name, content] of contents) t.ok(content.equals(await far.read(`/${name}`)), name)
})
