/** Asks for the URLs of files that the server downloads into the folder. */
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { report } from '../components/notices.tsx'
import { useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import type { ChangeProps } from './change.ts'
import { FolderField } from './folder-field.tsx'

const texts = textsOf('files', 'changes')

/** The tool that is part of the server. */
const ownTool = 'SimpleHttp'

interface FromUrlsProps extends Pick<ChangeProps, 'path' | 'onClose'> {
  /** Whether the user can choose another folder. */
  readonly choosesFolder?: boolean
}

export function FromUrlsDialog({ path, choosesFolder = false, onClose }: FromUrlsProps) {
  const { data: tools, error } = useRows(keys.downloadTools, () => get('/api/public/offline_download_tools'))
  const [text, setText] = useState('')
  const [folder, setFolder] = useState(path)
  const [tool, setTool] = useState(ownTool)
  const urls = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  async function perform(): Promise<void> {
    await post('/api/fs/add_offline_download', { urls, path: folder, tool, delete_policy: 'delete_on_upload_succeed' })
    report(texts.fromUrls.started)
  }
  return (
    <Dialog
      title={texts.files.fromUrls}
      action={texts.fromUrls.start}
      disabled={urls.length === 0}
      onClose={onClose}
      onConfirm={perform}
    >
      <p class="muted">{texts.fromUrls.about}</p>
      {error && <Failure error={error} />}
      <label>
        {texts.fromUrls.urls}
        <textarea rows={4} autofocus value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {choosesFolder && <FolderField label={texts.fromUrls.folder} path={folder} onPath={setFolder} />}
      <label>
        {texts.fromUrls.tool}
        <select value={tool} onChange={(event) => setTool(event.currentTarget.value)}>
          {(tools ?? [ownTool]).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
    </Dialog>
  )
}
