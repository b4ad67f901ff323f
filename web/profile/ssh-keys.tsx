/** The SSH keys with which the user signs in to SFTP. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { DeleteDialog } from '../components/delete-dialog.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { formatTime } from '../texts/format.ts'
import { NamedButton } from '../components/named-button.tsx'
import { report } from '../components/notices.tsx'
import { change, changed, useRows } from '../components/rows.ts'
import { Table } from '../components/table.tsx'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'profile')

type Key = Data<'/api/me/sshkey/list'>['content'][number]

export function SshKeys() {
  const { data, error } = useRows(keys.sshKeys, () => get('/api/me/sshkey/list'))
  const [adding, setAdding] = useState(false)
  const [deleted, setDeleted] = useState<Key>()
  const { profile } = texts
  return (
    <section>
      <h2>{profile.keys}</h2>
      <p class="muted">{profile.keysHint}</p>
      {error && <Failure error={error} />}
      {data && data.total > 0 && (
        <Table
          caption={profile.keys}
          rows={data.content}
          keyOf={({ id }) => id}
          columns={{
            [profile.keyTitle]: ({ title }) => title,
            [profile.fingerprint]: ({ fingerprint }) => <code>{fingerprint}</code>,
            [profile.added]: ({ added_time: added }) => formatTime(added),
            // The API gives a key that was never used the time at which it was added.
            [profile.lastUsed]: ({ added_time: added, last_used_time: used }) =>
              used === added ? profile.never : formatTime(used),
          }}
          actions={(key) => <NamedButton deletes text={texts.remove} of={key.title} onClick={() => setDeleted(key)} />}
        />
      )}
      <button type="button" onClick={() => setAdding(true)}>
        {profile.addKey}
      </button>
      {adding && <AddKey onClose={() => setAdding(false)} />}
      {deleted && (
        <DeleteDialog
          title={profile.deleteKey}
          warning={profile.deleteKeyWarning(deleted.title)}
          onClose={() => setDeleted(undefined)}
          onDelete={() => change(keys.sshKeys, post('/api/me/sshkey/delete', undefined, { query: { id: deleted.id } }))}
        />
      )}
    </section>
  )
}

function AddKey({ onClose }: { readonly onClose: () => void }) {
  const [title, setTitle] = useState('')
  const [key, setKey] = useState('')
  async function read(file: File | undefined): Promise<void> {
    if (!file) return
    const text = await file.text()
    setKey(text.trim())
    setTitle((before) => before || file.name)
  }
  async function add(): Promise<void> {
    // The comment of a key names whose it is.
    const comment = key.trim().split(/\s+/).slice(2).join(' ')
    await post('/api/me/sshkey/add', { title: title || comment || texts.profile.key, key: key.trim() })
    report(texts.profile.keyAdded)
    await changed(keys.sshKeys)
  }
  return (
    <Dialog
      title={texts.profile.addKey}
      action={texts.add}
      disabled={key.trim() === ''}
      onClose={onClose}
      onConfirm={add}
    >
      <label>
        {texts.profile.keyTitle}
        <input value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      <label>
        {texts.profile.key}
        <textarea
          rows={4}
          spellcheck={false}
          aria-describedby="key-hint"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <p id="key-hint" class="muted">
        {texts.profile.keyHint}
      </p>
      <label>
        {texts.profile.keyFile}
        <input type="file" accept=".pub" onChange={(event) => void read(event.currentTarget.files?.[0])} />
      </label>
    </Dialog>
  )
}
