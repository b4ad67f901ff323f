/** The settings, by group. */
import { useState } from 'preact/hooks'
import { useLocation, useSearch } from 'wouter-preact'
import { post } from '../api/client.ts'
import { SettingGroup } from '../api/schema.ts'
import { Copyable } from '../components/copyable.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Page } from '../components/page.tsx'
import { textsOf } from '../texts/texts.ts'
import { Settings } from './settings.tsx'
import { SignInSettings } from './sign-in-settings.tsx'

const texts = textsOf('common', 'settings')

/** The group of the permanent token, which is not edited as the others are. */
const tokenGroup = SettingGroup.single
const groups = Object.values(SettingGroup).filter((group) => typeof group === 'number')

export function SettingsPage() {
  const query = new URLSearchParams(useSearch())
  const group = groups.find((each) => String(each) === query.get('group')) ?? SettingGroup.site
  const [, navigate] = useLocation()
  const { settings } = texts
  return (
    <Page title={texts.pages.settings}>
      <label class="group">
        {settings.group}
        <select
          value={group}
          onChange={({ currentTarget: { value } }) => navigate(`/@manage/settings?group=${value}`, { replace: true })}
        >
          {Object.entries(settings.groups).map(([number, text]) => (
            <option key={number} value={number}>
              {text}
            </option>
          ))}
          <option value={tokenGroup}>{settings.token}</option>
        </select>
      </label>
      <Group key={group} group={group} wanted={query.get('setting') ?? ''} />
    </Page>
  )
}

function Group({ group, wanted }: { readonly group: SettingGroup; readonly wanted: string }) {
  switch (group) {
    case tokenGroup:
      return <Token />
    case SettingGroup.singleSignOn:
    case SettingGroup.ldap:
      return <SignInSettings group={group} wanted={wanted} />
    default:
      return <Settings group={group} wanted={wanted} />
  }
}

function Token() {
  const [resetting, setResetting] = useState(false)
  const [shown, setShown] = useState<string>()
  const { settings } = texts
  return (
    <>
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
          onConfirm={async () => setShown(await post('/api/admin/setting/reset_token'))}
        >
          <p>{settings.resetWarning}</p>
        </Dialog>
      )}
      {shown !== undefined && (
        <Dialog title={settings.tokenReset} onClose={() => setShown(undefined)}>
          <p>{settings.tokenShown}</p>
          <Copyable text={shown} />
        </Dialog>
      )}
    </>
  )
}
