/** A task with its progress, and what can be done with it. */
import { useState } from 'preact/hooks'
import { post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { TaskState } from '../api/schema.ts'
import { formatSize, formatTime } from '../texts/format.ts'
import { textOfFailure } from '../components/error-text.ts'
import { NamedButton } from '../components/named-button.tsx'
import { reporting } from '../components/notices.tsx'
import { change } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { isUnfinished, type Task, type TaskApi } from './task.ts'
import './task-item.css'

const texts = textsOf('common', 'tasks')

interface TaskProps {
  readonly api: TaskApi
  readonly task: Task
}

export function TaskItem({ api, task }: TaskProps) {
  const { state, progress, total_bytes: bytes, error, error_name: errorName } = task
  const name = nameOf(task)
  return (
    <li>
      <div class="task">
        <span class="name" lang={task.subject === null ? 'en' : undefined}>
          {name}
        </span>
        <span class={state === TaskState.failed ? 'error' : 'muted'}>{texts.tasks.states[state]}</span>
        {state === TaskState.running && (
          <>
            <progress aria-label={name} max={100} value={progress} />
            <span class="muted">{texts.tasks.progress(progress / 100, formatSize(bytes))}</span>
          </>
        )}
        {task.end_time !== null && <time class="muted">{formatTime(task.end_time)}</time>}
        <span class="space" />
        <TaskButtons api={api} task={task} />
      </div>
      {error !== '' && (
        <p class="error">
          <Reason name={errorName} given={error} />
        </p>
      )}
      {state === TaskState.failed && <Failures api={api} task={task} />}
    </li>
  )
}

/** Why it has failed: the text of the name, then what the server says. */
function Reason({ name, given }: { readonly name: string | null; readonly given: string }) {
  const text = textOfFailure(name, given) ?? ''
  return (
    <>
      {text} {!text.includes(given) && <span lang="en">{given}</span>}
    </>
  )
}

/** What the task is about. A task of an earlier version of the server has only a name in English. */
function nameOf({ name, subject }: Task): string {
  return subject === null ? name : texts.tasks.names[subject.verb](subject.from, subject.to)
}

function TaskButtons({ api, task }: TaskProps) {
  const { kind, id, state } = task
  const name = nameOf(task)
  const act = (verb: 'cancel' | 'retry' | 'delete') => () =>
    void change(keys.tasks(), post(`${api}/{kind}/${verb}`, undefined, { params: { kind }, query: { tid: id } }))
  if (isUnfinished(task)) {
    return state === TaskState.canceling ? null : <NamedButton text={texts.cancel} of={name} onClick={act('cancel')} />
  }
  const mayRetry = state === TaskState.failed || state === TaskState.canceled
  return (
    <>
      {mayRetry && <NamedButton text={texts.retry} of={name} onClick={act('retry')} />}
      <NamedButton text={texts.tasks.remove} of={name} onClick={act('delete')} />
    </>
  )
}

/** The files that failed, when the user asks for them. */
function Failures({ api, task: { kind, id } }: TaskProps) {
  const [failures, setFailures] = useState<Data<'/api/task/{kind}/info'>['failures']>()
  const load = () => post(`${api}/{kind}/info`, undefined, { params: { kind }, query: { tid: id } })
  if (failures === undefined) {
    return (
      <button type="button" onClick={() => void reporting(load().then((info) => setFailures(info.failures)))}>
        {texts.tasks.showFailures}
      </button>
    )
  }
  return (
    <ul>
      {failures.map(({ path, error, error_name: name }) => (
        <li key={path}>
          {texts.labelled(path, '')}
          <Reason name={name} given={error} />
        </li>
      ))}
    </ul>
  )
}
