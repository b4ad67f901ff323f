/** The sign-in page. */
import { useEffect, useState } from 'preact/hooks'
import { useQuery } from '@tanstack/preact-query'
import { ApiError, get } from '../api/client.ts'
import { messageOf } from '../parts/error-text.ts'
import { formatDuration } from '../parts/format.ts'
import { texts } from '../texts.ts'
import { signIn } from './me.ts'

/** Codes and messages of refused sign-ins. */
const codeRefused = 402
const throttled = 429

/** `onGuest`: goes on without signing in; absent if the guest is disabled. */
export function SignInPage({ onGuest }: { readonly onGuest?: (() => void) | undefined }) {
  const [needsCode, setNeedsCode] = useState(false)
  const [code, setCode] = useState('')
  const [error, setError] = useState<string>()
  const [lockedUntil, setLockedUntil] = useState<number>()
  const [busy, setBusy] = useState(false)
  const remaining = useSecondsUntil(lockedUntil)
  const { data: settings } = useQuery({ queryKey: ['public settings'], queryFn: () => get('/api/public/settings') })

  async function submit(event: SubmitEvent) {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    setBusy(true)
    setError(undefined)
    try {
      await signIn({
        username: String(fields.get('username')),
        password: String(fields.get('password')),
        otp_code: code,
        remember: fields.get('remember') !== null,
      })
    } catch (failure) {
      refused(failure)
    } finally {
      setBusy(false)
    }
  }

  function refused(failure: unknown): void {
    if (!(failure instanceof ApiError)) setError(messageOf(failure))
    else if (failure.code === throttled && failure.retryAfter !== undefined) {
      setLockedUntil(Date.now() + failure.retryAfter * 1000)
    } else if (failure.code === codeRefused) {
      setError(needsCode && code !== '' ? texts.session.codeWrong : texts.session.codeNeeded)
      setNeedsCode(true)
      setCode('')
    } else setError(explained(failure))
  }

  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>{settings?.['site_title'] || texts.appName}</h1>
        <label>
          {texts.session.username}
          <input name="username" autocomplete="username" autofocus required />
        </label>
        <label>
          {texts.session.password}
          <input name="password" type="password" autocomplete="current-password" />
        </label>
        {needsCode && (
          <label>
            {texts.session.code}
            <input
              inputMode="numeric"
              autocomplete="one-time-code"
              value={code}
              ref={focused}
              onInput={(event) => setCode(event.currentTarget.value)}
            />
          </label>
        )}
        <label class="check">
          <input name="remember" type="checkbox" />
          {texts.session.remember}
        </label>
        {(error !== undefined || lockedUntil !== undefined) && (
          <p role="alert" class="error">
            {lockedUntil === undefined
              ? error
              : remaining > 0
                ? texts.session.locked(formatDuration(remaining))
                : texts.session.lockEnded}
          </p>
        )}
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

function focused(input: HTMLInputElement | null): void {
  if (input && document.activeElement !== input && input.value === '') input.focus()
}

function explained({ code, message }: ApiError): string {
  if (code === 400 && message.includes('password')) return texts.session.wrong
  if (code === 400 && message.includes('disabled')) return texts.session.disabled
  return message
}

/** The seconds until a time, counted down. 0 without a time. */
function useSecondsUntil(time: number | undefined): number {
  const secondsLeft = () => (time === undefined ? 0 : Math.max(0, Math.ceil((time - Date.now()) / 1000)))
  const [seconds, setSeconds] = useState(secondsLeft)
  useEffect(() => {
    setSeconds(secondsLeft())
    if (time === undefined) return
    const timer = setInterval(() => {
      setSeconds(secondsLeft())
      if (secondsLeft() === 0) clearInterval(timer)
    }, 500)
    return () => clearInterval(timer)
  }, [time])
  return seconds
}
