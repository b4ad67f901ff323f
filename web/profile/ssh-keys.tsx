/** The SSH keys with which the user signs in to SFTP. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Failure } from '../parts/failure.tsx'
import { formatTime } from '../parts/format.ts'
import { report, reporting } from '../parts/notices.tsx'
import { texts } from '../texts.ts'

export function SshKeys() {
  const { data, error } = useQuery({ queryKey: ['keys'], queryFn: () => get('/api/me/sshkey/list') })
  const [adding, setAdding] = useState(false)
  async function remove(id: number): Promise<void> {
    await reporting(post('/api/me/sshkey/delete', undefined, { query: { id } }))
    await queryClient.invalidateQueries({ queryKey: ['keys'] })
  }
  return (
    <section>
      <h2>{texts.profile.keys}</h2>
      {error && <Failure error={error} />}
      {data?.total === 0 && <p class="muted">{texts.profile.noKeys}</p>}
      {data && data.total > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">{texts.profile.keyTitle}</th>
                <th scope="col">{texts.profile.fingerprint}</th>
                <th scope="col">{texts.profile.added}</th>
                <th scope="col">{texts.profile.lastUsed}</th>
                <th scope="col">{texts.files.actions}</th>
              </tr>
            </thead>
            <tbody>
              {data.content.map((key) => (
                <tr key={key.id}>
                  <td>{key.title}</td>
                  <td>
                    <code>{key.fingerprint}</code>
                  </td>
                  <td>{formatTime(key.added_time)}</td>
                  <td>{key.last_used_time === key.added_time ? '' : formatTime(key.last_used_time)}</td>
                  <td>
                    <button
                      type="button"
                      aria-label={`${texts.remove} ${key.title}`}
                      onClick={() => void remove(key.id)}
                    >
                      {texts.remove}
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <button type="button" onClick={() => setAdding(true)}>
        {texts.profile.addKey}
      </button>
      {adding && <AddKey onClose={() => setAdding(false)} />}
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
    await post('/api/me/sshkey/add', { title: title || comment, key })
    report(texts.profile.keyAdded)
    await queryClient.invalidateQueries({ queryKey: ['keys'] })
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
        <textarea rows={4} spellcheck={false} value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <span class="muted">{texts.profile.keyHint}</span>
      </label>
      <label>
        {texts.profile.keyFile}
        <input type="file" accept=".pub" onChange={(event) => void read(event.currentTarget.files?.[0])} />
      </label>
    </Dialog>
  )
}
