/** Offline downloads: the programs that download. */
import { Page } from '../components/page.tsx'
import { texts } from '../texts.ts'
import { DownloadTools } from './download-tools.tsx'

export function DownloadsPage() {
  return (
    <Page title={texts.admin.pages.downloads}>
      <p class="muted">{texts.admin.downloads.about}</p>
      <DownloadTools />
    </Page>
  )
}
