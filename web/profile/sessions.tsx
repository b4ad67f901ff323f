/** The browsers in which the user is signed in to the console. */
import { useQuery } from '@tanstack/preact-query'
import { get, post } from '../api/client.ts'
import { askWhoIsSignedIn, queryClient } from '../api/queries.ts'
import { Failure } from '../parts/failure.tsx'
import { formatTime } from '../parts/format.ts'
import { reporting } from '../parts/notices.tsx'
import { texts } from '../texts.ts'

export function Sessions() {
  const { data, error } = useQuery({ queryKey: ['sessions'], queryFn: () => get('/api/me/session/list') })
  async function end(id: number): Promise<void> {
    await reporting(post('/api/me/session/delete', undefined, { query: { id } }))
    await queryClient.invalidateQueries({ queryKey: ['sessions'] })
    await askWhoIsSignedIn()
  }
  async function endAll(): Promise<void> {
    if (await reporting(post('/api/me/session/delete_all'))) await askWhoIsSignedIn()
  }
  return (
    <section>
      <h2>{texts.profile.sessions}</h2>
      {error && <Failure error={error} />}
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">{texts.profile.client}</th>
              <th scope="col">{texts.profile.address}</th>
              <th scope="col">{texts.profile.signedIn}</th>
              <th scope="col">{texts.profile.lastUsed}</th>
              <th scope="col">{texts.files.actions}</th>
            </tr>
          </thead>
          <tbody>
            {data?.content.map((session) => (
              <tr key={session.id}>
                <td>
                  {session.user_agent}
                  {session.current && <strong> ({texts.profile.thisSession})</strong>}
                </td>
                <td>{session.address}</td>
                <td>{formatTime(session.created)}</td>
                <td>{formatTime(session.last_used)}</td>
                <td>
                  <button
                    type="button"
                    aria-label={`${texts.profile.end} ${formatTime(session.created)}`}
                    onClick={() => void end(session.id)}
                  >
                    {texts.profile.end}
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <button type="button" onClick={() => void endAll()}>
        {texts.profile.endAll}
      </button>
    </section>
  )
}
