/** The sign-in page. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect, useState } from 'preact/hooks'
import { useLocation, useSearch } from 'wouter-preact'
import { ApiError } from '../api/client.ts'
import { publicSettings } from '../api/queries.ts'
import { SiteIcon } from '../components/brand.tsx'
import { messageOf } from '../components/error-text.ts'
import { textOf } from '../components/form-values.ts'
import { LanguageField } from '../components/language-field.tsx'
import { textsOf } from '../texts/texts.ts'
import { CodeField } from './code-field.tsx'
import { LockedNotice } from './locked-notice.tsx'
import { signIn, signInBy } from './me.ts'
import { answerOf, offeredPasskey, openSessionByPasskey, usePasskeysOn, type PasskeyAnswer } from './passkey.ts'
import { ProviderLink, useSingleSignOn } from './single-sign-on.tsx'
import './sign-in-page.css'

const texts = textsOf('common', 'session')

/** What stands in the way of signing in. */
type Refusal = { readonly text: string } | { readonly lockedUntil: number }

/** `onGuest`: goes on without signing in; absent if the guest is disabled. */
export function SignInPage({ onGuest }: { readonly onGuest?: (() => void) | undefined }) {
  const [needsCode, setNeedsCode] = useState(false)
  const [offersPasskey, setOffersPasskey] = useState(false)
  const passkeysOn = usePasskeysOn()
  const [code, setCode] = useState('')
  const [refusal, setRefusal] = useState<Refusal>()
  const [busy, setBusy] = useState(false)
  const [location] = useLocation()
  const isLocal = useSearch().split('&').includes('local')
  const singleSignOn = useSingleSignOn()
  const showsPassword = singleSignOn?.sso_only !== 'true' || isLocal
  const { data: settings } = useQuery(publicSettings)
  const title = settings?.site_title || texts.appName
  useEffect(() => {
    const before = document.title
    document.title = `${texts.session.title} – ${title}`
    return () => void (document.title = before)
  }, [title])

  /** Signs in by `work`, with what is in the form. */
  async function enter(form: HTMLFormElement | null, work: (fields: FormData) => Promise<void>): Promise<void> {
    setBusy(true)
    setRefusal(undefined)
    try {
      await work(new FormData(form ?? undefined))
    } catch (error) {
      refused(error)
    } finally {
      setBusy(false)
    }
  }

  const byPassword = (fields: FormData, second: { readonly otp_code: string; readonly passkey?: PasskeyAnswer }) =>
    signIn({
      username: textOf(fields, 'username'),
      password: textOf(fields, 'password'),
      remember: fields.has('remember'),
      ...second,
    })

  /** A passkey is the second step: the refusal of the first one begins it. */
  async function byBoth(fields: FormData): Promise<void> {
    try {
      await byPassword(fields, { otp_code: '' })
    } catch (error) {
      const offered = error instanceof ApiError ? offeredPasskey(error.data) : undefined
      if (offered === undefined) throw error
      await byPassword(fields, { otp_code: '', passkey: await answerOf(offered) })
    }
  }

  function refused(error: unknown): void {
    if (error instanceof ApiError && error.error === 'sign_in_throttled' && error.retryAfter !== undefined) {
      setRefusal({ lockedUntil: Date.now() + error.retryAfter * 1000 })
    } else if (error instanceof ApiError && error.error === 'code_required') {
      setRefusal({ text: code === '' ? texts.session.codeNeeded : texts.session.codeWrong })
      setNeedsCode(true)
      setOffersPasskey(offeredPasskey(error.data) !== undefined)
      setCode('')
    } else {
      setRefusal({ text: explained(error) })
    }
  }

  const byPasskey = (fields: FormData) => signInBy(() => openSessionByPasskey(fields.has('remember')))

  return (
    <main class="sign-in">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault()
          void enter(event.currentTarget, (fields) => byPassword(fields, { otp_code: code }))
        }}
      >
        <SiteIcon size={40} />
        <h1>{title}</h1>
        {showsPassword && (
          <>
            <label>
              {texts.session.username}
              <input name="username" autocomplete="username" autocapitalize="none" autofocus required />
            </label>
            <label>
              {texts.session.password}
              <input name="password" type="password" autocomplete="current-password" />
            </label>
            {needsCode && <CodeField value={code} onValue={setCode} focused />}
            <label class="check">
              <input name="remember" type="checkbox" />
              {texts.session.remember}
            </label>
          </>
        )}
        {refusal && 'text' in refusal && (
          <p role="alert" class="error">
            {refusal.text}
          </p>
        )}
        {refusal && 'lockedUntil' in refusal && <LockedNotice until={refusal.lockedUntil} />}
        {showsPassword && (
          <button type="submit" class="primary" disabled={busy}>
            {texts.session.signIn}
          </button>
        )}
        {needsCode && offersPasskey && (
          <button type="button" disabled={busy} onClick={({ currentTarget: { form } }) => void enter(form, byBoth)}>
            {texts.session.passkeyInstead}
          </button>
        )}
        {passkeysOn && !needsCode && (
          <button type="button" disabled={busy} onClick={({ currentTarget: { form } }) => void enter(form, byPasskey)}>
            {texts.session.byPasskey}
          </button>
        )}
        {singleSignOn && (
          <ProviderLink
            method="console"
            after={location === '/@login' ? '/' : location}
            text={singleSignOn.sso_login_text || texts.session.byProvider}
          />
        )}
        {onGuest && (
          <button type="button" onClick={onGuest}>
            {texts.session.browseAsGuest}
          </button>
        )}
        <LanguageField />
      </form>
    </main>
  )
}

function explained(error: unknown): string {
  switch (error instanceof ApiError ? error.error : undefined) {
    case 'wrong_credentials':
      return texts.session.wrong
    case 'account_disabled':
    case 'guest_disabled':
      return texts.session.disabled
    case 'account_expired':
      return texts.session.expired
    case 'network_refused':
      return texts.session.networkRefused
    default:
      return messageOf(error)
  }
}
