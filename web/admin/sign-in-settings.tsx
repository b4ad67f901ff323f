/** The settings of single sign-on, or of LDAP, in words, and a trial of them before they are saved. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { get, post, type Data } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { noteEndOfSession, queryClient } from '../api/queries.ts'
import { SettingFlag, SettingGroup } from '../api/schema.ts'
import { Copyable } from '../components/copyable.tsx'
import { messageOf } from '../components/error-text.ts'
import { Failure } from '../components/failure.tsx'
import { FormField } from '../components/form-field.tsx'
import { report, reporting } from '../components/notices.tsx'
import { useRows } from '../components/rows.ts'
import { textFor, textsOf } from '../texts/texts.ts'
import type { FieldTexts } from './driver-texts.ts'
import { PermissionBoxes } from './permission-boxes.tsx'
import { settingTexts, type Setting } from './settings.tsx'
import * as fields from './sign-in-fields.ts'

const texts = textsOf('common', 'admin', 'settings', 'providers')

type Values = Readonly<Record<string, string>>
type Trial = Data<'/api/admin/setting/try_ldap'>

interface SignInSettingsProps {
  readonly group: fields.SignInGroup
  /** The setting that the user has come for. */
  readonly wanted: string
}

export function SignInSettings(props: SignInSettingsProps) {
  const { group } = props
  const { data, error } = useRows(keys.settings(group), () =>
    get('/api/admin/setting/list', { query: { group: String(group) } }),
  )
  if (error) return <Failure error={error} />
  return data ? <SignInForm {...props} rows={data} /> : null
}

function SignInForm({ group, wanted, rows }: SignInSettingsProps & { readonly rows: readonly Setting[] }) {
  const [edited, setEdited] = useState<Values>({})
  const [person, setPerson] = useState('')
  const { signInSettings, storages } = texts
  const isSso = group === SettingGroup.singleSignOn
  // A secret is never shown again, whoever may read it.
  const storedOf = (key: string) =>
    fields.secretKeys.includes(key) ? '' : (rows.find((row) => row.key === key)?.value ?? '')
  const valueOf = (key: string) => edited[key] ?? storedOf(key)
  const set = (key: string, value: string) => setEdited((before) => ({ ...before, [key]: value }))
  const platform = valueOf(fields.platformKey) || 'OIDC'
  const layout = fields.layoutOf(group, platform)
  const laidOut = [...layout.basic, ...Object.values(layout.parts).flat()]
  const others = rows
    .filter(({ key, flag, in_force: isInForce }) => {
      const isShown = isInForce && flag !== SettingFlag.readonly && flag !== SettingFlag.deprecated
      return isShown && key !== fields.platformKey && key !== fields.endpointKey && !laidOut.includes(key)
    })
    .map(({ key }) => key)
  const parts = { ...layout.parts, ...(others.length > 0 && { other: others }) }
  const changes = { ...edited, ...(isSso && { [fields.platformKey]: platform }) }
  const changedRows = Object.entries(changes)
    .filter(([key, value]) => value !== storedOf(key))
    .map(([key, value]) => ({ key, value }))

  async function save(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    if (!(await reporting(post('/api/admin/setting/save', { settings: changedRows })))) return
    report(texts.settings.saved)
    await queryClient.invalidateQueries()
    setEdited({})
  }
  const field = (key: string) => {
    const row = rows.find((each) => each.key === key)
    if (row === undefined) return null
    if (fields.permissionKeys.includes(key)) {
      const onPermission = (sum: number) => set(key, String(sum))
      const sum = Number(valueOf(key))
      return (
        <PermissionBoxes
          key={key}
          legend={settingTexts(key).label ?? key}
          permission={sum}
          onPermission={onPermission}
        />
      )
    }
    const isSecret = fields.secretKeys.includes(key)
    const ofProviders: FieldTexts = signInSettings.endpoints
    const special =
      key === fields.endpointKey && Object.hasOwn(ofProviders, platform) ? ofProviders[platform] : undefined
    const { type, options, help } = row
    const required = layout.required.includes(key)
    const placeholder = isSecret ? signInSettings.secretStored : ''
    return (
      <FormField
        key={key}
        field={{ name: key, type, options, help, required, secret: isSecret, placeholder }}
        {...settingTexts(key)}
        {...special}
        showsName
        value={valueOf(key)}
        isWanted={key === wanted}
        onValue={(value) => set(key, value)}
      />
    )
  }
  return (
    <>
      <p class="muted">
        {isSso ? signInSettings.aboutSso : signInSettings.aboutLdap}{' '}
        <Link href={`/@manual/${isSso ? 'sign-in' : 'ldap'}`}>{signInSettings.manual}</Link>
      </p>
      <form class="form" onSubmit={(event) => void save(event)}>
        {isSso && (
          <label>
            {settingTexts(fields.platformKey).label}
            <select value={platform} onChange={({ currentTarget: { value } }) => set(fields.platformKey, value)}>
              {Object.entries(signInSettings.platforms).map(([name, text]) => (
                <option key={name} value={name}>
                  {text}
                </option>
              ))}
            </select>
          </label>
        )}
        {isSso && <Callback isCompatible={valueOf(fields.compatibilityKey) === 'true'} />}
        <p class="muted">{storages.required}</p>
        {layout.basic.map(field)}
        <details
          open={laidOut.indexOf(wanted) >= layout.basic.length || others.includes(wanted)}
          onInvalidCapture={(event) => (event.currentTarget.open = true)}
        >
          <summary>{storages.more}</summary>
          {Object.entries(parts).map(([part, names]) => (
            <section key={part} class="form">
              <h2>{textFor(part, signInSettings.parts)}</h2>
              {names.map(field)}
            </section>
          ))}
        </details>
        {!isSso && (
          <FormField
            field={{ name: 'name', type: 'string', options: '', help: '' }}
            label={signInSettings.personName}
            help={signInSettings.personHelp}
            value={person}
            onValue={setPerson}
          />
        )}
        <Trying
          key={JSON.stringify([changedRows, person])}
          ask={() =>
            isSso
              ? post('/api/admin/setting/try_sso', { settings: changedRows })
              : post('/api/admin/setting/try_ldap', { settings: changedRows, name: person })
          }
        >
          <button type="submit" class="primary" disabled={Object.keys(edited).length === 0 || changedRows.length === 0}>
            {texts.save}
          </button>
        </Trying>
      </form>
    </>
  )
}

/** The addresses to which the provider leads browsers, as the server knows its own. */
function Callback({ isCompatible }: { readonly isCompatible: boolean }) {
  const { data } = useRows(keys.access, () => get('/api/me/access'))
  const { signInSettings } = texts
  if (data === undefined) return null
  const names = isCompatible ? ['sso_get_token', 'get_sso_id'] : ['sso_callback']
  return (
    <div role="group" aria-label={signInSettings.callback}>
      {signInSettings.callback}
      {names.map((name) => (
        <Copyable key={name} text={`${data.api}auth/${name}`} />
      ))}
      <p class="muted">{signInSettings.callbackHelp}</p>
    </div>
  )
}

interface TryingProps {
  readonly ask: () => Promise<Trial>
  /** The button that saves. */
  readonly children: ComponentChildren
}

/** The button that tries the settings, and what came of it. It is forgotten when a setting is changed. */
function Trying({ ask, children }: TryingProps) {
  const [busy, setBusy] = useState(false)
  const [trial, setTrial] = useState<Trial>()
  const [failure, setFailure] = useState<string>()
  const { signInSettings } = texts
  async function test(form: HTMLFormElement | null): Promise<void> {
    if (busy || form?.reportValidity() !== true) return
    setBusy(true)
    setTrial(undefined)
    setFailure(undefined)
    try {
      setTrial(await ask())
    } catch (error) {
      noteEndOfSession(error)
      setFailure(messageOf(error))
    } finally {
      setBusy(false)
    }
  }
  const isWrong = trial !== undefined && trial.outcome !== 'works' && trial.outcome !== 'unconfirmed'
  const problem = isWrong ? outcomeText(trial) : failure
  return (
    <>
      <div role="status">
        {busy && signInSettings.testing}
        {trial && !isWrong && outcomeText(trial)}
        {trial?.person && <Person {...trial.person} />}
      </div>
      {problem !== undefined && (
        <p role="alert" class="error">
          {problem}
        </p>
      )}
      <div class="toolbar">
        {children}
        <button type="button" aria-disabled={busy} onClick={({ currentTarget }) => void test(currentTarget.form)}>
          {signInSettings.test}
        </button>
      </div>
    </>
  )
}

function Person({ name, groups }: NonNullable<Trial['person']>) {
  return (
    <>
      <p>{texts.signInSettings.person(name, groups.length)}</p>
      <ul>
        {groups.map((group) => (
          <li key={group}>
            <code>{group}</code>
          </li>
        ))}
      </ul>
    </>
  )
}

function outcomeText({ outcome, reason }: Trial): string {
  const { outcomes, saidWith } = texts.signInSettings
  return reason === '' ? outcomes[outcome] : saidWith(outcomes[outcome], reason)
}
