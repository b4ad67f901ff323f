/** The name and the password of the user. */
import { post } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { textOf } from '../components/form-values.ts'
import { reporting } from '../components/notices.tsx'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { PasswordForm } from './password-form.tsx'

const texts = textsOf('profile')

export function Account({ me }: { readonly me: Me }) {
  async function rename(event: SubmitEvent): Promise<void> {
    event.preventDefault()
    const username = textOf(new FormData(event.currentTarget as HTMLFormElement), 'username')
    const renamed = await reporting(post('/api/me/update', { username, password: '' }), texts.profile.renamed)
    if (renamed) await askWhoIsSignedIn()
  }
  return (
    <>
      <section>
        <h2>{texts.profile.password}</h2>
        <p class="muted">{texts.profile.passwordHint}</p>
        <PasswordForm me={me} />
      </section>
      <section>
        <h2>{texts.profile.account}</h2>
        <p class="muted">{texts.profile.renameHint}</p>
        <form class="form" onSubmit={(event) => void rename(event)}>
          <label>
            {texts.profile.username}
            <input name="username" autocomplete="username" defaultValue={me.username} required />
          </label>
          <button type="submit">{texts.profile.rename}</button>
        </form>
      </section>
    </>
  )
}
