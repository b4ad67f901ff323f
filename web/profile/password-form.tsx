/** A form that replaces the password of the user. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { textOf } from '../components/form-values.ts'
import { reportFailure, reporting } from '../components/notices.tsx'
import { signIn, type Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('profile')

export function PasswordForm({ me }: { readonly me: Me }) {
  const [busy, setBusy] = useState(false)
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const fields = new FormData(form)
    const password = textOf(fields, 'password')
    if (password !== textOf(fields, 'repeated')) {
      reportFailure(new Error(texts.profile.passwordsDiffer))
      return
    }
    setBusy(true)
    if (await reporting(replacePassword(me, password), texts.profile.passwordChanged)) form.reset()
    setBusy(false)
  }
  return (
    <form class="form" onSubmit={(event) => void submit(event)}>
      <input type="hidden" autocomplete="username" value={me.username} />
      <label>
        {texts.profile.newPassword}
        <input name="password" type="password" autocomplete="new-password" required />
      </label>
      <label>
        {texts.profile.repeatPassword}
        <input name="repeated" type="password" autocomplete="new-password" required />
      </label>
      {me.otp && <p>{texts.profile.passwordEndsThis}</p>}
      <button type="submit" class="primary" disabled={busy}>
        {texts.profile.changePassword}
      </button>
    </form>
  )
}

/** A new password ends all sessions, so that a new one begins here. With two-step verification the user is asked. */
async function replacePassword({ username, otp }: Me, password: string): Promise<void> {
  await post('/api/me/update', { username, password })
  if (otp) await askWhoIsSignedIn()
  else await signIn({ username, password, otp_code: '', remember: false })
}
