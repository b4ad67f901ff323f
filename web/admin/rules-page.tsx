/** The rules of folders: passwords, hidden names, notes, and who may read and write. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { FolderField, isFolder } from '../files/folder-field.tsx'
import { Check } from '../components/check.tsx'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { NamedButton } from '../components/named-button.tsx'
import { Page } from '../components/page.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { list } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'files', 'accounts')

type Rule = Data<'/api/admin/meta/list'>['content'][number]

const newRule: Omit<Rule, 'id'> = {
  path: '',
  password: '',
  p_sub: true,
  write: false,
  w_sub: true,
  hide: '',
  h_sub: true,
  readme: '',
  r_sub: false,
  header: '',
  header_sub: false,
  read_users: [],
  read_users_sub: true,
  write_users: [],
  write_users_sub: true,
}

export function RulesPage() {
  const { data, error } = useRows(keys.rules, () => get('/api/admin/meta/list'))
  const [edited, setEdited] = useState<Rule | 'new'>()
  const [deleted, setDeleted] = useState<Rule>()
  const { rules } = texts
  return (
    <Page title={texts.pages.rules}>
      <p class="muted">{rules.about}</p>
      <button type="button" class="primary" onClick={() => setEdited('new')}>
        {rules.add}
      </button>
      {error && <Failure error={error} />}
      {data && data.total > 0 && (
        <Table
          caption={texts.pages.rules}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{ [rules.path]: ({ path }) => path, [rules.effects]: (rule) => list(effectsOf(rule)) }}
          actions={(rule) => (
            <>
              <NamedButton text={rules.edit} of={rule.path} onClick={() => setEdited(rule)} />
              <NamedButton deletes text={texts.files.remove} of={rule.path} onClick={() => setDeleted(rule)} />
            </>
          )}
        />
      )}
      {edited !== undefined && (
        <RuleForm rule={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
      {deleted && (
        <DeleteDialog
          title={rules.deleteTitle}
          warning={rules.deleteWarning(deleted.path)}
          onClose={() => setDeleted(undefined)}
          onDelete={() => change(keys.rules, post('/api/admin/meta/delete', undefined, { query: { id: deleted.id } }))}
        />
      )}
    </Page>
  )
}

function effectsOf(rule: Rule): readonly string[] {
  const { rules } = texts
  return [
    rule.password !== '' && rules.password,
    rule.hide !== '' && rules.hide,
    rule.readme !== '' && rules.readme,
    rule.header !== '' && rules.header,
    rule.write && rules.write,
    rule.read_users.length > 0 && rules.readers,
    rule.write_users.length > 0 && rules.writers,
  ].filter((text) => text !== false)
}

interface RuleFormProps {
  /** The rule to edit. Absent: a new one. */
  readonly rule?: Rule | undefined
  readonly onClose: () => void
}

function RuleForm({ rule, onClose }: RuleFormProps) {
  const [values, setValues] = useState(rule ?? newRule)
  const { data: users } = useRows(keys.users, () => get('/api/admin/user/list'))
  const { rules } = texts
  const set = (change: Partial<Omit<Rule, 'id'>>) => setValues((before) => ({ ...before, ...change }))
  const below = (name: 'p_sub' | 'w_sub' | 'h_sub' | 'r_sub' | 'header_sub' | 'read_users_sub' | 'write_users_sub') => (
    <Check checked={values[name]} text={rules.below} onChecked={(checked) => set({ [name]: checked })} />
  )
  const chosen = (name: 'read_users' | 'write_users', text: string) => (
    <fieldset>
      <legend>{text}</legend>
      {users?.content.map(({ id, username }) => (
        <Check
          key={id}
          text={username}
          checked={values[name].includes(id)}
          onChecked={(checked) =>
            set({ [name]: checked ? [...values[name], id] : values[name].filter((other) => other !== id) })
          }
        />
      ))}
      {below(`${name}_sub`)}
    </fieldset>
  )
  const longText = (name: 'hide' | 'header' | 'readme', sub: Parameters<typeof below>[0], hint?: string) => (
    <fieldset>
      <legend>{rules[name]}</legend>
      <textarea
        aria-label={rules[name]}
        rows={3}
        value={values[name]}
        onInput={({ currentTarget }) => set({ [name]: currentTarget.value })}
      />
      {hint !== undefined && <p class="muted">{hint}</p>}
      {below(sub)}
    </fieldset>
  )
  const [unknownPath, setUnknownPath] = useState<string>()
  async function save(): Promise<void> {
    if (values.path !== unknownPath && !(await isFolder(values.path))) {
      setUnknownPath(values.path)
      throw new Error(rules.noFolder(values.path))
    }
    if (rule) await post('/api/admin/meta/update', { ...values, id: rule.id })
    else await post('/api/admin/meta/create', values)
    await changed(keys.rules)
  }
  return (
    <Dialog title={rule ? rules.edit : rules.add} action={texts.save} wide onClose={onClose} onConfirm={save}>
      <FolderField label={rules.path} path={values.path} onPath={(path) => set({ path })} />
      <fieldset>
        <legend>{rules.password}</legend>
        <input
          aria-label={rules.password}
          autocomplete="off"
          value={values.password}
          onInput={({ currentTarget }) => set({ password: currentTarget.value })}
        />
        <p class="muted">{rules.passwordHint}</p>
        {below('p_sub')}
      </fieldset>
      {longText('hide', 'h_sub', rules.hideHint)}
      {longText('header', 'header_sub')}
      {longText('readme', 'r_sub')}
      <fieldset>
        <legend>{rules.write}</legend>
        <Check text={rules.everybodyWrites} checked={values.write} onChecked={(write) => set({ write })} />
        {below('w_sub')}
      </fieldset>
      {chosen('read_users', rules.readers)}
      {chosen('write_users', rules.writers)}
    </Dialog>
  )
}
