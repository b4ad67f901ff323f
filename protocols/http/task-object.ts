/** Tasks as the API shows them. */
import type { Role } from '../../src/principal.js'
import type { Task, TaskState } from '../../src/tasks.js'
import { wireTime } from './object.js'

const stateNumbers: Readonly<Record<TaskState, number>> = {
  pending: 0,
  running: 1,
  succeeded: 2,
  canceled: 4,
  failed: 7,
}
const roleNumbers: Readonly<Record<Role, number>> = { general: 0, guest: 1, admin: 2 }

export function taskObject(task: Task): object {
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
