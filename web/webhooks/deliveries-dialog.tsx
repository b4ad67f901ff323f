/** What a webhook could not be given, and its repetition: of one event, of all that failed, or of those of a time. */
import { useInfiniteQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Dialog } from '../components/dialog.tsx'
import { messageOf } from '../components/error-text.ts'
import { Failure } from '../components/failure.tsx'
import { formatTimeWithSeconds } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { changed } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import type { Webhook } from './webhook.ts'

const texts = textsOf('common', 'audit', 'webhooks')

type Delivery = Data<'/api/admin/webhook/deliveries'>['content'][number]
/** Which events are sent again. None given: all that have failed. */
type Chosen = { readonly event_ids?: string[]; readonly from?: string; readonly to?: string }

const pageLength = 100

type State = keyof typeof texts.webhooks.states

interface DeliveriesDialogProps {
  readonly hook: Webhook
  readonly onClose: () => void
}

export function DeliveriesDialog({ hook: { id, name, enabled }, onClose }: DeliveriesDialogProps) {
  const [state, setState] = useState<State>('failed')
  const { data, error, isFetching, hasNextPage, fetchNextPage } = useInfiniteQuery({
    queryKey: keys.deliveries(id, state),
    queryFn: ({ pageParam }) =>
      get('/api/admin/webhook/deliveries', { query: { id, after: pageParam, failed: state === 'failed' } }),
    initialPageParam: 0,
    getNextPageParam: ({ content }) => (content.length < pageLength ? undefined : content.at(-1)?.id),
  })
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  // A notice would be behind the dialog.
  const [outcome, setOutcome] = useState('')
  const { webhooks, audit } = texts
  const rows = data?.pages.flatMap(({ content }) => content) ?? []
  async function replay(chosen: Chosen): Promise<void> {
    try {
      const { count } = await post('/api/admin/webhook/replay', { id, ...chosen })
      setOutcome(webhooks.replayed(count))
    } catch (failure) {
      setOutcome(messageOf(failure))
    }
    await Promise.all([changed(keys.deliveries(id)), changed(keys.webhooks)])
  }
  return (
    <Dialog title={webhooks.failuresTitle(name)} wide onClose={onClose}>
      <label>
        {webhooks.shown}
        <select value={state} onChange={({ currentTarget }) => setState(currentTarget.value as State)}>
          {Object.entries(webhooks.states).map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {error && <Failure error={error} />}
      {!data && !error && <p class="loading skeleton">{texts.loading}</p>}
      {data && rows.length === 0 && <p>{webhooks.noneOf[state]}</p>}
      {rows.length > 0 && (
        <Table
          caption={webhooks.failuresTitle(name)}
          rows={rows}
          keyOf={(row) => row.id}
          columns={{
            [webhooks.event]: eventOf,
            [webhooks.attempts]: ({ attempts }) => attempts,
            [webhooks.reason]: ({ last_error: reason }) => <span lang="en">{reason}</span>,
            ...(state === 'waiting' && { [webhooks.next]: nextOf }),
          }}
          actions={(row) =>
            enabled && (
              <NamedButton
                text={webhooks.replay}
                of={eventOf(row)}
                onClick={() => void replay({ event_ids: [row.event_id] })}
              />
            )
          }
        />
      )}
      <p class="row-buttons">
        {hasNextPage && (
          <button type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
            {texts.more}
          </button>
        )}
        {enabled && state === 'failed' && rows.length > 0 && (
          <button type="button" onClick={() => void replay({})}>
            {webhooks.replayAll}
          </button>
        )}
      </p>
      {enabled ? (
        <fieldset>
          <legend>{webhooks.replayRange}</legend>
          <div class="filters">
            <TimeField label={audit.from} value={from} onValue={setFrom} />
            <TimeField label={audit.to} value={to} onValue={setTo} />
            <button
              type="button"
              disabled={from === '' || to === ''}
              onClick={() => void replay({ from: new Date(from).toISOString(), to: new Date(to).toISOString() })}
            >
              {webhooks.replayTime}
            </button>
          </div>
        </fieldset>
      ) : (
        <p class="muted">{webhooks.isOff}</p>
      )}
      <p role="status">{outcome}</p>
    </Dialog>
  )
}

interface TimeFieldProps {
  readonly label: string
  readonly value: string
  readonly onValue: (value: string) => void
}

function TimeField({ label, value, onValue }: TimeFieldProps) {
  return (
    <label>
      {label}
      <input
        type="datetime-local"
        max="9999-12-31T23:59"
        value={value}
        onInput={({ currentTarget }) => onValue(currentTarget.value)}
      />
    </label>
  )
}

/** When it is attempted again. */
function nextOf({ next }: Delivery): string {
  return next === null ? texts.webhooks.now : formatTimeWithSeconds(next)
}

/** When, and what: as the body says, which is a CloudEvent. */
function eventOf({ body }: Delivery): string {
  const { time, type, subject = '' } = JSON.parse(body) as { time: string; type: string; subject?: string }
  return [formatTimeWithSeconds(time), type.replace(/^tidegate\./, ''), subject].filter(Boolean).join(' ')
}
