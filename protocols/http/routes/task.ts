/** Background work: what there is of it, and what can be done about it; once for users, once for admins. */
import { z } from 'zod'
import { isGatewayError } from '../../../src/errors.js'
import type { Principal } from '../../../src/principal.js'
import { isOver, taskKinds, type TaskKind } from '../../../src/tasks/task.js'
import type { Tasks } from '../../../src/tasks/tasks.js'
import { endpoint, type Endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { queryText } from '../fields.js'
import { taskData, taskInfo, taskInfoData, taskObject } from '../task-object.js'

const params = z.object({ kind: z.enum(taskKinds).describe('Of the tasks.') })
const query = z.object({ tid: queryText.describe('The `id` of the task.') })
const ids = z.object({ ids: z.array(z.string()) })
const faults = z.record(z.string(), z.string()).describe('Why not, by the ids of those of which it could not be done.')
const unknownKind: Refusal = { code: 404, text: 'no such endpoint', when: 'there are no tasks of this kind' }
const guestRefusal: Refusal = { code: 403, text: 'You are a guest' }
const unknownTask: Refusal = { code: 404, text: 'task not found', when: 'there is none, or it is not for this user' }

type Act = (tasks: Tasks, principal: Principal, kind: TaskKind, id: string) => Promise<void>

const acts = [
  { verb: 'cancel', summary: 'Stop a task', some: 'Stop some tasks', act: (tasks, ...which) => tasks.cancel(...which) },
  {
    verb: 'delete',
    summary: 'Stop a task where it still runs, and forget it',
    some: 'Stop and forget some tasks',
    act: (tasks, ...which) => tasks.delete(...which),
  },
  {
    verb: 'retry',
    summary: 'Run a task again that failed or was canceled; one that succeeded stays as it is',
    some: 'Run some tasks again',
    act: (tasks, ...which) => tasks.retry(...which),
  },
] as const satisfies readonly { verb: string; summary: string; some: string; act: Act }[]

function taskEndpointsAt(base: '/api/task' | '/api/admin/task', access: 'user' | 'admin'): readonly Endpoint[] {
  const path = <Verb extends string>(verb: Verb) => `${base}/{kind}/${verb}` as const
  const shared = { tag: 'Tasks', access, guestRefusal, params, refusals: [unknownKind] } as const
  return [
    endpoint({
      ...shared,
      method: 'get',
      path: path('undone'),
      summary: 'Tasks that have not ended',
      data: z.array(taskData),
      answer: ({ door, params: { kind }, principal }) =>
        door.gateway.tasks
          .list(principal, kind)
          .filter((task) => !isOver(task))
          .map(taskObject),
    }),
    endpoint({
      ...shared,
      method: 'get',
      path: path('done'),
      summary: 'Tasks that have ended, however',
      description: 'They are kept for as many days as the setting `finished_tasks_days` says.',
      data: z.array(taskData),
      answer: ({ door, params: { kind }, principal }) =>
        door.gateway.tasks.list(principal, kind).filter(isOver).map(taskObject),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('info'),
      summary: 'One task, with everything that it could not do',
      query,
      data: taskInfoData,
      refusals: [unknownKind, unknownTask],
      async answer({ door: { gateway }, params: { kind }, principal, query: { tid } }) {
        const task = await known(() => gateway.tasks.get(principal, kind, tid))
        return taskInfo(task, await gateway.tasks.failures(task), principal)
      },
    }),
    ...acts.flatMap(({ verb, summary, some, act }) => [
      endpoint({
        ...shared,
        method: 'post',
        path: path(verb),
        summary,
        query,
        refusals: [unknownKind, unknownTask],
        answer: ({ door, params: { kind }, principal, query: { tid } }) =>
          known(() => act(door.gateway.tasks, principal, kind, tid)),
      }),
      endpoint({
        ...shared,
        method: 'post',
        path: path(`${verb}_some`),
        summary: some,
        fields: ids,
        listField: 'ids',
        faultyFields: 'invalid request format',
        data: faults,
        async answer({ door, fields, params: { kind }, principal }) {
          const told: Record<string, string> = {}
          for (const id of fields.ids) {
            try {
              await act(door.gateway.tasks, principal, kind, id)
            } catch (error) {
              if (!isGatewayError(error)) throw error
              told[id] = error.reason
            }
          }
          return told
        },
      }),
    ]),
    endpoint({
      ...shared,
      method: 'post',
      path: path('clear_done'),
      summary: 'Forget all tasks that have ended',
      answer: ({ door, params: { kind }, principal }) =>
        door.gateway.tasks.clear(principal, kind, ['succeeded', 'canceled', 'failed']),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('clear_succeeded'),
      summary: 'Forget all tasks that have succeeded',
      answer: ({ door, params: { kind }, principal }) => door.gateway.tasks.clear(principal, kind, ['succeeded']),
    }),
    endpoint({
      ...shared,
      method: 'post',
      path: path('retry_failed'),
      summary: 'Run all tasks again that have failed',
      answer: ({ door, params: { kind }, principal }) => door.gateway.tasks.retryFailed(principal, kind),
    }),
  ]
}

/** A task that is not there is told in the words that clients know. */
async function known<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error, 'not_found')) throw new WireError(unknownTask.code, unknownTask.text)
    throw error
  }
}

export const taskEndpoints: readonly Endpoint[] = [
  ...taskEndpointsAt('/api/task', 'user'),
  ...taskEndpointsAt('/api/admin/task', 'admin'),
]
