/** The name and the password of the user. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { report, reporting, reportFailure } from '../parts/notices.tsx'
import type { Me } from '../session/me.ts'
import { texts } from '../texts.ts'

export function Account({ me }: { readonly me: Me }) {
  const [busy, setBusy] = useState(false)
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const [username, password, repeated] = ['username', 'password', 'repeated'].map((name) => String(fields.get(name)))
    if (password !== repeated) {
      reportFailure(new Error(texts.profile.passwordsDiffer))
      return
    }
    setBusy(true)
    const saved = await reporting(post('/api/me/update', { username: username ?? '', password: password ?? '' }))
    setBusy(false)
    if (!saved) return
    report(texts.profile.saved)
    await askWhoIsSignedIn()
  }
  return (
    <section>
      <h2>{texts.profile.account}</h2>
      <p class="muted">{texts.profile.changesEndSessions}</p>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <label>
          {texts.profile.username}
          <input name="username" autocomplete="username" defaultValue={me.username} required />
        </label>
        <label>
          {texts.profile.newPassword}
          <input name="password" type="password" autocomplete="new-password" />
        </label>
        <label>
          {texts.profile.repeatPassword}
          <input name="repeated" type="password" autocomplete="new-password" />
        </label>
        <button type="submit" class="primary" disabled={busy}>
          {texts.save}
        </button>
      </form>
    </section>
  )
}
