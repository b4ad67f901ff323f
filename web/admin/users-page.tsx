/** The accounts and their permissions. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Failure } from '../parts/failure.tsx'
import { Page } from '../parts/page.tsx'
import { change, changed, useRows } from '../parts/rows.ts'
import { Table } from '../parts/table.tsx'
import { texts } from '../texts.ts'
import { permissionBits } from '../session/permissions.ts'

type User = Data<'/api/admin/user/list'>['content'][number]

/** The role of users who are neither the guest nor an admin. */
const general = 0

export function UsersPage() {
  const { data, error } = useRows('users', () => get('/api/admin/user/list'))
  const [edited, setEdited] = useState<User | 'new'>()
  const [deleted, setDeleted] = useState<User>()
  const { users } = texts.admin
  return (
    <Page title={texts.admin.pages.users}>
      <button type="button" class="primary" onClick={() => setEdited('new')}>
        {users.add}
      </button>
      {error && <Failure error={error} />}
      {data && (
        <Table
          caption={texts.admin.pages.users}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [users.name]: ({ username }) => username,
            [users.role]: ({ role }) => users.roles[role],
            [users.base]: ({ base_path: base }) => base,
            [users.state]: ({ disabled }) => (disabled ? users.disabled : users.enabled),
          }}
          actions={(user) => (
            <>
              <button type="button" aria-label={`${users.edit} ${user.username}`} onClick={() => setEdited(user)}>
                {users.edit}
              </button>
              {user.role === general && (
                <button
                  type="button"
                  aria-label={`${texts.files.remove} ${user.username}`}
                  onClick={() => setDeleted(user)}
                >
                  {texts.files.remove}
                </button>
              )}
            </>
          )}
        />
      )}
      {edited !== undefined && (
        <UserForm user={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <Dialog
          title={users.deleteTitle}
          action={texts.files.remove}
          dangerous
          onClose={() => setDeleted(undefined)}
          onConfirm={() => change('users', post('/api/admin/user/delete', undefined, { query: { id: deleted.id } }))}
        >
          <p>{users.deleteWarning(deleted.username)}</p>
        </Dialog>
      )}
    </Page>
  )
}

interface UserFormProps {
  /** Absent: a new one. */
  readonly user?: User | undefined
  readonly onClose: () => void
}

/** What a new user may do: read and change files, by every protocol. */
const usualPermissions = 0b1111_1111_1000

function UserForm({ user, onClose }: UserFormProps) {
  const [name, setName] = useState(user?.username ?? '')
  const [password, setPassword] = useState('')
  const [base, setBase] = useState(user?.base_path ?? '/')
  const [disabled, setDisabled] = useState(user?.disabled ?? false)
  const [permission, setPermission] = useState(user?.permission ?? usualPermissions)
  const { users } = texts.admin
  async function save(): Promise<void> {
    const fields = { username: name, password, base_path: base, disabled, permission, role: user?.role ?? general }
    if (user) await post('/api/admin/user/update', { ...fields, id: user.id, sso_id: user.sso_id })
    else await post('/api/admin/user/create', { ...fields, role: general })
    await changed('users')
  }
  return (
    <Dialog title={user ? users.edit : users.add} action={texts.save} onClose={onClose} onConfirm={save}>
      <label>
        {users.name}
        <input required autocomplete="off" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label>
        {user ? users.newPassword : users.password}
        <input
          type="password"
          autocomplete="new-password"
          required={user === undefined}
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
      <label>
        {users.base}
        <input required value={base} onInput={(event) => setBase(event.currentTarget.value)} />
      </label>
      <label class="check">
        <input type="checkbox" checked={disabled} onChange={(event) => setDisabled(event.currentTarget.checked)} />
        {users.disabled}
      </label>
      <fieldset>
        <legend>{users.permissions}</legend>
        {Object.entries(permissionBits).map(([key, bit]) => (
          <label key={key} class="check">
            <input
              type="checkbox"
              checked={(permission & bit) !== 0}
              onChange={() => setPermission((before) => before ^ bit)}
            />
            {users.permissionTexts[key as keyof typeof permissionBits]}
          </label>
        ))}
      </fieldset>
    </Dialog>
  )
}
