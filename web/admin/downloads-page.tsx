/** Offline downloads: the programs that download. */
import { Page } from '../components/page.tsx'
import { textsOf } from '../texts/texts.ts'
import { DownloadTools } from './download-tools.tsx'

const texts = textsOf('common', 'admin')

export function DownloadsPage() {
  return (
    <Page title={texts.pages.downloads}>
      <p class="muted">{texts.downloads.about}</p>
      <DownloadTools />
    </Page>
  )
}
