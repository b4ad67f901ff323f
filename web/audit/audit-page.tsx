/** Who did what: found by a filter, and followed live. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { Link, useSearch } from 'wouter-preact'
import { apiUrl } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { SettingGroup } from '../api/schema.ts'
import { Check } from '../components/check.tsx'
import { Failure } from '../components/failure.tsx'
import { reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { textsOf } from '../texts/texts.ts'
import { EventTable } from './event-table.tsx'
import { showOlder, withNewEvents } from './events.ts'
import { FilterForm } from './filter-form.tsx'
import { filterIn, isEmpty, queryOf } from './filter.ts'

const texts = textsOf('common', 'files', 'audit')

/** Milliseconds between two requests. */
const pollInterval = 2000

export function AuditPage() {
  const search = useSearch()
  const filter = filterIn(search)
  const query = queryOf(filter)
  const [follows, setFollows] = useState(true)
  const [busy, setBusy] = useState(false)
  const { data, error, refetch } = useQuery({
    queryKey: keys.audit(query),
    queryFn: () => withNewEvents(query),
    // A window that is not in view does not ask.
    refetchInterval: follows && pollInterval,
    staleTime: follows ? 0 : Infinity,
  })
  const { audit } = texts
  async function older(): Promise<void> {
    // What somebody reads further below must stay where it is.
    setFollows(false)
    setBusy(true)
    await reporting(showOlder(query))
    setBusy(false)
  }
  const exported = (format: 'csv' | 'ndjson') => apiUrl('/api/admin/audit', {}, { ...query, format }).href
  return (
    <Page title={texts.pages.audit}>
      <p class="muted">{audit.about}</p>
      <FilterForm key={search} filter={filter} />
      <div class="toolbar">
        <Check text={audit.follow} checked={follows} onChecked={setFollows} />
        {!follows && (
          <button type="button" onClick={() => void refetch()}>
            {texts.files.refresh}
          </button>
        )}
        <span class="space" />
        <a href={exported('csv')} download>
          {audit.csv}
        </a>
        <a href={exported('ndjson')} download>
          {audit.ndjson}
        </a>
      </div>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {!data && !error && <p class="loading skeleton">{texts.loading}</p>}
      {data?.content.length === 0 && (
        <p>{data.next !== null ? audit.searchOn : isEmpty(filter) ? audit.none : audit.noMatch}</p>
      )}
      {data && data.content.length > 0 && <EventTable caption={texts.pages.audit} events={data.content} />}
      {typeof data?.next === 'string' && (
        <button type="button" disabled={busy} onClick={() => void older()}>
          {texts.more}
        </button>
      )}
      <p>
        <Link href={`/@manage/settings?group=${SettingGroup.audit}`}>{audit.settings}</Link>
      </p>
    </Page>
  )
}
