/** The passkeys with which the user signs in to the console. */
import { useState } from 'preact/hooks'
import { ApiError, get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { report } from '../components/notices.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { CodeField } from '../session/code-field.tsx'
import { registerPasskey, usePasskeysOn } from '../session/passkey.ts'
import { textsOf } from '../texts/texts.ts'
import { browserOf } from './browser-name.ts'

const texts = textsOf('common', 'files', 'profile', 'session')

type Passkey = Data<'/api/authn/getcredentials'>[number]

/** Shown where passkeys can be used, or the user has some. */
export function Passkeys() {
  const { data = [], error } = useRows(keys.passkeys, () => get('/api/authn/getcredentials'))
  const isOn = usePasskeysOn()
  const [adding, setAdding] = useState(false)
  const [renamed, setRenamed] = useState<Passkey>()
  const [deleted, setDeleted] = useState<Passkey>()
  const { profile } = texts
  if (!isOn && data.length === 0) return null
  return (
    <section>
      <h2>{profile.passkeys}</h2>
      <p class="muted">{profile.passkeysHint}</p>
      {error && <Failure error={error} />}
      {data.length > 0 && (
        <Table
          caption={profile.passkeys}
          rows={data}
          keyOf={({ id }) => id}
          columns={{
            [profile.passkeyName]: ({ name }) => name,
            [profile.added]: ({ created_at: created }) => formatTime(created),
            [profile.lastUsed]: ({ last_used_at: used }) => (used === null ? profile.never : formatTime(used)),
          }}
          actions={(row) => (
            <>
              <NamedButton text={texts.files.rename} of={row.name} onClick={() => setRenamed(row)} />
              <NamedButton deletes text={texts.remove} of={row.name} onClick={() => setDeleted(row)} />
            </>
          )}
        />
      )}
      {isOn && (
        <button type="button" onClick={() => setAdding(true)}>
          {profile.addPasskey}
        </button>
      )}
      {adding && (
        <NameDialog
          title={profile.addPasskey}
          action={texts.add}
          initial={browserOf(navigator.userAgent)}
          onClose={() => setAdding(false)}
          onName={async (name, code) => {
            await registerPasskey(name, code)
            report(profile.passkeyAdded)
            await changed(keys.passkeys)
          }}
        />
      )}
      {renamed && (
        <NameDialog
          title={profile.renamePasskey}
          action={texts.save}
          initial={renamed.name}
          onClose={() => setRenamed(undefined)}
          onName={async (name) => {
            await post('/api/authn/rename_authn', { id: renamed.id, name })
            await changed(keys.passkeys)
          }}
        />
      )}
      {deleted && (
        <DeleteDialog
          title={profile.deletePasskey}
          warning={profile.deletePasskeyWarning(deleted.name)}
          onClose={() => setDeleted(undefined)}
          onDelete={() => change(keys.passkeys, post('/api/authn/delete_authn', { id: deleted.id }))}
        />
      )}
    </section>
  )
}

interface NameDialogProps {
  readonly title: string
  readonly action: string
  readonly initial: string
  readonly onClose: () => void
  /** `code`: of two-step verification, after it was refused without one; otherwise empty. */
  readonly onName: (name: string, code: string) => Promise<void>
}

function NameDialog({ title, action, initial, onClose, onName }: NameDialogProps) {
  const [name, setName] = useState(initial)
  const [code, setCode] = useState('')
  const [needsCode, setNeedsCode] = useState(false)
  async function confirm(): Promise<void> {
    try {
      await onName(name, code)
    } catch (error) {
      if (!(error instanceof ApiError) || error.error !== 'code_required') throw error
      setNeedsCode(true)
      setCode('')
      const { codeNeeded, codeWrong } = texts.session
      throw new Error(needsCode ? codeWrong : codeNeeded, { cause: error })
    }
  }
  return (
    <Dialog title={title} action={action} onClose={onClose} onConfirm={confirm}>
      <label>
        {texts.profile.passkeyName}
        <input required maxLength={80} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      {needsCode && <CodeField value={code} onValue={setCode} focused />}
    </Dialog>
  )
}
