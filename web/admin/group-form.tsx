/** The form of a group. */
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Check } from '../components/check.tsx'
import { ChoiceList } from '../components/choice-list.tsx'
import { Dialog } from '../components/dialog.tsx'
import { useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { membershipChanged, type Group } from './accounts.ts'
import { editedGrants, reaches, sentGrants } from './grants.ts'
import { GrantsField, usePathCheck } from './grants-field.tsx'
import { PermissionBoxes } from './permission-boxes.tsx'

const texts = textsOf('common', 'accounts')

interface GroupFormProps {
  /** The group to edit. Absent: a new one. */
  readonly group?: Group | undefined
  readonly onClose: () => void
}

/** Names of members that a note mentions. */
const mostNamed = 3

export function GroupForm({ group, onClose }: GroupFormProps) {
  const { data: users } = useRows(keys.users, () => get('/api/admin/user/list'))
  const [name, setName] = useState(group?.name ?? '')
  const [description, setDescription] = useState(group?.description ?? '')
  const [admin, setAdmin] = useState(group?.admin ?? false)
  const [twoStep, setTwoStep] = useState(group?.require_two_step ?? false)
  const [provider, setProvider] = useState(group?.require_provider ?? false)
  const [permission, setPermission] = useState(group?.permission ?? 0)
  const [members, setMembers] = useState<readonly number[]>(group?.members ?? [])
  const [before] = useState(() => editedGrants(group?.grants ?? []))
  const [grants, setGrants] = useState(before)
  const checkPaths = usePathCheck(before)
  const { groups } = texts
  async function save(): Promise<void> {
    await checkPaths(grants)
    const fields = { name, description, admin, permission, require_two_step: twoStep, require_provider: provider }
    // Lists that were not edited are left out, so that nothing is undone that somebody else has changed meanwhile.
    const lists = {
      ...(members !== group?.members && { members: [...members] }),
      ...(grants !== before && { grants: sentGrants(grants) }),
    }
    if (group) await post('/api/admin/group/update', { id: group.id, ...fields, ...lists })
    else await post('/api/admin/group/create', { ...fields, ...lists })
    await membershipChanged()
  }
  function noteOf(path: string): string | undefined {
    if (admin) return undefined
    const unreached = users?.content.filter(({ id, base_path: base }) => members.includes(id) && !reaches(base, path))
    if (unreached === undefined || unreached.length === 0) return undefined
    const names = unreached.slice(0, mostNamed).map(({ username }) => username)
    return groups.outsideBase(texts.andMorePeople(names, unreached.length - names.length))
  }
  return (
    <Dialog
      title={group ? groups.editTitle(group.name) : groups.add}
      action={texts.save}
      wide
      onClose={onClose}
      onConfirm={save}
    >
      <label>
        {groups.name}
        <input required autocomplete="off" value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
      </label>
      <label>
        {groups.description}
        <input
          autocomplete="off"
          value={description}
          onInput={({ currentTarget }) => setDescription(currentTarget.value)}
        />
      </label>
      <ChoiceList
        legend={groups.members}
        options={users?.content.map(({ id, username }) => ({ id, name: username })) ?? []}
        chosen={members}
        onChosen={setMembers}
      />
      <GrantsField
        legend={groups.grants}
        grants={grants}
        onGrants={setGrants}
        username={users?.content.find(({ id }) => members.includes(id))?.username}
        note={admin ? groups.notForAdmins : undefined}
        noteOf={noteOf}
      />
      <PermissionBoxes legend={groups.permissions} permission={permission} onPermission={setPermission} />
      <div class="field">
        <Check text={groups.requireTwoStep} checked={twoStep} onChecked={setTwoStep} />
        <p class="muted">{groups.requireTwoStepHint}</p>
      </div>
      <Check text={groups.requireProvider} checked={provider} onChecked={setProvider} />
      <Check text={groups.admin} checked={admin} onChecked={setAdmin} />
    </Dialog>
  )
}
