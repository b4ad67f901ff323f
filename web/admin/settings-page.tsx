/** The settings, by group. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { Dialog } from '../parts/dialog.tsx'
import { report } from '../parts/notices.tsx'
import { Page } from '../parts/page.tsx'
import { texts } from '../texts.ts'
import { Settings } from './settings.tsx'

export function SettingsPage() {
  const groups = Object.entries(texts.admin.settings.groups)
  const [group, setGroup] = useState(Number(groups[0]?.[0]))
  const [resetting, setResetting] = useState(false)
  const { settings } = texts.admin
  return (
    <Page title={texts.admin.pages.settings}>
      <label class="group">
        {settings.group}
        <select value={group} onChange={(event) => setGroup(Number(event.currentTarget.value))}>
          {groups.map(([number, text]) => (
            <option key={number} value={number}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <Settings key={group} group={group} />
      <h2>{settings.token}</h2>
      <p class="muted">{settings.tokenHint}</p>
      <button type="button" onClick={() => setResetting(true)}>
        {settings.resetToken}
      </button>
      {resetting && (
        <Dialog
          title={settings.resetToken}
          action={settings.resetToken}
          dangerous
          onClose={() => setResetting(false)}
          onConfirm={async () => {
            await post('/api/admin/setting/reset_token')
            report(settings.tokenReset)
          }}
        >
          <p>{settings.resetWarning}</p>
        </Dialog>
      )}
    </Page>
  )
}
