/** The way to the first steps, until an admin has finished or dismissed them. */
import { Link, useLocation } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { change, useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import './first-run.css'

const texts = textsOf('common', 'admin')

const setting = 'first_run_done'
/** The address of the page with the first steps. */
const firstStepsAddress = '/@manage/start'

export function FirstRun() {
  const { data: isDone } = useRows(keys.firstRun, isFirstRunDone)
  const [location] = useLocation()
  if (isDone !== false || location === firstStepsAddress) return null
  return (
    <aside class="first-run" aria-label={texts.pages.start}>
      <span>
        {texts.start.offer} <Link href={firstStepsAddress}>{texts.pages.start}</Link>
      </span>
      <button type="button" onClick={() => void endFirstRun()}>
        {texts.close}
      </button>
    </aside>
  )
}

async function isFirstRunDone(): Promise<boolean> {
  const row = await get('/api/admin/setting/get', { query: { key: setting } })
  return Array.isArray(row) || row.value === 'true'
}

/** Stores that the first steps are not to be offered any more. */
export function endFirstRun(): Promise<void> {
  return change(keys.firstRun, post('/api/admin/setting/save', { settings: [{ key: setting, value: 'true' }] }))
}
