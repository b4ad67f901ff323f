/** The sign-in page. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { textOf } from '../components/form-values.ts'
import { texts } from '../texts.ts'
import { CodeField } from './code-field.tsx'
import { LockedNotice } from './locked-notice.tsx'
import { signIn } from './me.ts'

/** What stands in the way of signing in. */
type Refusal = { readonly text: string } | { readonly lockedUntil: number }

/** `onGuest`: goes on without signing in; absent if the guest is disabled. */
export function SignInPage({ onGuest }: { readonly onGuest?: (() => void) | undefined }) {
  const [needsCode, setNeedsCode] = useState(false)
  const [code, setCode] = useState('')
  const [refusal, setRefusal] = useState<Refusal>()
  const [busy, setBusy] = useState(false)
  const { data: settings } = useQuery({ queryKey: ['public settings'], queryFn: () => get('/api/public/settings') })
  const title = settings?.site_title || texts.appName
  useEffect(() => {
    const before = document.title
    document.title = `${texts.session.title} – ${title}`
    return () => void (document.title = before)
  }, [title])

  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    setBusy(true)
    setRefusal(undefined)
    try {
      await signIn({
        username: textOf(fields, 'username'),
        password: textOf(fields, 'password'),
        otp_code: code,
        remember: fields.has('remember'),
      })
    } catch (error) {
      refused(error)
    } finally {
      setBusy(false)
    }
  }

  function refused(error: unknown): void {
    if (error instanceof ApiError && error.error === 'sign_in_throttled' && error.retryAfter !== undefined) {
      setRefusal({ lockedUntil: Date.now() + error.retryAfter * 1000 })
    } else if (error instanceof ApiError && error.error === 'code_required') {
      setRefusal({ text: code === '' ? texts.session.codeNeeded : texts.session.codeWrong })
      setNeedsCode(true)
      setCode('')
    } else {
      setRefusal({ text: explained(error) })
    }
  }

  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>{title}</h1>
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
        {refusal && 'text' in refusal && (
          <p role="alert" class="error">
            {refusal.text}
          </p>
        )}
        {refusal && 'lockedUntil' in refusal && <LockedNotice until={refusal.lockedUntil} />}
        <button type="submit" class="primary" disabled={busy}>
          {texts.session.signIn}
        </button>
        {onGuest && (
          <button type="button" onClick={onGuest}>
            {texts.session.browseAsGuest}
          </button>
        )}
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
