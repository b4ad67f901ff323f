/** The identities at providers by which the user signs in. */
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { ProviderLink, useSingleSignOn } from '../session/single-sign-on.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('profile')

type Identity = Data<'/api/me/identities'>[number]

export function Identities() {
  const singleSignOn = useSingleSignOn()
  const { data, error } = useRows(keys.identities, () => get('/api/me/identities'))
  const { profile } = texts
  if (singleSignOn === undefined && (data === undefined || data.length === 0)) return null
  const unlink = ({ id }: Identity) =>
    change(keys.identities, post('/api/me/identities/delete', undefined, { query: { id } }))
  return (
    <section>
      <h2>{profile.identities}</h2>
      <p class="muted">{profile.identitiesHint}</p>
      {error && <Failure error={error} />}
      {data?.length === 0 && <p>{profile.noIdentities}</p>}
      {data !== undefined && data.length > 0 && (
        <Table
          caption={profile.identities}
          rows={data}
          keyOf={({ id }) => id}
          columns={{
            [profile.username]: ({ name }) => name,
            [profile.provider]: ({ issuer }) => issuer,
            [profile.lastUsed]: ({ last_used: used }) => formatTime(used),
          }}
          actions={(identity) => (
            <NamedButton text={profile.unlink} of={identity.name} onClick={() => void unlink(identity)} />
          )}
        />
      )}
      {singleSignOn && <ProviderLink method="link" after="/@profile" text={profile.linkIdentity} />}
    </section>
  )
}
