/** What the server downloads from URLs for the user, for all users if it is an admin. */
import { Globe } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { TaskKind } from '../api/schema.ts'
import { Page } from '../components/page.tsx'
import { FromUrlsDialog } from '../files/from-urls-dialog.tsx'
import type { Me } from '../session/me.ts'
import { recentFolders } from '../session/recent-folders.ts'
import { textsOf } from '../texts/texts.ts'
import { TaskLists } from './task-lists.tsx'

const texts = textsOf('common', 'files', 'tasks')

const kinds = [TaskKind.offline_download, TaskKind.offline_download_transfer]

export default function DownloadsPage({ me }: { readonly me: Me }) {
  const [isAdding, setAdding] = useState(false)
  return (
    <Page title={texts.nav.downloads}>
      <p class="muted">{texts.tasks.downloadsHint}</p>
      <button type="button" class="primary" onClick={() => setAdding(true)}>
        <Globe aria-hidden size={16} /> {texts.files.fromUrls}
      </button>
      <TaskLists me={me} kinds={kinds} />
      {isAdding && <FromUrlsDialog path={recentFolders(me)[0] ?? '/'} choosesFolder onClose={() => setAdding(false)} />}
    </Page>
  )
}
