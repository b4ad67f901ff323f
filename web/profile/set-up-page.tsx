/** What a user sees who must set up two-step verification before all else, because a group requires it. */
import { useContext } from 'preact/hooks'
import { reporting } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { SessionEnded } from '../components/session-ended.ts'
import { signOut, type Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { TwoStep } from './two-step.tsx'

const texts = textsOf('session', 'profile')

interface SetUpPageProps {
  readonly me: Me
  /** Called when it is set up and the user goes on. */
  readonly onDone: () => void
}

export default function SetUpPage({ me, onDone }: SetUpPageProps) {
  return (
    <main hidden={useContext(SessionEnded)}>
      <Page title={texts.setUp.title}>
        <p>{texts.setUp.why}</p>
        <TwoStep me={me} />
        <div class="buttons">
          <button type="button" onClick={() => void reporting(signOut())}>
            {texts.session.signOut}
          </button>
          <button type="button" class="primary" disabled={me.two_step_set_up_required} onClick={onDone}>
            {texts.setUp.goOn}
          </button>
        </div>
      </Page>
    </main>
  )
}
