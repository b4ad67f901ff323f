/** What an admin does first: the data of another program, or a password and a storage; then how files are reached. */
import { useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { Page } from '../components/page.tsx'
import { MountHelp } from '../profile/mount-help.tsx'
import { PasswordForm } from '../profile/password-form.tsx'
import { endFirstRun } from '../session/first-run.tsx'
import { useMe } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { ImportForm } from './import-form.tsx'
import { StorageForm } from './storage-form.tsx'
import './start-page.css'

const texts = textsOf('common', 'admin', 'import')

export function StartPage() {
  const { data: me } = useMe()
  const [adding, setAdding] = useState(false)
  const { start } = texts
  return (
    <Page title={texts.pages.start}>
      <p>{start.about}</p>
      <details>
        <summary>{texts.import.title}</summary>
        <ImportForm />
      </details>
      <ol class="steps">
        <li>
          <h2>{start.password}</h2>
          <p>{start.passwordHint}</p>
          {me && <PasswordForm me={me} />}
        </li>
        <li>
          <h2>{start.storage}</h2>
          <p>{start.storageHint}</p>
          <button type="button" onClick={() => setAdding(true)}>
            {texts.storages.add}
          </button>
          {adding && <StorageForm onClose={() => setAdding(false)} />}
        </li>
        <li>
          <h2>{start.mount}</h2>
          {me && <MountHelp me={me} />}
        </li>
      </ol>
      <Link href="/" class="button primary" onClick={() => void endFirstRun()}>
        {start.done}
      </Link>
    </Page>
  )
}
