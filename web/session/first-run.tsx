/** The way to the first steps, until an admin has finished or dismissed them. */
import { Link } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { change, useRows } from '../parts/rows.ts'
import { texts } from '../texts.ts'

const setting = 'first_run_done'

export function FirstRun() {
  const { data } = useRows('first run', () => get('/api/admin/setting/get', { query: { key: setting } }))
  if (data === undefined || Array.isArray(data) || data.value === 'true') return null
  return (
    <aside class="first-run" aria-label={texts.admin.pages.start}>
      {texts.admin.start.offer} <Link href="/@manage/start">{texts.admin.pages.start}</Link>
      <button type="button" onClick={() => void endFirstRun()}>
        {texts.close}
      </button>
    </aside>
  )
}

/** Stores that the first steps are not to be offered any more. */
export function endFirstRun(): Promise<void> {
  return change('first run', post('/api/admin/setting/save', [{ key: setting, value: 'true' }]))
}
