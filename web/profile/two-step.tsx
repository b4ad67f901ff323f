/** Two-step verification: a secret as a picture, and the code that proves that an app has it. */
import { useState } from 'preact/hooks'
import { ApiError, post, type Data } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { Copyable } from '../components/copyable.tsx'
import { Dialog } from '../components/dialog.tsx'
import { report, reporting } from '../components/notices.tsx'
import { CodeField } from '../session/code-field.tsx'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { RecoveryCodes } from './recovery-codes.tsx'

const texts = textsOf('common', 'profile')

export function TwoStep({ me }: { readonly me: Me }) {
  const [generated, setGenerated] = useState<Data<'/api/auth/2fa/generate'>>()
  const [code, setCode] = useState('')
  const [currentCode, setCurrentCode] = useState('')
  const [renewing, setRenewing] = useState(false)
  async function verify(secret: string): Promise<void> {
    try {
      await post('/api/auth/2fa/verify', { code, secret, current_code: currentCode })
    } catch (error) {
      const isOneWrong = me.otp && error instanceof ApiError && error.error === 'code_required'
      throw isOneWrong ? new Error(texts.profile.codesWrong, { cause: error }) : error
    }
    report(texts.profile.twoStepDone)
    await askWhoIsSignedIn()
    setRenewing(true)
  }
  return (
    <section>
      <h2>{texts.profile.twoStep}</h2>
      <p>{me.otp ? texts.profile.twoStepOn : texts.profile.twoStepOff}</p>
      <button type="button" onClick={() => void reporting(post('/api/auth/2fa/generate').then(setGenerated))}>
        {me.otp ? texts.profile.setUpAgain : texts.profile.setUp}
      </button>
      {me.otp && <RecoveryCodes renewing={renewing} onRenewing={setRenewing} />}
      {generated && (
        <Dialog
          title={texts.profile.twoStep}
          action={texts.save}
          onClose={() => {
            setGenerated(undefined)
            setCode('')
            setCurrentCode('')
          }}
          onConfirm={() => verify(generated.secret)}
        >
          <p>{texts.profile.scan}</p>
          <img class="qr" src={generated.qr} alt={texts.profile.qrCode} width={240} height={240} />
          <p>{texts.profile.secret}</p>
          <Copyable text={generated.secret} />
          {me.otp && <CodeField label={texts.profile.currentCode} value={currentCode} onValue={setCurrentCode} />}
          <label>
            {me.otp ? texts.profile.newCode : texts.profile.code}
            <input
              inputMode="numeric"
              autocomplete="one-time-code"
              required
              value={code}
              onInput={(event) => setCode(event.currentTarget.value)}
            />
          </label>
        </Dialog>
      )}
    </section>
  )
}
