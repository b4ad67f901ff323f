/** Recovery codes of two-step verification: how many are left, and new ones. */
import { useState } from 'preact/hooks'
import { get, post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { Copyable } from '../components/copyable.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Failure } from '../components/failure.tsx'
import { changed, useRows } from '../components/rows.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('profile')

interface RecoveryCodesProps {
  /** Whether the dialog that makes new codes is open. */
  readonly renewing: boolean
  readonly onRenewing: (renewing: boolean) => void
}

export function RecoveryCodes({ renewing, onRenewing }: RecoveryCodesProps) {
  const { data, error } = useRows(keys.recoveryCodes, () => get('/api/me/recovery_codes'))
  const [password, setPassword] = useState('')
  const [shown, setShown] = useState<string>()
  const { profile } = texts
  async function renew(): Promise<void> {
    const { codes } = await post('/api/auth/2fa/recovery_codes', { password })
    setShown(codes.join('\n'))
    await changed(keys.recoveryCodes)
  }
  return (
    <>
      {error && <Failure error={error} />}
      {data && <p>{profile.recoveryCodesLeft(data.left)}</p>}
      <button type="button" onClick={() => onRenewing(true)}>
        {profile.renewRecoveryCodes}
      </button>
      {renewing && (
        <Dialog
          title={profile.recoveryCodes}
          action={profile.renewRecoveryCodes}
          onClose={() => {
            setPassword('')
            onRenewing(false)
          }}
          onConfirm={renew}
        >
          <p>{profile.recoveryCodesHint}</p>
          <label>
            {profile.password}
            <input
              type="password"
              autocomplete="current-password"
              required
              value={password}
              onInput={(event) => setPassword(event.currentTarget.value)}
            />
          </label>
        </Dialog>
      )}
      {shown !== undefined && (
        <Dialog title={profile.newRecoveryCodes} onClose={() => setShown(undefined)}>
          <p>{profile.recoveryCodesShown}</p>
          <Copyable text={shown} />
          <a
            class="button"
            href={`data:text/plain;charset=utf-8,${encodeURIComponent(`${shown}\n`)}`}
            download={profile.recoveryCodesFile}
          >
            {profile.saveAsFile}
          </a>
        </Dialog>
      )}
    </>
  )
}
