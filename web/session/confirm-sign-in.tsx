/** Asks for the password again, for a request that needs a recent sign-in. */
import { useRef, useState } from 'preact/hooks'
import { useQuery } from '@tanstack/preact-query'
import { useLocation } from 'wouter-preact'
import { ApiError, get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { question } from '../api/recent-sign-in.ts'
import { Dialog } from '../components/dialog.tsx'
import { messageOf } from '../components/error-text.ts'
import { textsOf } from '../texts/texts.ts'
import { CodeField } from './code-field.tsx'
import type { Me } from './me.ts'
import { confirmByPasskey, usePasskeysOn } from './passkey.ts'
import { ProviderLink, useSingleSignOn } from './single-sign-on.tsx'

const texts = textsOf('session')

/** The dialog, while a request waits for it. */
export function ConfirmSignIn({ me }: { readonly me: Me }) {
  const onAnswer = question.value
  return onAnswer ? <Confirmation me={me} onAnswer={onAnswer} /> : null
}

interface ConfirmationProps {
  readonly me: Me
  readonly onAnswer: (isConfirmed: boolean) => void
}

function Confirmation({ me, onAnswer }: ConfirmationProps) {
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [needsCode, setNeedsCode] = useState(me.otp)
  const [refusal, setRefusal] = useState<string>()
  const passkeysOn = usePasskeysOn()
  const { data: passkeys } = useQuery({
    queryKey: keys.passkeys,
    queryFn: () => get('/api/authn/getcredentials'),
    enabled: passkeysOn,
  })
  const isConfirmed = useRef(false)
  const singleSignOn = useSingleSignOn()
  const { data: identities = [] } = useQuery({
    queryKey: keys.identities,
    queryFn: () => get('/api/me/identities'),
    enabled: singleSignOn !== undefined,
  })
  // GitHub does not say when it has asked for a password.
  const mayConfirmThere =
    singleSignOn !== undefined &&
    singleSignOn.sso_login_platform !== 'Github' &&
    identities.some(({ kind }) => kind === 'oidc')
  const [location] = useLocation()
  const { session } = texts
  async function confirm(): Promise<void> {
    try {
      await post('/api/auth/session/confirm', { password, otp_code: code })
      isConfirmed.current = true
    } catch (error) {
      const reason = error instanceof ApiError ? error.error : undefined
      if (reason === 'wrong_credentials') throw new Error(session.wrongPassword, { cause: error })
      if (reason !== 'code_required') throw error
      setNeedsCode(true)
      setCode('')
      throw new Error(code === '' ? session.codeNeeded : session.codeWrong, { cause: error })
    }
  }
  async function confirmWithPasskey(): Promise<void> {
    setRefusal(undefined)
    try {
      await confirmByPasskey()
      onAnswer(true)
    } catch (error) {
      setRefusal(messageOf(error))
    }
  }
  return (
    <Dialog
      title={session.confirm}
      action={session.confirmed}
      onClose={() => onAnswer(isConfirmed.current)}
      onConfirm={confirm}
    >
      <p>{session.confirmHint}</p>
      <label>
        {session.password}
        <input
          type="password"
          autocomplete="current-password"
          required
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </label>
      {needsCode && <CodeField value={code} onValue={setCode} focused={!me.otp} />}
      {passkeysOn && passkeys !== undefined && passkeys.length > 0 && (
        <button type="button" onClick={() => void confirmWithPasskey()}>
          {session.passkeyInstead}
        </button>
      )}
      {refusal !== undefined && (
        <p role="alert" class="error">
          {refusal}
        </p>
      )}
      {mayConfirmThere && <ProviderLink method="confirm" after={location} text={session.confirmByProvider} />}
    </Dialog>
  )
}
