/** The search index. It is built when search is turned on here. */
import { useEffect, useRef } from 'preact/hooks'
import { useQuery } from '@tanstack/preact-query'
import { ApiError, get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { SettingGroup } from '../api/schema.ts'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { Page } from '../components/page.tsx'
import { change } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { Settings } from './settings.tsx'

const texts = textsOf('common', 'admin')

export function IndexPage() {
  const { data, error } = useQuery({
    queryKey: keys.index,
    queryFn: () => get('/api/admin/index/progress'),
    refetchInterval: ({ state }) => (state.data?.is_done === false ? 1000 : 5000),
  })
  const { index } = texts
  const isOff = error instanceof ApiError && error.error === 'search_off'
  const running = data?.is_done === false
  const act = (verb: 'build' | 'stop' | 'clear') => void change(keys.index, post(`/api/admin/index/${verb}`))
  const wasOff = useRef(false)
  useEffect(() => {
    if (isOff) wasOff.current = true
    else if (data && wasOff.current) {
      wasOff.current = false
      act('build')
    }
  }, [isOff, data])
  return (
    <Page title={texts.pages.index}>
      {isOff && <p>{index.off}</p>}
      {error && !isOff && <Failure error={error} />}
      {data && !isOff && (
        <>
          <p role="status">
            {running ? index.running(data.obj_count) : index.names(data.obj_count)}
            {data.last_done_time !== null && ` ${index.lastRun(formatTime(data.last_done_time))}`}
          </p>
          {data.error !== '' && (
            <p class="error" lang="en">
              {data.error}
            </p>
          )}
          <div class="toolbar">
            <button type="button" disabled={running} onClick={() => act('build')}>
              {index.build}
            </button>
            <button
              type="button"
              disabled={running}
              onClick={() => void change(keys.index, post('/api/admin/index/update', { paths: ['/'] }))}
            >
              {index.update}
            </button>
            <button type="button" disabled={!running} onClick={() => act('stop')}>
              {index.stop}
            </button>
            <button type="button" disabled={running} onClick={() => act('clear')}>
              {index.clear}
            </button>
          </div>
        </>
      )}
      <Settings group={SettingGroup.index} />
    </Page>
  )
}
