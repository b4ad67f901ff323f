/** The form of an account. */
import { useState } from 'preact/hooks'
import { post, type Data } from '../api/client.ts'
import { FolderField } from '../files/folder-field.tsx'
import { Check } from '../components/check.tsx'
import { Dialog } from '../components/dialog.tsx'
import { reporting } from '../components/notices.tsx'
import { changed } from '../components/rows.ts'
import { permissionBits } from '../session/permissions.ts'
import { texts } from '../texts.ts'

export type User = Data<'/api/admin/user/list'>['content'][number]

/** The role of users who are neither the guest nor an admin. */
export const general = 0

interface UserFormProps {
  /** Absent: a new one. */
  readonly user?: User | undefined
  readonly onClose: () => void
}

/** What a new user may do: read and change files, by every protocol. */
const usualPermissions = 0b1111_1111_1000

export function UserForm({ user, onClose }: UserFormProps) {
  const [name, setName] = useState(user?.username ?? '')
  const [password, setPassword] = useState('')
  const [base, setBase] = useState(user?.base_path ?? '/')
  const [disabled, setDisabled] = useState(user?.disabled ?? false)
  const [permission, setPermission] = useState(user?.permission ?? usualPermissions)
  const [hasTwoStep, setHasTwoStep] = useState(user?.otp ?? false)
  const { users } = texts.admin
  async function save(): Promise<void> {
    const fields = { username: name, password, base_path: base, disabled, permission, role: user?.role ?? general }
    if (user) await post('/api/admin/user/update', { ...fields, id: user.id, sso_id: user.sso_id })
    else await post('/api/admin/user/create', { ...fields, role: general })
    await changed('users')
  }
  async function endTwoStep({ id, username }: User): Promise<void> {
    const work = post('/api/admin/user/cancel_2fa', undefined, { query: { id } })
    if (!(await reporting(work, users.twoStepEnded(username)))) return
    setHasTwoStep(false)
    await changed('users')
  }
  return (
    <Dialog
      title={user ? users.editTitle(user.username) : users.add}
      action={texts.save}
      otherActions={user && hasTwoStep ? [{ name: users.endTwoStep, onChoose: () => void endTwoStep(user) }] : []}
      onClose={onClose}
      onConfirm={save}
    >
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
      <FolderField label={users.base} path={base} onPath={setBase} />
      <Check text={users.isDisabled} checked={disabled} onChecked={setDisabled} />
      <fieldset>
        <legend>{users.permissions}</legend>
        {Object.entries(permissionBits).map(([key, bit]) => (
          <Check
            key={key}
            text={users.permissionTexts[key as keyof typeof permissionBits]}
            checked={(permission & bit) !== 0}
            onChecked={() => setPermission((before) => before ^ bit)}
          />
        ))}
      </fieldset>
    </Dialog>
  )
}
