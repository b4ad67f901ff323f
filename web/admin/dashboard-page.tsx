/** The first page of the administration: what goes through the server, and whether all is well. */
import { useQuery } from '@tanstack/preact-query'
import { Link } from 'wouter-preact'
import { get, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { TaskState } from '../api/schema.ts'
import { Failure } from '../components/failure.tsx'
import { formatSize } from '../texts/format.ts'
import { Page } from '../components/page.tsx'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { EventTable } from '../audit/event-table.tsx'
import { auditAddress } from '../audit/filter.ts'
import { TrafficChart } from '../audit/traffic-chart.tsx'
import { StorageStatus } from './storage-status.tsx'
import './dashboard-page.css'

const texts = textsOf('common', 'audit', 'tasks', 'admin')

type Overview = Data<'/api/admin/overview'>
type Storage = Overview['storages'][number]

/** Milliseconds between two requests. */
const pollInterval = 10_000
const lastEvents = 10

export function DashboardPage() {
  const { data, error, refetch } = useQuery({
    queryKey: keys.overview,
    queryFn: () => get('/api/admin/overview'),
    refetchInterval: pollInterval,
  })
  const { data: last } = useQuery({
    queryKey: keys.lastEvents,
    queryFn: () => get('/api/admin/audit', { query: { limit: lastEvents } }),
    refetchInterval: pollInterval,
  })
  const { dashboard } = texts
  return (
    <Page title={texts.pages.dashboard}>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {!data && !error && <p class="loading skeleton">{texts.loading}</p>}
      {data && (
        <>
          <div class="charts">
            <TrafficChart title={dashboard.hour} traffic={data.minutes} unit="minute" />
            <TrafficChart title={dashboard.month} traffic={data.days} unit="day" />
          </div>
          <h2>{dashboard.storages}</h2>
          <Storages storages={data.storages} />
          <h2>{dashboard.tasks}</h2>
          <Tasks tasks={data.tasks} />
          <h2>{dashboard.errors}</h2>
          {data.errors.length === 0 && <p>{dashboard.noErrors}</p>}
          {data.errors.length > 0 && <EventTable caption={dashboard.errors} events={data.errors} />}
        </>
      )}
      {last && (
        <>
          <h2>{dashboard.last}</h2>
          {last.content.length === 0 && <p>{texts.audit.none}</p>}
          {last.content.length > 0 && <EventTable caption={dashboard.last} events={last.content} />}
          <p>
            <Link href={auditAddress({})}>{dashboard.all}</Link>
          </p>
        </>
      )}
    </Page>
  )
}

function Storages({ storages }: { readonly storages: readonly Storage[] }) {
  const { dashboard, storages: words, pages } = texts
  return (
    <>
      <Table
        caption={dashboard.storages}
        rows={storages}
        keyOf={({ id }) => id}
        columns={{
          [words.path]: ({ mount_path: path }) => path,
          [words.status]: (storage) => <StorageStatus storage={storage} />,
          [words.space]: ({ usage }) => (usage ? <Space {...usage} /> : dashboard.noSpace),
        }}
      />
      <p>
        <Link href="/@manage/storages">{pages.storages}</Link>
      </p>
    </>
  )
}

function Space({ used_space: used, total_space: total }: NonNullable<Storage['usage']>) {
  const text = texts.storages.used(formatSize(used), formatSize(total))
  return (
    <span class="space-used">
      {total > 0 && <meter min={0} max={total} high={total * 0.9} value={used} aria-label={text} />} {text}
    </span>
  )
}

/** How many tasks there are, by the states that any is in. */
function Tasks({ tasks }: Pick<Overview, 'tasks'>) {
  const counted = Object.entries(tasks).filter(([, count]) => count > 0)
  if (counted.length === 0) return <p>{texts.dashboard.noTasks}</p>
  return (
    <p class="counts">
      {counted.map(([state, count]) => (
        <span key={state} class={state === 'failed' ? 'error' : undefined}>
          {texts.dashboard.tasksIn(count, texts.tasks.states[TaskState[state as keyof Overview['tasks']]])}
        </span>
      ))}
      <Link href="/@tasks">{texts.nav.tasks}</Link>
    </p>
  )
}
