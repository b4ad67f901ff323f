/** Background work of the user, of all users for an admin, with its progress. */
import { useQueries } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Failure } from '../parts/failure.tsx'
import { formatSize, formatTime } from '../parts/format.ts'
import { reporting } from '../parts/notices.tsx'
import { Page } from '../parts/page.tsx'
import { isAdmin, type Me } from '../session/me.ts'
import { texts } from '../texts.ts'
import '../styles/lists.css'

type TaskApi = '/api/task' | '/api/admin/task'
type Task = Data<'/api/task/{kind}/undone'>[number] & { readonly kind: Kind }

const kinds = ['upload', 'copy', 'move', 'offline_download', 'offline_download_transfer'] as const
type Kind = (typeof kinds)[number]

/** Milliseconds between two requests of a list. */
const pollInterval = { undone: 1000, done: 3000 } as const

/** Values of `state`. */
const states = { pending: 0, running: 1, succeeded: 2, canceling: 3, canceled: 4, failed: 7, waiting: 8 } as const
const unfinished: readonly number[] = [states.pending, states.running, states.canceling, states.waiting]

export default function TasksPage({ me }: { readonly me: Me }) {
  const api: TaskApi = isAdmin(me) ? '/api/admin/task' : '/api/task'
  const lists = useQueries({
    queries: kinds.flatMap((kind) =>
      (['undone', 'done'] as const).map((part) => ({
        queryKey: ['tasks', kind, part],
        queryFn: async ({ signal }: { signal: AbortSignal }) =>
          (await get(`${api}/{kind}/${part}`, { params: { kind }, signal })).map((task) => ({ ...task, kind })),
        refetchInterval: pollInterval[part],
      })),
    ),
  })
  const error = lists.find((list) => list.error)?.error
  const tasks: Task[] = lists.flatMap(({ data }) => data ?? [])
  const [running, ended] = [tasks.filter(isUnfinished), tasks.filter((task) => !isUnfinished(task))]
  return (
    <Page title={texts.nav.tasks}>
      {error && <Failure error={error} />}
      <h2>{texts.tasks.running}</h2>
      <TaskList api={api} tasks={running} empty={texts.tasks.noneRunning} />
      <h2>{texts.tasks.ended}</h2>
      {ended.length > 0 && (
        <button type="button" onClick={() => void clear(api)}>
          {texts.tasks.clear}
        </button>
      )}
      <TaskList api={api} tasks={ended} empty={texts.tasks.noneEnded} />
    </Page>
  )
}

function isUnfinished({ state }: Task): boolean {
  return unfinished.includes(state)
}

async function clear(api: TaskApi): Promise<void> {
  await reporting(Promise.all(kinds.map((kind) => post(`${api}/{kind}/clear_done`, undefined, { params: { kind } }))))
  await queryClient.invalidateQueries({ queryKey: ['tasks'] })
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

function TaskItem({ api, task }: { readonly api: TaskApi; readonly task: Task }) {
  const { kind, id, name, state, progress, total_bytes: bytes, error } = task
  const [failures, setFailures] = useState<readonly { path: string; error: string }[]>()
  async function act(verb: 'cancel' | 'retry' | 'delete'): Promise<void> {
    await reporting(post(`${api}/{kind}/${verb}`, undefined, { params: { kind }, query: { tid: id } }))
    await queryClient.invalidateQueries({ queryKey: ['tasks'] })
  }
  async function showFailures(): Promise<void> {
    await reporting(
      post(`${api}/{kind}/info`, undefined, { params: { kind }, query: { tid: id } }).then((info) =>
        setFailures(info.failures),
      ),
    )
  }
  return (
    <li>
      <div class="task">
        <span class="name">{name}</span>
        <span class="muted">{texts.tasks.states[state]}</span>
        {state === states.running && <progress aria-label={name} max={100} value={progress} />}
        {state === states.running && <span class="muted">{texts.tasks.progress(progress, formatSize(bytes))}</span>}
        {task.end_time !== null && <time class="muted">{formatTime(task.end_time)}</time>}
        <span class="space" />
        {isUnfinished(task) && (
          <button type="button" disabled={state === states.canceling} onClick={() => void act('cancel')}>
            {texts.cancel}
          </button>
        )}
        {(state === states.failed || state === states.canceled) && (
          <button type="button" onClick={() => void act('retry')}>
            {texts.retry}
          </button>
        )}
        {!isUnfinished(task) && (
          <button type="button" onClick={() => void act('delete')}>
            {texts.tasks.remove}
          </button>
        )}
      </div>
      {error !== '' && <p class="error">{error}</p>}
      {state === states.failed && failures === undefined && (
        <button type="button" onClick={() => void showFailures()}>
          {texts.tasks.showFailures}
        </button>
      )}
      {failures && (
        <ul>
          {failures.map(({ path, error: reason }) => (
            <li key={path}>{`${path}: ${reason}`}</li>
          ))}
        </ul>
      )}
    </li>
  )
}
