/** The last lines of the daemon's log. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect, useRef, useState } from 'preact/hooks'
import { get, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { Failure } from '../components/failure.tsx'
import { formatTimeWithSeconds } from '../texts/format.ts'
import { Page } from '../components/page.tsx'
import { textsOf } from '../texts/texts.ts'
import './log-page.css'

const texts = textsOf('common', 'admin')

type Log = Data<'/api/admin/log'>

const levels = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof levels)[number]

/** Milliseconds between two requests. */
const pollInterval = 2000
/** Number of lines that are shown. */
const shownLines = 1000

export function LogPage() {
  const [level, setLevel] = useState<Level>('info')
  const { data, error } = useQuery({
    queryKey: keys.log(level),
    queryFn: () => withNewLines(level),
    refetchInterval: pollInterval,
  })
  const { log } = texts
  return (
    <Page title={texts.pages.log}>
      <label class="group">
        {log.level}
        <select value={level} onChange={(event) => setLevel(event.currentTarget.value as Level)}>
          {levels.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {error && <Failure error={error} />}
      {data?.content.length === 0 && <p>{log.empty}</p>}
      {data && data.content.length > 0 && <Lines lines={data.content} />}
    </Page>
  )
}

/** The lines that are shown, and those since. */
async function withNewLines(level: Level): Promise<Log> {
  const shown = queryClient.getQueryData<Log>(keys.log(level))
  const { content, next } = await get('/api/admin/log', { query: { level, after: shown?.next ?? 0 } })
  // The daemon was started anew, and counts from the beginning.
  if (shown && next < shown.next) return get('/api/admin/log', { query: { level } })
  return { content: [...(shown?.content ?? []), ...content].slice(-shownLines), next }
}

/** Stays at the last line unless the user has scrolled up. */
function Lines({ lines }: { readonly lines: Log['content'] }) {
  const list = useRef<HTMLOListElement>(null)
  const atEnd = useRef(true)
  useEffect(() => {
    if (atEnd.current) list.current?.scrollTo({ top: list.current.scrollHeight })
  }, [lines])
  return (
    <ol
      ref={list}
      class="log"
      aria-label={texts.pages.log}
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        atEnd.current = scrollHeight - scrollTop - clientHeight < 20
      }}
    >
      {lines.map(({ id, time, level, message, fields }) => (
        <li key={id} class={level === 'error' || level === 'fatal' ? 'error' : undefined}>
          <time>{formatTimeWithSeconds(time)}</time> {level} {message} <span class="muted">{fieldsOf(fields)}</span>
        </li>
      ))}
    </ol>
  )
}

/** The fields as `name=value`. Texts with blanks are quoted. */
function fieldsOf(fields: Log['content'][number]['fields']): string {
  return Object.entries(fields)
    .map(
      ([name, value]) => `${name}=${typeof value === 'string' && /^\S+$/.test(value) ? value : JSON.stringify(value)}`,
    )
    .join(' ')
}
