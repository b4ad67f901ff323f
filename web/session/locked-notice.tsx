/** Tells that the address of the user is locked after failed sign-ins, and counts down until it may try again. */
import { useEffect, useState } from 'preact/hooks'
import { formatDuration } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('session')

/** `until`: in milliseconds since 1970. */
export function LockedNotice({ until }: { readonly until: number }) {
  const seconds = useSecondsUntil(until)
  if (seconds === 0) return <p role="status">{texts.session.lockEnded}</p>
  return (
    <div class="error">
      <p role="alert">{texts.session.locked}</p>
      <p role="timer">{texts.session.lockedFor(formatDuration(seconds))}</p>
    </div>
  )
}

function useSecondsUntil(time: number): number {
  const secondsLeft = () => Math.max(0, Math.ceil((time - Date.now()) / 1000))
  const [seconds, setSeconds] = useState(secondsLeft)
  useEffect(() => {
    const timer = setInterval(() => setSeconds(secondsLeft()), 500)
    return () => clearInterval(timer)
  }, [time])
  return seconds
}
