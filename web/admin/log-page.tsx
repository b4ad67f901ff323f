/** The last lines of the daemon's log. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get } from '../api/client.ts'
import { Failure } from '../parts/failure.tsx'
import { formatTime } from '../parts/format.ts'
import { Page } from '../parts/page.tsx'
import { texts } from '../texts.ts'

/** Milliseconds between two requests. */
const pollInterval = 2000
const levels = ['debug', 'info', 'warn', 'error'] as const

export function LogPage() {
  const [level, setLevel] = useState<(typeof levels)[number]>('info')
  const { data, error } = useQuery({
    queryKey: ['log', level],
    queryFn: () => get('/api/admin/log', { query: { level } }),
    refetchInterval: pollInterval,
  })
  const { log } = texts.admin
  return (
    <Page title={texts.admin.pages.log}>
      <label class="group">
        {log.level}
        <select value={level} onChange={(event) => setLevel(event.currentTarget.value as typeof level)}>
          {levels.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {error && <Failure error={error} />}
      <ol class="log" aria-label={texts.admin.pages.log} tabIndex={0}>
        {data?.content.map((line) => (
          <li key={line.id} class={line.level === 'error' || line.level === 'fatal' ? 'error' : undefined}>
            <time>{formatTime(line.time)}</time> {line.level} {line.message}{' '}
            {Object.keys(line.fields).length > 0 && <code>{JSON.stringify(line.fields)}</code>}
          </li>
        ))}
      </ol>
    </Page>
  )
}
