/** Tasks as the API shows them. */
import { z } from 'zod'
import type { Role } from '../../src/principal.js'
import type { Task, TaskState } from '../../src/tasks.js'
import { wireTime } from './object.js'
import { moment } from './schemas.js'

const stateNumbers = {
  pending: 0,
  running: 1,
  succeeded: 2,
  canceled: 4,
  failed: 7,
} as const satisfies Record<TaskState, number>
const roleNumbers = { general: 0, guest: 1, admin: 2 } as const satisfies Record<Role, number>

export const taskData = z
  .object({
    id: z.string(),
    name: z.string(),
    creator: z.string(),
    creator_role: z.literal([0, 1, 2]),
    state: z.literal([0, 1, 2, 4, 7]).describe('0: pending, 1: running, 2: succeeded, 4: canceled, 7: failed.'),
    status: z.string(),
    progress: z.int().min(0).max(100),
    start_time: moment.nullable(),
    end_time: moment.nullable(),
    total_bytes: z.int(),
    error: z.string(),
  })
  .meta({ id: 'Task' })

export function taskObject(task: Task): z.input<typeof taskData> {
  const { state, totalBytes, doneBytes } = task
  const done = state === 'succeeded' || totalBytes === 0
  return {
    id: task.id,
    name: task.name,
    creator: task.username,
    creator_role: roleNumbers[task.role],
    state: stateNumbers[state],
    status: task.status,
    progress: done ? 100 : Math.floor((doneBytes / totalBytes) * 100),
    start_time: task.started === undefined ? null : wireTime(task.started),
    end_time: task.ended === undefined ? null : wireTime(task.ended),
    total_bytes: totalBytes,
    error: task.error,
  }
}
