/** What an admin does first: a password, a storage, and the addresses at which files are reached. */
import { Link } from 'wouter-preact'
import { Page } from '../parts/page.tsx'
import { endFirstRun } from '../session/first-run.tsx'
import { texts } from '../texts.ts'
import { MountHelp } from './mount-help.tsx'

export function StartPage() {
  const { start } = texts.admin
  return (
    <Page title={texts.admin.pages.start}>
      <ol class="steps">
        <li>
          <h2>{start.password}</h2>
          <p>{start.passwordHint}</p>
          <Link href="/@profile" class="button">
            {start.toProfile}
          </Link>
        </li>
        <li>
          <h2>{start.storage}</h2>
          <p>{start.storageHint}</p>
          <Link href="/@manage/storages" class="button">
            {start.toStorages}
          </Link>
        </li>
        <li>
          <h2>{start.mount}</h2>
          <MountHelp />
        </li>
      </ol>
      <Link href="/" class="button primary" onClick={() => void endFirstRun()}>
        {start.done}
      </Link>
    </Page>
  )
}
