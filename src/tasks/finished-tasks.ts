/**
 * Deletes finished tasks of this node that are older than `finished_tasks_days`, among the oldest of all nodes beyond
 * `maxFinished`, or among the oldest of their users beyond `maxFinishedSize`: every hour, and after `sweepCount` tasks.
 */
import { isGatewayError } from '../base/errors.js'
import type { OwnTask, OwnTasks } from './own-tasks.js'
import type { TaskRunsDependencies } from './task-runs.js'
import { hasEnded } from './task.js'

/** Maximum characters of the finished tasks of one user that a sweep leaves. */
const maxFinishedSize = 16 * 1024 * 1024
/** Maximum number of finished tasks of all users that a sweep leaves. */
const maxFinished = 10_000
/** Milliseconds between two sweeps. */
const sweepInterval = 3_600_000
/** Tasks that end on this node between two sweeps, at most. */
const sweepCount = 100
const day = 86_400_000

export class FinishedTasks {
  readonly #timer = setInterval(() => void this.sweep(), sweepInterval).unref()
  /** Tasks that have ended since the last sweep. */
  #count = 0
  #isClosed = false

  constructor(
    private readonly dependencies: Pick<TaskRunsDependencies, 'store' | 'settings' | 'log'>,
    private readonly tasks: OwnTasks,
    private readonly remove: (tasks: readonly OwnTask[]) => Promise<void>,
  ) {}

  /** Counts a task that has ended. */
  async add(): Promise<void> {
    this.#count += 1
    if (this.#count >= sweepCount) await this.sweep()
  }

  /** Never rejects. */
  async sweep(): Promise<void> {
    const { store, settings, log } = this.dependencies
    this.#count = 0
    const days = settings.number('finished_tasks_days')
    try {
      const surplus = (await store.tasks.endOfOlder(maxFinished))?.getTime() ?? -Infinity
      const expired = days >= 0 ? Date.now() - days * day : -Infinity
      const endOf = ({ task }: OwnTask) => task.ended?.getTime() ?? Infinity
      const sizes = new Map<number, number>()
      const old = this.tasks.all
        .filter(({ task }) => hasEnded(task))
        .sort((one, other) => endOf(other) - endOf(one))
        .filter((own) => {
          const { userId, subject, plan, status, error } = own.task
          const size = (sizes.get(userId) ?? 0) + subject.length + plan.length + status.length + error.length
          sizes.set(userId, size)
          return endOf(own) <= surplus || endOf(own) < expired || size > maxFinishedSize
        })
      await this.remove(old)
    } catch (error) {
      if (!isGatewayError(error) || !this.#isClosed) log.warn({ err: error }, 'failed to delete old tasks')
    }
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }
}
