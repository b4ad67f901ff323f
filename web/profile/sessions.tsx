/** The browsers in which the user is signed in to the console. */
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { reporting } from '../components/notices.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { browserOf } from './browser-name.ts'

const texts = textsOf('profile')

type Session = Data<'/api/me/session/list'>['content'][number]

export function Sessions() {
  const { data, error } = useRows(keys.sessions, () => get('/api/me/session/list'))
  const { profile } = texts
  async function end({ id, current }: Session): Promise<void> {
    await change(keys.sessions, post('/api/me/session/delete', undefined, { query: { id } }))
    if (current) await askWhoIsSignedIn()
  }
  async function endAll(): Promise<void> {
    if (await reporting(post('/api/me/session/delete_all'))) await askWhoIsSignedIn()
  }
  return (
    <section>
      <h2>{profile.sessions}</h2>
      <p class="muted">{profile.sessionsHint}</p>
      {error && <Failure error={error} />}
      {data && (
        <Table
          caption={profile.sessions}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [profile.client]: ({ user_agent: agent, current }) => (
              <span title={agent}>
                {browserOf(agent)} {current && <strong>{profile.thisSession}</strong>}
              </span>
            ),
            [profile.address]: ({ address }) => address,
            [profile.signedIn]: ({ created }) => formatTime(created),
            [profile.lastUsed]: ({ last_used: used }) => formatTime(used),
          }}
          actions={(session) => (
            <NamedButton text={profile.end} of={browserOf(session.user_agent)} onClick={() => void end(session)} />
          )}
        />
      )}
      <button type="button" onClick={() => void endAll()}>
        {profile.endAll}
      </button>
    </section>
  )
}
