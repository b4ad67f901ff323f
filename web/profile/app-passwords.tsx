/** Passwords of single programs, for WebDAV and SFTP. */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Dialog } from '../parts/dialog.tsx'
import { Failure } from '../parts/failure.tsx'
import { formatTime } from '../parts/format.ts'
import { reporting } from '../parts/notices.tsx'
import { texts } from '../texts.ts'

/** The protocols that accept app passwords, as the API and as people name them. */
const protocols = { webdav: 'WebDAV', sftp: 'SFTP' } as const

function textOf(protocol: string): string {
  return Object.hasOwn(protocols, protocol) ? protocols[protocol as keyof typeof protocols] : protocol
}

export function AppPasswords() {
  const { data, error } = useQuery({ queryKey: ['app passwords'], queryFn: () => get('/api/me/app_password/list') })
  const [adding, setAdding] = useState(false)
  const [shown, setShown] = useState<string>()
  async function remove(id: number): Promise<void> {
    await reporting(post('/api/me/app_password/delete', undefined, { query: { id } }))
    await queryClient.invalidateQueries({ queryKey: ['app passwords'] })
  }
  return (
    <section>
      <h2>{texts.profile.appPasswords}</h2>
      {error && <Failure error={error} />}
      {data?.total === 0 && <p class="muted">{texts.profile.noAppPasswords}</p>}
      {data && data.total > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">{texts.profile.appPasswordName}</th>
                <th scope="col">{texts.profile.protocols}</th>
                <th scope="col">{texts.profile.added}</th>
                <th scope="col">{texts.profile.lastUsed}</th>
                <th scope="col">{texts.files.actions}</th>
              </tr>
            </thead>
            <tbody>
              {data.content.map((row) => (
                <tr key={row.id}>
                  <td>{row.name}</td>
                  <td>
                    {row.protocols.map((name) => textOf(name)).join(', ')}
                    {row.read_only && ` (${texts.profile.readOnly})`}
                  </td>
                  <td>{formatTime(row.added_time)}</td>
                  <td>{row.last_used_time !== null && formatTime(row.last_used_time)}</td>
                  <td>
                    <button
                      type="button"
                      aria-label={`${texts.remove} ${row.name}`}
                      onClick={() => void remove(row.id)}
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
        {texts.profile.addAppPassword}
      </button>
      {adding && <AddAppPassword onClose={() => setAdding(false)} onAdded={setShown} />}
      {shown !== undefined && (
        <Dialog title={texts.profile.appPasswords} onClose={() => setShown(undefined)}>
          <p>{texts.profile.appPasswordShown}</p>
          <code>{shown}</code>
        </Dialog>
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
  async function add(): Promise<void> {
    const fields = { name, protocols: [...selected], read_only: readOnly }
    const { password } = await post('/api/me/app_password/add', fields)
    onAdded(password)
    await queryClient.invalidateQueries({ queryKey: ['app passwords'] })
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
          <label key={protocol} class="check">
            <input
              type="checkbox"
              checked={selected.includes(protocol)}
              onChange={({ currentTarget: { checked } }) =>
                setSelected((before) => (checked ? [...before, protocol] : before.filter((each) => each !== protocol)))
              }
            />
            {text}
          </label>
        ))}
      </fieldset>
      <label class="check">
        <input type="checkbox" checked={readOnly} onChange={(event) => setReadOnly(event.currentTarget.checked)} />
        {texts.profile.readOnly}
      </label>
    </Dialog>
  )
}
