/** The form for the password of a folder. */
import { useState } from 'preact/hooks'
import { textOf } from '../parts/form-values.ts'
import { texts } from '../texts.ts'
import { folderPasswords } from './folder-passwords.ts'

interface AskFolderPasswordProps {
  readonly path: string
  readonly onEntered: () => void
}

export function AskFolderPassword({ path, onEntered }: AskFolderPasswordProps) {
  const [tried, setTried] = useState(folderPasswords.of(path) !== '')
  function submit(event: SubmitEvent) {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    folderPasswords.set(path, textOf(fields, 'password'))
    setTried(true)
    onEntered()
  }
  return (
    <form class="card" onSubmit={submit}>
      <h2>{texts.files.passwordTitle}</h2>
      <p>{texts.files.passwordHint}</p>
      <label>
        {texts.session.password}
        <input name="password" type="password" autocomplete="off" autofocus />
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
  )
}
