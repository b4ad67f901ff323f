/** The form for the password of a folder, or for the code of a share. */
import { useMemo, useState } from 'preact/hooks'
import { ApiError } from '../api/client.ts'
import { shareTop } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { LockedNotice } from '../session/locked-notice.tsx'
import './ask-folder-password.css'

const texts = textsOf('files')

interface AskFolderPasswordProps {
  readonly path: string
  /** Why it is asked for. */
  readonly error: unknown
  /** Resolves when the password was tried. */
  readonly onEntered: () => Promise<unknown>
}

export function AskFolderPassword({ path, error, onEntered }: AskFolderPasswordProps) {
  const [password, setPassword] = useState('')
  const [tried, setTried] = useState(folderPasswords.of(path) !== '')
  const words = texts.files[shareTop(path) === undefined ? 'folderPassword' : 'shareCode']
  const lockedUntil = useMemo(() => endOfLock(error), [error])
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    folderPasswords.set(path, password)
    await onEntered()
    setTried(true)
  }
  return (
    <div class="folder-password">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h2>{words.title}</h2>
        <p>{words.hint}</p>
        <label>
          {words.label}
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        {lockedUntil !== undefined && <LockedNotice key={lockedUntil} until={lockedUntil} />}
        {lockedUntil === undefined && tried && (
          <p role="alert" class="error">
            {words.wrong}
          </p>
        )}
        <button type="submit" class="primary">
          {words.unlock}
        </button>
      </form>
    </div>
  )
}

/** Whether a password, or a code, may overcome the refusal: now, or a while after too many wrong ones. */
export function isDenied(error: unknown, path: string): boolean {
  if (!(error instanceof ApiError)) return false
  if (error.error === 'password_required' || error.error === 'share_code_wrong') return true
  return endOfLock(error) !== undefined && folderPasswords.of(path) !== ''
}

/** When the next code may be tried after too many wrong ones, in milliseconds since 1970. */
function endOfLock(error: unknown): number | undefined {
  if (!(error instanceof ApiError) || error.error !== 'throttled' || error.retryAfter === undefined) return undefined
  return Date.now() + error.retryAfter * 1000
}
