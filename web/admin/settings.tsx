/** The settings of one group, as a form. */
import { useState } from 'preact/hooks'
import { get, post, type Data } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Failure } from '../parts/failure.tsx'
import { FormField, labelOf } from '../parts/form-field.tsx'
import { report, reporting } from '../parts/notices.tsx'
import { useRows } from '../parts/rows.ts'
import { texts } from '../texts.ts'

type Setting = Data<'/api/admin/setting/list'>[number]

/** Values of `flag`. */
const readOnly = 2
const deprecated = 3

export function Settings({ group }: { readonly group: number }) {
  const { data, error } = useRows(`settings ${group}`, () =>
    get('/api/admin/setting/list', { query: { group: String(group) } }),
  )
  const [edited, setEdited] = useState<Readonly<Record<string, string>>>({})
  async function save(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const rows = Object.entries(edited).map(([name, value]) => ({ key: name, value }))
    if (!(await reporting(post('/api/admin/setting/save', rows)))) return
    report(texts.admin.settings.saved)
    // A setting may change what any page shows.
    await queryClient.invalidateQueries()
    setEdited({})
  }
  if (error) return <Failure error={error} />
  return (
    <form class="form" onSubmit={(event) => void save(event)}>
      {data?.map((setting) => (
        <SettingField
          key={setting.key}
          setting={setting}
          value={edited[setting.key] ?? setting.value}
          onValue={(value) => setEdited((before) => ({ ...before, [setting.key]: value }))}
        />
      ))}
      <button type="submit" class="primary" disabled={Object.keys(edited).length === 0}>
        {texts.save}
      </button>
    </form>
  )
}

interface SettingFieldProps {
  readonly setting: Setting
  readonly value: string
  readonly onValue: (value: string) => void
}

function SettingField({ setting: { key, flag, help, type, options }, value, onValue }: SettingFieldProps) {
  if (flag === deprecated) return null
  return (
    <FormField
      field={{ name: key, type, options, help }}
      label={labelOf(key)}
      value={value}
      disabled={flag === readOnly}
      onValue={onValue}
    />
  )
}
