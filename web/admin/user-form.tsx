/** The form of an account. */
import { useId, useState } from 'preact/hooks'
import { ApiError, get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { Permission, Role } from '../api/schema.ts'
import { FolderField } from '../files/folder-field.tsx'
import { Check } from '../components/check.tsx'
import { ChoiceList } from '../components/choice-list.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EndField } from '../components/end-field.tsx'
import { linesOf } from '../components/form-values.ts'
import { report, reporting } from '../components/notices.tsx'
import { changed, useRows } from '../components/rows.ts'
import { CodeField } from '../session/code-field.tsx'
import { lastUser } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { groupsIn, membershipChanged, type User } from './accounts.ts'
import { editedGrants, reaches, sentGrants } from './grants.ts'
import { GrantsField, usePathCheck } from './grants-field.tsx'
import { PermissionBoxes } from './permission-boxes.tsx'

const texts = textsOf('common', 'session', 'accounts')

interface UserFormProps {
  /** The user to edit. Absent: a new one. */
  readonly user?: User | undefined
  readonly onClose: () => void
}

const { write, rename, move, copy, remove, webdavRead, webdavManage, sftpRead, sftpManage } = Permission
/** What a new user may do: read and change files, by every protocol. */
const usualPermissions = write | rename | move | copy | remove | webdavRead | webdavManage | sftpRead | sftpManage

export function UserForm({ user, onClose }: UserFormProps) {
  const [name, setName] = useState(user?.username ?? '')
  const [password, setPassword] = useState('')
  const [base, setBase] = useState(user?.base_path ?? '/')
  const [disabled, setDisabled] = useState(user?.disabled ?? false)
  const [permission, setPermission] = useState(user?.permission ?? usualPermissions)
  const { data: groups } = useRows(keys.groups, () => get('/api/admin/group/list'))
  const [memberOf, setMemberOf] = useState<readonly number[]>(user?.groups ?? [])
  const [grantedOnly, setGrantedOnly] = useState(user?.granted_only ?? false)
  const [before] = useState(() => editedGrants(user?.grants ?? []))
  const [grants, setGrants] = useState(before)
  const id = useId()
  const checkPaths = usePathCheck(before)
  const networksBefore = user?.allow_from.join('\n') ?? ''
  const [networks, setNetworks] = useState(networksBefore)
  const [expires, setExpires] = useState(user?.expires ?? null)
  const [hasTwoStep, setHasTwoStep] = useState(user?.otp ?? false)
  const [endingOwn, setEndingOwn] = useState(false)
  const { users } = texts
  async function save(): Promise<void> {
    await checkPaths(grants)
    const account = { username: name, password, base_path: base, disabled, permission, granted_only: grantedOnly }
    // Lists that were not edited are left out, so that nothing is undone that somebody else has changed meanwhile.
    const lists = {
      ...(networks !== networksBefore && { allow_from: linesOf(networks) }),
      ...(expires !== (user?.expires ?? null) && { expires }),
      ...(memberOf !== user?.groups && { groups: [...memberOf] }),
      ...(grants !== before && { grants: sentGrants(grants) }),
    }
    const fields = { ...account, ...lists, role: user?.role ?? Role.general }
    if (user) await post('/api/admin/user/update', { ...fields, id: user.id, sso_id: user.sso_id })
    else await post('/api/admin/user/create', fields)
    await membershipChanged()
  }
  async function endTwoStep({ id, username }: User, code = ''): Promise<void> {
    await post('/api/admin/user/cancel_2fa', undefined, { query: { id, otp_code: code } })
    report(users.twoStepEnded(username))
    setHasTwoStep(false)
    await changed(keys.users)
  }
  const isAdmin = user?.role === Role.admin || groupsIn(memberOf, groups?.content).some(({ admin }) => admin)
  const chooseEndTwoStep = (ended: User) =>
    ended.username === lastUser.value?.username ? setEndingOwn(true) : void reporting(endTwoStep(ended))
  return (
    <>
      <Dialog
        title={user ? users.editTitle(user.username) : users.add}
        action={texts.save}
        wide
        otherActions={user && hasTwoStep ? [{ name: users.endTwoStep, onChoose: () => chooseEndTwoStep(user) }] : []}
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
        <EndField label={users.expires} time={expires} onTime={setExpires} />
        <label>
          {users.allowFrom}
          <textarea
            rows={2}
            aria-describedby={id}
            value={networks}
            onInput={({ currentTarget }) => setNetworks(currentTarget.value)}
          />
        </label>
        <p id={id} class="muted">
          {users.allowFromHint}
        </p>
        {groups !== undefined && groups.total > 0 && (
          <ChoiceList legend={users.groups} options={groups.content} chosen={memberOf} onChosen={setMemberOf} />
        )}
        <div class="field">
          <Check text={users.grantedOnly} checked={grantedOnly} onChecked={setGrantedOnly} />
          <p class="muted">{users.grantedOnlyHint}</p>
        </div>
        <GrantsField
          legend={users.grants}
          grants={grants}
          onGrants={setGrants}
          username={user?.username}
          note={isAdmin ? users.notForAdmins : undefined}
          noteOf={(path) => (isAdmin || reaches(base, path) ? undefined : users.outsideBase(base))}
        />
        <PermissionBoxes legend={users.permissions} permission={permission} onPermission={setPermission} />
      </Dialog>
      {user && endingOwn && (
        <EndOwnTwoStep onClose={() => setEndingOwn(false)} onConfirm={(code) => endTwoStep(user, code)} />
      )}
    </>
  )
}

interface EndOwnTwoStepProps {
  readonly onClose: () => void
  readonly onConfirm: (code: string) => Promise<void>
}

/** Asks for a code, without which nobody turns off the own two-step verification. */
function EndOwnTwoStep({ onClose, onConfirm }: EndOwnTwoStepProps) {
  const [code, setCode] = useState('')
  const { endTwoStep } = texts.users
  async function confirm(): Promise<void> {
    try {
      await onConfirm(code)
    } catch (error) {
      setCode('')
      throw error instanceof ApiError && error.error === 'code_required'
        ? new Error(texts.session.codeWrong, { cause: error })
        : error
    }
    await askWhoIsSignedIn()
  }
  return (
    <Dialog title={endTwoStep} action={endTwoStep} onClose={onClose} onConfirm={confirm}>
      <CodeField value={code} onValue={setCode} />
    </Dialog>
  )
}
