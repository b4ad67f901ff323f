/** Sign-ins that failed, and those that are refused after too many failures. */
import { KeyRound, ShieldCheck } from 'lucide-preact'
import { Link } from 'wouter-preact'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { EventKind } from '../api/schema.ts'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'
import { EventTable } from './event-table.tsx'
import { auditAddress } from './filter.ts'

const texts = textsOf('common', 'audit')

type Locked = Data<'/api/admin/sign-ins'>[number]

const mostFailed = 50
const kind = EventKind.signin_refused

export function SignInsPage() {
  const { data: locked, error } = useRows(keys.lockedSignIns, () => get('/api/admin/sign-ins'))
  const failed = useRows(keys.failedSignIns, () =>
    get('/api/admin/audit', { query: { kind: [kind], limit: mostFailed } }),
  )
  const { signIns } = texts
  const unlock = (row: Locked) =>
    change(keys.lockedSignIns, post('/api/admin/sign-ins/unlock', unlocked(row)), signIns.unlocked(whoOf(row)))
  return (
    <Page title={texts.pages['sign-ins']}>
      <p class="muted">{signIns.about}</p>
      <h2>{signIns.locked}</h2>
      {error && <Failure error={error} />}
      {locked?.length === 0 && (
        <Empty Icon={ShieldCheck} text={signIns.noneLocked}>
          <Link href="/@manage/groups">{signIns.stricter}</Link>
        </Empty>
      )}
      {locked && locked.length > 0 && (
        <Table
          caption={signIns.locked}
          rows={locked}
          keyOf={(row) => JSON.stringify(row)}
          columns={{
            [signIns.who]: whoOf,
            [signIns.failures]: ({ failures }) => failures,
            [signIns.until]: ({ until }) => formatTime(until),
          }}
          actions={(row) =>
            row.network === null && row.username === null ? null : (
              <NamedButton text={signIns.unlock} of={whoOf(row)} onClick={() => void unlock(row)} />
            )
          }
        />
      )}
      <h2>{signIns.failed}</h2>
      {failed.error && <Failure error={failed.error} />}
      {failed.data?.content.length === 0 && (
        <Empty Icon={KeyRound} text={signIns.noneFailed}>
          <Link href={auditAddress({ kind: EventKind.signin_ok })}>{signIns.others}</Link>
        </Empty>
      )}
      {failed.data && failed.data.content.length > 0 && (
        <>
          <EventTable caption={signIns.failed} events={failed.data.content} />
          <p>
            <Link href={auditAddress({ kind })}>{signIns.all}</Link>
          </p>
        </>
      )}
    </Page>
  )
}

function whoOf({ kind, network, username }: Locked): string {
  const { kinds, someName } = texts.signIns
  const user = username ?? someName
  if (network === null) return kind === 'directory' ? kinds.directory(user) : kinds.codes(user)
  return kind === 'address' ? kinds.address(network) : kinds.pair(network, user)
}

/** What is unlocked with it: all of the network, or of the user. */
function unlocked({ network, username }: Locked) {
  return network === null ? { network: '', username: username ?? '' } : { network, username: '' }
}
