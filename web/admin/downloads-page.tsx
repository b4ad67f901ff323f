/** Offline downloads: adding URLs, and the programs that download. */
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { Failure } from '../parts/failure.tsx'
import { reporting } from '../parts/notices.tsx'
import { Page } from '../parts/page.tsx'
import { useRows } from '../parts/rows.ts'
import { texts } from '../texts.ts'
import { DownloadTools } from './download-tools.tsx'

export function DownloadsPage() {
  const { data: tools, error } = useRows('tools', () => get('/api/public/offline_download_tools'))
  const [urls, setUrls] = useState('')
  const [folder, setFolder] = useState('/')
  const [tool, setTool] = useState('SimpleHttp')
  const { downloads } = texts.admin
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const fields = { urls: urls.split('\n'), path: folder, tool, delete_policy: 'delete_on_upload_succeed' }
    if (await reporting(post('/api/fs/add_offline_download', fields), downloads.started)) setUrls('')
  }
  return (
    <Page title={texts.admin.pages.downloads}>
      <p class="muted">{downloads.about}</p>
      {error && <Failure error={error} />}
      <form class="form" onSubmit={(event) => void submit(event)}>
        <label>
          {downloads.urls}
          <textarea required rows={3} value={urls} onInput={(event) => setUrls(event.currentTarget.value)} />
        </label>
        <label>
          {downloads.folder}
          <input required value={folder} onInput={(event) => setFolder(event.currentTarget.value)} />
        </label>
        <label>
          {downloads.tool}
          <select value={tool} onChange={(event) => setTool(event.currentTarget.value)}>
            {tools?.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <button type="submit" class="primary">
          {downloads.start}
        </button>
      </form>
      <DownloadTools />
    </Page>
  )
}
