/** The settings of one group, as a form. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { queryClient } from '../api/queries.ts'
import { SettingFlag, type SettingGroup } from '../api/schema.ts'
import { Failure } from '../components/failure.tsx'
import { FormField } from '../components/form-field.tsx'
import { report, reporting } from '../components/notices.tsx'
import { useRows } from '../components/rows.ts'
import { textFor, textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'settings', 'settingHelp')

export type Setting = Data<'/api/admin/setting/list'>[number]

/** Settings that cannot be changed, or that this version does not know. Nor are those shown that nothing reads. */
const notShown: readonly SettingFlag[] = [SettingFlag.readonly, SettingFlag.deprecated]

interface SettingsProps {
  readonly group: SettingGroup
  /** The setting that the user has come for. */
  readonly wanted?: string
}

export function Settings({ group, wanted }: SettingsProps) {
  const { data, error } = useRows(keys.settings(group), () =>
    get('/api/admin/setting/list', { query: { group: String(group) } }),
  )
  const [edited, setEdited] = useState<Readonly<Record<string, string>>>({})
  async function save(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const rows = Object.entries(edited).map(([name, value]) => ({ key: name, value }))
    if (!(await reporting(post('/api/admin/setting/save', { settings: rows })))) return
    report(texts.settings.saved)
    // A setting may change what any page shows.
    await queryClient.invalidateQueries()
    setEdited({})
  }
  if (error) return <Failure error={error} />
  const shown = data?.filter(({ flag, in_force: isInForce }) => isInForce && !notShown.includes(flag)) ?? []
  const field = ({ key, type, options, help, value }: Setting) => (
    <FormField
      key={key}
      field={{ name: key, type, options, help }}
      {...settingTexts(key)}
      value={edited[key] ?? value}
      isWanted={key === wanted}
      onValue={(value) => setEdited((before) => ({ ...before, [key]: value }))}
    />
  )
  return (
    <form class="form" onSubmit={(event) => void save(event)}>
      {shown.map(field)}
      <button type="submit" class="primary" disabled={Object.keys(edited).length === 0}>
        {texts.save}
      </button>
    </form>
  )
}

/** The texts of a setting. A setting of a later version has none, and is shown in the server's words. */
export function settingTexts(key: string) {
  return { label: textFor(key, texts.settings.labels), help: textFor(key, texts.settingHelp) }
}
