/** Copies and moves as tasks, over a tree whose responses the test determines. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import type { Task, TaskItems, TaskRun } from '../../src/tasks/task.js'
import { transferRequest, transferTasks } from '../../src/tasks/transfer-tasks.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { principal } from '../accounts/principals.js'

void t.test('a transfer continues if the size of its source cannot be determined', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  let finish: () => void = () => undefined
  const fs = {
    stat: async () => Promise.reject(new TypeError('unexpected')),
    copy: async () => new Promise<void>((resolve) => (finish = resolve)),
  } as unknown as VirtualFs
  const ada = principal()
  const paths = [asPath('/from'), asPath('/to')] as const
  const options = { overwrite: false, merge: false }
  const { plan } = transferRequest('copy', ada, paths, options, { rowOf: () => undefined })
  const run: TaskRun = {
    task: { plan: JSON.stringify(plan) } as Task,
    principal: ada,
    signal: new AbortController().signal,
    resumes: false,
    items: { clearFailures: async () => undefined } as unknown as TaskItems,
    setPhase: () => undefined,
    setPlan: async () => undefined,
    setRemark: () => undefined,
    setTotal: () => undefined,
    advance: () => undefined,
  }
  const done = transferTasks('copy', () => fs).run(run)
  for (let turns = 0; turns < 5; turns++) await turn()
  t.same(unhandled, [])
  finish()
  await done
})
