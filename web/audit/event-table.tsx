/** Events as a table, whose rows open to all that is known. */
import { Fragment } from 'preact'
import { EventResult } from '../api/schema.ts'
import { actorText, originText } from '../components/event-text.ts'
import { formatTimeWithSeconds } from '../texts/format.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { eventText, factsOf, placeText, type AuditEvent } from './event.ts'
import './event-table.css'

const texts = textsOf('events')

interface EventTableProps {
  readonly caption: string
  readonly events: readonly AuditEvent[]
}

export function EventTable({ caption, events }: EventTableProps) {
  const { when, who, what, where, fields } = texts.events
  return (
    <Table
      caption={caption}
      rows={events}
      keyOf={({ id }) => id}
      columns={{
        [when]: ({ time }) => formatTimeWithSeconds(time),
        [who]: ({ user }) => actorText(user),
        [what]: (event) => <Details event={event} />,
        [where]: placeText,
        [fields.address]: originText,
      }}
    />
  )
}

function Details({ event }: { readonly event: AuditEvent }) {
  return (
    <details class="event">
      <summary class={event.result === EventResult.done ? undefined : 'error'}>{eventText(event)}</summary>
      <dl>
        {factsOf(event).map(([name, text]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </Fragment>
        ))}
      </dl>
    </details>
  )
}
