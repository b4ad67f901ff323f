/** Who is connected and signed in now, and how to end that. */
import { Unplug } from 'lucide-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { browserOf } from '../profile/browser-name.ts'
import { formatSize, formatTime } from '../texts/format.ts'
import { protocolText } from '../components/event-text.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'admin')

/** Milliseconds between two looks at the connections. */
const pollInterval = 5000

export function ConnectionsPage() {
  const { connections } = texts
  return (
    <Page title={texts.pages.connections}>
      <p class="muted">{connections.about}</p>
      <OpenConnections />
      <Browsers />
    </Page>
  )
}

function OpenConnections() {
  const { data, error } = useRows(keys.connections, () => get('/api/admin/connection/list'), pollInterval)
  const { connections } = texts
  return (
    <section>
      <h2>{connections.open}</h2>
      {error && <Failure error={error} />}
      {data && <p class="muted">{connections.node(data.node)}</p>}
      {data?.connections.length === 0 && <Empty Icon={Unplug} text={connections.none} />}
      {data && data.connections.length > 0 && (
        <Table
          caption={connections.open}
          rows={data.connections}
          keyOf={({ id }) => id}
          columns={{
            [connections.user]: ({ username }) => username ?? connections.visitor,
            [connections.address]: ({ address }) => address,
            [connections.protocol]: ({ protocol }) => protocolText(protocol),
            [connections.since]: ({ since }) => formatTime(since),
            [connections.received]: ({ received }) => formatSize(received),
            [connections.sent]: ({ sent }) => formatSize(sent),
          }}
          actions={({ id, username, address }) => (
            <NamedButton
              text={connections.end}
              of={texts.facts([username ?? connections.visitor, address])}
              onClick={() => void change(keys.connections, post('/api/admin/connection/end', { id }))}
            />
          )}
        />
      )}
    </section>
  )
}

function Browsers() {
  const { data, error } = useRows(keys.signedInBrowsers, () => get('/api/admin/session/list'))
  const { connections } = texts
  return (
    <section>
      <h2>{connections.browsers}</h2>
      {error && <Failure error={error} />}
      {data && (
        <Table
          caption={connections.browsers}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [connections.user]: ({ username }) => username,
            [connections.address]: ({ address }) => address,
            [connections.browser]: ({ user_agent: agent }) => <span title={agent}>{browserOf(agent)}</span>,
            [connections.since]: ({ created }) => formatTime(created),
            [connections.used]: ({ last_used: used }) => formatTime(used),
          }}
          actions={({ id, username, user_agent: agent }) => (
            <NamedButton
              text={connections.signOut}
              of={texts.facts([username, browserOf(agent)])}
              onClick={() =>
                void change(keys.signedInBrowsers, post('/api/admin/session/delete', undefined, { query: { id } }))
              }
            />
          )}
        />
      )}
    </section>
  )
}
