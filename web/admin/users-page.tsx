/** The accounts and their permissions. */
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Role } from '../api/schema.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { reporting } from '../components/notices.tsx'
import { useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { list } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { groupsIn, membershipChanged, type User } from './accounts.ts'
import { addressOfQuestion } from './explain-page.tsx'
import { UserForm } from './user-form.tsx'

const texts = textsOf('common', 'files', 'accounts')

export function UsersPage() {
  const { data, error } = useRows(keys.users, () => get('/api/admin/user/list'))
  const { data: groups } = useRows(keys.groups, () => get('/api/admin/group/list'))
  const [edited, setEdited] = useState<User | 'new'>()
  const [deleted, setDeleted] = useState<User>()
  const [, navigate] = useLocation()
  const { users } = texts
  const groupsOf = (user: User) => groupsIn(user.groups, groups?.content)
  const namesOfGroups = (user: User) => list(groupsOf(user).map(({ name }) => name))
  return (
    <Page title={texts.pages.users}>
      <p class="muted">{users.about}</p>
      <button type="button" class="primary" onClick={() => setEdited('new')}>
        {users.add}
      </button>
      {error && <Failure error={error} />}
      {data && (
        <Table
          caption={texts.pages.users}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [users.name]: ({ username }) => username,
            [users.role]: (user) =>
              groupsOf(user).some(({ admin }) => admin) ? users.roles[Role.admin] : users.roles[user.role],
            ...(groups && groups.total > 0 && { [users.groups]: namesOfGroups }),
            [users.base]: ({ base_path: base }) => base,
            [users.state]: stateOf,
          }}
          actions={(user) => (
            <>
              <NamedButton text={users.edit} of={user.username} onClick={() => setEdited(user)} />
              <NamedButton
                text={texts.pages.explain}
                of={user.username}
                onClick={() => navigate(addressOfQuestion({ username: user.username }))}
              />
              {user.role === Role.general && (
                <NamedButton deletes text={texts.files.remove} of={user.username} onClick={() => setDeleted(user)} />
              )}
            </>
          )}
        />
      )}
      {edited !== undefined && (
        <UserForm user={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <DeleteDialog
          title={users.deleteTitle}
          warning={users.deleteWarning(deleted.username)}
          onClose={() => setDeleted(undefined)}
          onDelete={async () => {
            await reporting(post('/api/admin/user/delete', undefined, { query: { id: deleted.id } }))
            await membershipChanged()
          }}
        />
      )}
    </Page>
  )
}

function stateOf({ disabled, expires }: User): string {
  const { users } = texts
  if (disabled) return users.disabled
  return expires !== null && Date.parse(expires) <= Date.now() ? users.ended : users.enabled
}
