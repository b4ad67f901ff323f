/** The locks of WebDAV clients. */
import { LockOpen } from 'lucide-preact'
import { Link } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { change, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'admin')

export function LocksPage() {
  const { data, error } = useRows(keys.locks, () => get('/api/admin/lock/list'))
  const { locks } = texts
  return (
    <Page title={texts.pages.locks}>
      <p class="muted">{locks.about}</p>
      {error && <Failure error={error} />}
      {data?.total === 0 && (
        <Empty Icon={LockOpen} text={locks.none}>
          <Link href="/@manual/clients">{locks.programs}</Link>
        </Empty>
      )}
      {data && data.total > 0 && (
        <Table
          caption={texts.pages.locks}
          rows={data.content}
          keyOf={({ token }) => token}
          columns={{
            [locks.path]: ({ path, deep }) => (deep ? texts.withNote(path, locks.deep) : path),
            [locks.user]: ({ username }) => username,
            [locks.scope]: ({ scope }) => locks.scopes[scope],
            [locks.expires]: ({ expires }) => formatTime(expires),
          }}
          actions={({ token, path }) => (
            <NamedButton
              text={locks.break}
              of={path}
              onClick={() => void change(keys.locks, post('/api/admin/lock/break', undefined, { query: { token } }))}
            />
          )}
        />
      )}
    </Page>
  )
}
