/** API representation of tasks. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { within } from '../../../src/base/path.js'
import {
  subjectOf,
  type FailedItem,
  type Task,
  type TaskKind,
  type TaskPhase,
  type TaskState,
} from '../../../src/tasks/task.js'
import { wireTime } from './object.js'
import { roleNumber, roleNumbers } from './roles.js'
import { nameOfCause } from '../api/errors.js'
import { namedNumber, timestamp } from '../api/schemas.js'
import { StreamedArray } from '../api/streamed-array.js'
import { taskName, taskSubject, taskSubjectData } from './task-name.js'

const stateNumbers = {
  pending: 0,
  running: 1,
  succeeded: 2,
  canceling: 3,
  canceled: 4,
  failed: 7,
  waiting: 8,
} as const satisfies Record<TaskState, number>

const phaseTexts = {
  looking_up: 'getting src object',
  transferring_file: 'getting src object link',
  listing_folder: 'src object is dir, listing objs',
  transferring_folder: (kind) => `src object is dir, added all ${kind} tasks of objs`,
  storing_upload: 'uploading',
  storing_download: 'offline download completed, maybe transferring',
  seeding: 'offline download completed, waiting for seeding',
} as const satisfies Record<Extract<TaskPhase, string>, string | ((kind: TaskKind) => string)>

function phaseText(phase: TaskPhase, kind: TaskKind): string {
  if (typeof phase === 'object') return `[${phase.tool}]: ${phase.state}`
  const text = phaseTexts[phase]
  return typeof text === 'function' ? text(kind) : text
}

const errorName = z
  .string()
  .nullable()
  .describe('The name of the error; of several, that of the first. Null: none, or of an earlier version.')

const taskFields = z.object({
  id: z.string(),
  name: z.string(),
  subject: taskSubjectData.nullable().describe('The parts of the name; null for a task of an earlier version.'),
  creator: z.string(),
  creator_role: roleNumber,
  state: namedNumber('TaskState', stateNumbers),
  status: z.string(),
  progress: z.number().min(0).max(100),
  start_time: timestamp.nullable(),
  end_time: timestamp.nullable(),
  total_bytes: z.int(),
  error: z.string().describe('The error of the task. If only some items failed, the error of each.'),
  error_name: errorName,
})

export const taskData = taskFields.meta({ id: 'Task' })

export const taskInfoData = taskFields
  .extend({
    failures: z
      .array(z.object({ path: z.string(), error: z.string(), error_name: errorName }).meta({ id: 'FailedItem' }))
      .describe('The items that failed in the last run.'),
  })
  .meta({ id: 'TaskInfo' })

export function taskObject(task: Task): z.input<typeof taskData> {
  const { state, totalBytes, doneBytes } = task
  const subject = subjectOf(task)
  const share = totalBytes === 0 ? 0 : Math.min(1, Math.max(0, doneBytes / totalBytes))
  return {
    id: task.id,
    name: taskName(subject),
    subject: taskSubject(subject),
    creator: task.username,
    creator_role: roleNumbers[task.role],
    state: stateNumbers[state],
    status: task.phase === undefined ? task.status : phaseText(task.phase, task.kind),
    progress: state === 'succeeded' ? 100 : share * 100,
    start_time: task.started === undefined ? null : wireTime(task.started),
    end_time: task.ended === undefined ? null : wireTime(task.ended),
    total_bytes: Math.max(totalBytes, doneBytes),
    error: task.error,
    error_name: nameOrNull(task.errorName),
  }
}

/** The tasks as a list that is serialized in parts: each can have a name of several thousand characters. */
export function taskObjects(tasks: readonly Task[]): StreamedArray<z.input<typeof taskData>> {
  return new StreamedArray(tasks.length, (from, to) => tasks.slice(from, to).map(taskObject), { chunkLength: 50 })
}

/** The task with its failures. Their paths are relative to the base folder of the principal, if they are below it. */
export function taskInfo(
  task: Task,
  failures: readonly FailedItem[],
  { base }: Principal,
): z.input<typeof taskInfoData> {
  return {
    ...taskObject(task),
    failures: failures.map(({ path, error, errorName }) => ({
      path: within(base, path) ?? path,
      ...{ error, error_name: nameOrNull(errorName) },
    })),
  }
}

function nameOrNull(cause: string | undefined): string | null {
  return cause === undefined ? null : nameOfCause(cause)
}
