/** The account of the user. */
import { AppearanceFields } from '../components/appearance-fields.tsx'
import { LanguageField } from '../components/language-field.tsx'
import { Page } from '../components/page.tsx'
import type { Me } from '../session/me.ts'
import { may } from '../session/permissions.ts'
import { textsOf } from '../texts/texts.ts'
import { Account } from './account.tsx'
import { AppPasswords } from './app-passwords.tsx'
import { Identities } from './identities.tsx'
import { MountHelp } from './mount-help.tsx'
import { Passkeys } from './passkeys.tsx'
import { Sessions } from './sessions.tsx'
import { SshKeys } from './ssh-keys.tsx'
import { TwoStep } from './two-step.tsx'

const texts = textsOf('common', 'mount')

export default function ProfilePage({ me }: { readonly me: Me }) {
  return (
    <Page title={texts.nav.profile}>
      <div class="row-buttons">
        <LanguageField />
        <AppearanceFields />
      </div>
      <Account me={me} />
      <TwoStep me={me} />
      <Identities />
      <Passkeys />
      <SshKeys />
      <AppPasswords />
      <Sessions />
      {(may(me, 'webdavRead') || may(me, 'sftpRead')) && (
        <section>
          <h2>{texts.mount.title}</h2>
          <MountHelp me={me} />
        </section>
      )}
    </Page>
  )
}
