/** The tasks of the user, of all users for an admin, with their progress. */
import { useQueries } from '@tanstack/preact-query'
import { ListTodo } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import type { TaskKind } from '../api/schema.ts'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { change, changed } from '../components/rows.ts'
import { isAdmin, type Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { TaskItem } from './task-item.tsx'
import { isUnfinished, type Task, type TaskApi } from './task.ts'

const texts = textsOf('common', 'tasks')

/** Milliseconds between two requests of a list. */
const pollInterval = { undone: 1000, done: 3000 } as const

interface TaskListsProps {
  readonly me: Me
  /** The kinds of the tasks. */
  readonly kinds: readonly TaskKind[]
  /** What can be done while there are none. */
  readonly children?: ComponentChildren
}

export function TaskLists({ me, kinds, children }: TaskListsProps) {
  const api: TaskApi = isAdmin(me) ? '/api/admin/task' : '/api/task'
  const lists = useQueries({
    queries: kinds.flatMap((kind) =>
      (['undone', 'done'] as const).map((part) => ({
        queryKey: keys.tasks(kind, part),
        queryFn: async ({ signal }: { signal: AbortSignal }) =>
          (await get(`${api}/{kind}/${part}`, { params: { kind }, signal })).map((task) => ({ ...task, kind })),
        refetchInterval: pollInterval[part],
      })),
    ),
  })
  const error = lists.find((list) => list.error)?.error
  const tasks: Task[] = lists.flatMap(({ data }) => data ?? [])
  const running = tasks.filter(isUnfinished)
  const ended = tasks.filter((task) => !isUnfinished(task)).sort(byEnd)
  useRefreshAtEnd(running.length)
  if (tasks.length === 0 && lists.every(({ data }) => data !== undefined)) {
    return (
      <Empty Icon={ListTodo} text={texts.tasks.noneRunning}>
        <p class="muted">{texts.tasks.noneEnded}</p>
        {children}
      </Empty>
    )
  }
  return (
    <>
      {error && <Failure error={error} />}
      <h2>{texts.tasks.running}</h2>
      <TaskList api={api} tasks={running} empty={texts.tasks.noneRunning} />
      <h2>{texts.tasks.ended}</h2>
      {ended.length > 0 && (
        <button type="button" onClick={() => void clear(api, kinds)}>
          {texts.tasks.clear}
        </button>
      )}
      <TaskList api={api} tasks={ended} empty={texts.tasks.noneEnded} />
    </>
  )
}

/** Loads all lists again when a task is no longer in progress: it is among the finished ones now. */
function useRefreshAtEnd(count: number): void {
  const before = useRef(count)
  useEffect(() => {
    if (count < before.current) void changed(keys.tasks())
    before.current = count
  }, [count])
}

/** The latest first. */
function byEnd(one: Task, other: Task): number {
  return Date.parse(other.end_time ?? '') - Date.parse(one.end_time ?? '')
}

function clear(api: TaskApi, kinds: readonly TaskKind[]): Promise<void> {
  const cleared = kinds.map((kind) => post(`${api}/{kind}/clear_done`, undefined, { params: { kind } }))
  return change(keys.tasks(), Promise.all(cleared))
}

interface TaskListProps {
  readonly api: TaskApi
  readonly tasks: readonly Task[]
  readonly empty: string
}

function TaskList({ api, tasks, empty }: TaskListProps) {
  if (tasks.length === 0) return <p class="muted">{empty}</p>
  return (
    <ul class="list cards">
      {tasks.map((task) => (
        <TaskItem key={`${task.kind} ${task.id}`} api={api} task={task} />
      ))}
    </ul>
  )
}
