/** Passwords of single programs, for WebDAV and SFTP. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import type { appPasswordProtocols } from '../api/schema.ts'
import { Check } from '../components/check.tsx'
import { Copyable } from '../components/copyable.tsx'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EndField } from '../components/end-field.tsx'
import { Failure } from '../components/failure.tsx'
import { formatTime, list } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { FolderField } from '../files/folder-field.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'profile')

/** The protocols that accept app passwords, as people name them. */
const protocols: Readonly<Record<(typeof appPasswordProtocols)[number], string>> = { webdav: 'WebDAV', sftp: 'SFTP' }

function protocolText(protocol: string): string {
  return Object.hasOwn(protocols, protocol) ? protocols[protocol as keyof typeof protocols] : protocol
}

type AppPassword = Data<'/api/me/app_password/list'>['content'][number]

export function AppPasswords() {
  const { data, error } = useRows(keys.appPasswords, () => get('/api/me/app_password/list'))
  const [adding, setAdding] = useState(false)
  const [shown, setShown] = useState<string>()
  const [deleted, setDeleted] = useState<AppPassword>()
  const { profile } = texts
  return (
    <section>
      <h2>{profile.appPasswords}</h2>
      <p class="muted">{profile.appPasswordsHint}</p>
      {error && <Failure error={error} />}
      {data && data.total > 0 && (
        <Table
          caption={profile.appPasswords}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [profile.appPasswordName]: ({ name }) => name,
            [profile.protocols]: (row) => {
              const names = list(row.protocols.map(protocolText))
              return row.read_only ? texts.withNote(names, profile.readOnly) : names
            },
            [profile.appPasswordFolder]: ({ folder }) => folder,
            [profile.expires]: ({ expires }) => (expires === null ? profile.neverEnds : formatTime(expires)),
            [profile.added]: ({ added_time: added }) => formatTime(added),
            [profile.lastUsed]: ({ last_used_time: used }) => (used === null ? profile.never : formatTime(used)),
          }}
          actions={(row) => <NamedButton deletes text={texts.remove} of={row.name} onClick={() => setDeleted(row)} />}
        />
      )}
      <button type="button" onClick={() => setAdding(true)}>
        {profile.addAppPassword}
      </button>
      {adding && <AddAppPassword onClose={() => setAdding(false)} onAdded={setShown} />}
      {shown !== undefined && (
        <Dialog title={profile.appPasswordAdded} onClose={() => setShown(undefined)}>
          <p>{profile.appPasswordShown}</p>
          <Copyable text={shown} />
        </Dialog>
      )}
      {deleted && (
        <DeleteDialog
          title={profile.deleteAppPassword}
          warning={profile.deleteAppPasswordWarning(deleted.name)}
          onClose={() => setDeleted(undefined)}
          onDelete={() =>
            change(keys.appPasswords, post('/api/me/app_password/delete', undefined, { query: { id: deleted.id } }))
          }
        />
      )}
    </section>
  )
}

interface AddAppPasswordProps {
  readonly onClose: () => void
  readonly onAdded: (password: string) => void
}

function AddAppPassword({ onClose, onAdded }: AddAppPasswordProps) {
  const [name, setName] = useState('')
  const [selected, setSelected] = useState<readonly string[]>(Object.keys(protocols))
  const [readOnly, setReadOnly] = useState(false)
  const [folder, setFolder] = useState('/')
  const [expires, setExpires] = useState<string | null>(null)
  async function add(): Promise<void> {
    const fields = { name, protocols: [...selected], read_only: readOnly, folder, ...(expires !== null && { expires }) }
    const { password } = await post('/api/me/app_password/add', fields)
    onAdded(password)
    await changed(keys.appPasswords)
  }
  return (
    <Dialog
      title={texts.profile.addAppPassword}
      action={texts.add}
      disabled={selected.length === 0}
      onClose={onClose}
      onConfirm={add}
    >
      <label>
        {texts.profile.appPasswordName}
        <input required value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <fieldset>
        <legend>{texts.profile.protocols}</legend>
        {Object.entries(protocols).map(([protocol, text]) => (
          <Check
            key={protocol}
            text={text}
            checked={selected.includes(protocol)}
            onChecked={(checked) =>
              setSelected((before) => (checked ? [...before, protocol] : before.filter((each) => each !== protocol)))
            }
          />
        ))}
      </fieldset>
      <FolderField label={texts.profile.appPasswordFolder} path={folder} onPath={setFolder} />
      <EndField label={texts.profile.expires} time={expires} onTime={setExpires} />
      <Check text={texts.profile.readOnly} checked={readOnly} onChecked={setReadOnly} />
    </Dialog>
  )
}
