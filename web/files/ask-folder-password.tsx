/** The form for the password of a folder. */
import { useState } from 'preact/hooks'
import { ApiError } from '../api/client.ts'
import { texts } from '../texts.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

interface AskFolderPasswordProps {
  readonly path: string
  readonly onEntered: () => void
}

export function AskFolderPassword({ path, onEntered }: AskFolderPasswordProps) {
  const [password, setPassword] = useState('')
  const [tried, setTried] = useState(folderPasswords.of(path) !== '')
  function submit(event: SubmitEvent) {
    event.preventDefault()
    folderPasswords.set(path, password)
    setTried(true)
    onEntered()
  }
  return (
    <div class="folder-password">
      <form class="card" onSubmit={submit}>
        <h2>{texts.files.passwordTitle}</h2>
        <p>{texts.files.passwordHint}</p>
        <label>
          {texts.session.password}
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        {tried && (
          <p role="alert" class="error">
            {texts.files.passwordWrong}
          </p>
        )}
        <button type="submit" class="primary">
          {texts.files.unlock}
        </button>
      </form>
    </div>
  )
}

/** Whether a folder password may overcome the refusal. */
export function isDenied(error: unknown): boolean {
  return error instanceof ApiError && error.error === 'password_required'
}
