/** Endpoints for tasks. They exist twice: for users with their own tasks, and for admins with all tasks. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { isGatewayError } from '../../../src/base/errors.js'
import { Pauses } from '../../../src/base/pauses.js'
import { hasEnded, taskKinds, type TaskKind } from '../../../src/tasks/task.js'
import type { ProtocolTasks } from '../../../src/gateway/protocol-gateway.js'
import { endpoint, type Endpoint, type Refusal } from '../api/endpoint.js'
import { endpointMissing, coreRefusal } from '../api/refusals.js'
import { messageOf } from '../api/errors.js'
import { signalOf } from '../api/http-api.js'
import { requiredText } from '../api/fields.js'
import { namedText } from '../api/schemas.js'
import { taskData, taskInfo, taskInfoData, taskObjects } from '../compat/task-object.js'

const params = z.object({ kind: namedText('TaskKind', taskKinds).describe('The kind of the tasks.') })
const query = z.object({ tid: requiredText.describe('The `id` of the task.') })
const ids = z.object({ ids: z.array(z.string()) })
const failureReasons = z.record(z.string(), z.string()).describe('The reason of each failure, by task id.')
const unknownKind: Refusal = { ...endpointMissing, when: 'the kind of tasks does not exist' }
const guestRefusal: Refusal = { code: 403, text: 'You are a guest', error: 'denied' }
const unknownTask = coreRefusal(
  'not_found',
  { detail: 'task_missing' },
  'the task does not exist or belongs to another user',
)

const uploadGone = coreRefusal('unsupported', { detail: 'upload_gone' }, 'an upload task has ended')

type TaskAction = (tasks: ProtocolTasks, principal: Principal, kind: TaskKind, id: string) => Promise<void>

interface TaskVerb {
  readonly verb: string
  readonly summary: string
  readonly bulkSummary: string
  readonly refusals: readonly Refusal[]
  readonly action: TaskAction
}

const taskActions = [
  {
    verb: 'cancel',
    summary: 'Stop a task',
    bulkSummary: 'Stop several tasks',
    refusals: [],
    action: (tasks, ...which) => tasks.cancel(...which),
  },
  {
    verb: 'delete',
    summary: 'Delete a task; if it is running, it is stopped',
    bulkSummary: 'Stop and delete several tasks',
    refusals: [],
    action: (tasks, ...which) => tasks.delete(...which),
  },
  {
    verb: 'retry',
    summary: 'Retry a task that failed or was canceled; has no effect on one that succeeded',
    bulkSummary: 'Retry several tasks',
    refusals: [uploadGone],
    action: (tasks, ...which) => tasks.retry(...which),
  },
] as const satisfies readonly TaskVerb[]

function taskEndpointsAt(base: '/api/task' | '/api/admin/task', access: 'user' | 'admin'): readonly Endpoint[] {
  const path = <Verb extends string>(verb: Verb) => `${base}/{kind}/${verb}` as const
  const shared = { tag: 'Tasks', access, guestRefusal, params, refusals: [unknownKind] } as const
  return [
    endpoint({
      tag: 'Tasks',
      ...{ access, guestRefusal },
      method: 'get',
      path: `${base}/count`,
      summary: 'Count the unfinished tasks of all kinds',
      data: z.object({ unfinished: z.int() }),
      async answer({ api, principal }) {
        const tasks = await Promise.all(taskKinds.map((kind) => api.gateway.tasks.list(principal, kind)))
        return { unfinished: tasks.flat().filter((task) => !hasEnded(task)).length }
      },
    }),
    endpoint({
      ...shared,
      method: 'get',
      path: path('undone'),
      summary: 'List the unfinished tasks',
      data: z.array(taskData),
      answer: async ({ api, params: { kind }, principal }) => {
        const tasks = await api.gateway.tasks.list(principal, kind)
        return taskObjects(tasks.filter((task) => !hasEnded(task)))
      },
    }),
    endpoint({
      ...shared,
      method: 'get',
      path: path('done'),
      summary: 'List the finished tasks: succeeded, failed or canceled',
      description: 'They are stored for the number of days in the setting `finished_tasks_days`.',
      data: z.array(taskData),
      answer: async ({ api, params: { kind }, principal }) =>
        taskObjects((await api.gateway.tasks.list(principal, kind)).filter(hasEnded)),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('info'),
      summary: 'Get a task with its failed items',
      query,
      data: taskInfoData,
      refusals: [unknownKind, unknownTask],
      async answer({ api: { gateway }, params: { kind }, principal, query: { tid } }) {
        const task = await gateway.tasks.get(principal, kind, tid)
        return taskInfo(task, await gateway.tasks.failures(task), principal)
      },
    }),
    ...taskActions.flatMap(({ verb, summary, bulkSummary, refusals, action }) => [
      endpoint({
        ...shared,
        method: 'post',
        path: path(verb),
        summary,
        query,
        refusals: [unknownKind, unknownTask, ...refusals],
        answer: ({ api, params: { kind }, principal, query: { tid } }) =>
          action(api.gateway.tasks, principal, kind, tid),
      }),
      endpoint({
        ...shared,
        method: 'post',
        path: path(`${verb}_some`),
        summary: bulkSummary,
        fields: ids,
        listField: 'ids',
        faultyFields: 'invalid request format',
        data: failureReasons,
        async answer({ api, context, fields, params: { kind }, principal }) {
          const reasons: Record<string, string> = {}
          const pauses = new Pauses(signalOf(context.res))
          for (const id of new Set(fields.ids)) {
            await pauses.take()
            try {
              await action(api.gateway.tasks, principal, kind, id)
            } catch (error) {
              if (!isGatewayError(error)) throw error
              reasons[id] = messageOf(error)
            }
          }
          return reasons
        },
      }),
    ]),
    endpoint({
      ...shared,
      method: 'post',
      path: path('clear_done'),
      summary: 'Delete all finished tasks',
      answer: ({ api, params: { kind }, principal }) =>
        api.gateway.tasks.clear(principal, kind, ['succeeded', 'canceled', 'failed']),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('clear_succeeded'),
      summary: 'Delete all tasks that succeeded',
      answer: ({ api, params: { kind }, principal }) => api.gateway.tasks.clear(principal, kind, ['succeeded']),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('retry_failed'),
      summary: 'Retry all tasks that failed',
      answer: ({ api, params: { kind }, principal }) => api.gateway.tasks.retryFailed(principal, kind),
    }),
  ]
}

export const taskEndpoints: readonly Endpoint[] = [
  ...taskEndpointsAt('/api/task', 'user'),
  ...taskEndpointsAt('/api/admin/task', 'admin'),
]
