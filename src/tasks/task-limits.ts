/** How many unfinished tasks there may be, and of which size: all of them are in memory. */
import { GatewayError } from '../contract/errors.js'
import type { UnfinishedTasks } from '../store/rows.js'
import { maxText } from './failures.js'
import { hasEnded, type Task } from './task.js'

/** Unfinished tasks of one user. */
const maxPerUser = 10_000
/**
 * Characters of the unfinished tasks of all users. One user may have as many as are left after
 * that: half of them if the others have none.
 */
const maxSize = 64 * 1024 * 1024

/** Rejects a new task that its user, or the memory, has no room for. `unfinished`: the tasks that there are. */
export function assertRoomFor(task: Task, unfinished: Iterable<UnfinishedTasks>): void {
  const own = { count: 0, size: 0 }
  let total = 0
  for (const { userId, count, size } of [...unfinished, ...unfinishedByUser([task])]) {
    // Each of them may still get a text.
    total += size + count * maxText
    if (userId !== task.userId) continue
    own.count += count
    own.size += size + count * maxText
  }
  if (own.count > maxPerUser || own.size > maxSize - total) {
    throw new GatewayError('throttled', { reason: 'too many tasks are waiting' })
  }
}

export function unfinishedByUser(tasks: readonly Task[]): Iterable<UnfinishedTasks> {
  const found = new Map<number, UnfinishedTasks>()
  for (const task of tasks) {
    if (hasEnded(task)) continue
    const { userId, name, plan } = task
    const { count = 0, size = 0 } = found.get(userId) ?? {}
    found.set(userId, { userId, count: count + 1, size: size + name.length + plan.length })
  }
  return found.values()
}
