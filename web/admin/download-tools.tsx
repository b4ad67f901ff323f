/** The programs that download. Their settings are stored only if the program answers. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { SettingGroup } from '../api/schema.ts'
import { Failure } from '../components/failure.tsx'
import { FormField } from '../components/form-field.tsx'
import { reporting } from '../components/notices.tsx'
import { changed, useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'
import { settingTexts } from './settings.tsx'

const texts = textsOf('admin')

type Setting = Data<'/api/admin/setting/list'>[number]
type Values = Readonly<Record<string, string>>

interface Tool {
  readonly name: string
  readonly settings: readonly string[]
  /** Stores the values of the settings, in their order. Rejects if the program does not answer. */
  readonly store: (...values: readonly string[]) => Promise<unknown>
}

const tools: readonly Tool[] = [
  {
    name: 'aria2',
    settings: ['aria2_uri', 'aria2_secret'],
    store: (uri = '', secret = '') => post('/api/admin/setting/set_aria2', { uri, secret }),
  },
  {
    name: 'qBittorrent',
    settings: ['qbittorrent_url', 'qbittorrent_seedtime'],
    store: (url = '', seedtime = '') => post('/api/admin/setting/set_qbit', { url, seedtime }),
  },
  {
    name: '115 Cloud',
    settings: ['115_temp_dir'],
    store: (folder = '') => post('/api/admin/setting/set_115', { temp_dir: folder }),
  },
  {
    name: '115 Open',
    settings: ['115_open_temp_dir'],
    store: (folder = '') => post('/api/admin/setting/set_115_open', { temp_dir: folder }),
  },
]

const group = String(SettingGroup.offlineDownload)
const rowsKey = keys.settings(group)

export function DownloadTools() {
  const { data, error } = useRows(rowsKey, () => get('/api/admin/setting/list', { query: { group } }))
  if (error) return <Failure error={error} />
  return (
    <>
      {data &&
        tools.map((tool) => (
          <ToolForm key={tool.name} tool={tool} rows={data.filter(({ key }) => tool.settings.includes(key))} />
        ))}
    </>
  )
}

function ToolForm({ tool, rows }: { readonly tool: Tool; readonly rows: readonly Setting[] }) {
  const [edited, setEdited] = useState<Values>({})
  const [busy, setBusy] = useState(false)
  const { downloads } = texts
  const valueOf = (name: string) => edited[name] ?? rows.find(({ key }) => key === name)?.value
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    setBusy(true)
    const values = tool.settings.map((name) => valueOf(name) ?? '')
    await reporting(tool.store(...values), downloads.toolSaved(tool.name))
    await changed(rowsKey)
    await changed(keys.downloadTools)
    setBusy(false)
  }
  return (
    <section>
      <h2>{tool.name}</h2>
      <form class="form" onSubmit={(event) => void submit(event)}>
        {rows.map(({ key, type, options, help }) => (
          <FormField
            key={key}
            field={{ name: key, type, options, help }}
            {...settingTexts(key)}
            value={valueOf(key) ?? ''}
            onValue={(value) => setEdited((before) => ({ ...before, [key]: value }))}
          />
        ))}
        <button type="submit" disabled={busy}>
          {downloads.testAndSave(tool.name)}
        </button>
      </form>
    </section>
  )
}
