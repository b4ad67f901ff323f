/** Signs in at the backend of a storage by a QR code, which its app scans. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { post, type Data } from '../api/client.ts'
import { noteEndOfSession } from '../api/queries.ts'
import { qrCode } from '../components/qr-code.ts'
import { textsOf } from '../texts/texts.ts'
import { faultText } from './driver-texts.ts'
import type { Values } from './storage-values.ts'

const texts = textsOf('admin')

interface QrSignInProps {
  readonly driver: string
  /** The options of the driver so far, as JSON. */
  readonly addition: string
  /** Gets the values of the fields that the sign-in sets. */
  readonly onValues: (values: Values) => void
}

interface Shown {
  readonly state: Data<'/api/admin/storage/qr_answer'>['state'] | 'asking' | 'failed'
  /** What the code says. */
  readonly text?: string
  readonly fault?: string
}

/** Milliseconds between an answer and the next question. */
const pause = 2000
/** Milliseconds for which a code is followed, whatever the backend says. */
const patience = 5 * 60_000

export function QrSignIn({ driver, addition, onValues }: QrSignInProps) {
  const [shown, setShown] = useState<Shown>()
  const running = useRef<AbortController>()
  useEffect(() => () => running.current?.abort(), [])
  const { qr } = texts.storages

  async function begin(): Promise<void> {
    running.current?.abort()
    const { signal } = (running.current = new AbortController())
    setShown({ state: 'asking' })
    try {
      const { text, ticket } = await post('/api/admin/storage/qr_code', { driver, addition }, { signal })
      setShown({ state: 'waiting', text })
      const end = performance.now() + patience
      while (performance.now() < end) {
        const { state, values } = await post('/api/admin/storage/qr_answer', { driver, ticket }, { signal })
        const isOpen = state === 'waiting' || state === 'scanned'
        setShown({ state, ...(isOpen && { text }) })
        if (values) onValues(values)
        if (!isOpen) return
        await passed(pause, signal)
      }
      setShown({ state: 'expired' })
    } catch (error) {
      if (signal.aborted) return
      noteEndOfSession(error)
      setShown({ state: 'failed', fault: faultText(error) })
    }
  }
  return (
    <>
      <div>
        <button type="button" onClick={() => void begin()}>
          {shown === undefined ? qr.begin : qr.again}
        </button>
      </div>
      {shown?.text !== undefined && <img class="qr" src={qrCode(shown.text)} alt={qr.code} width={240} height={240} />}
      <p role="status">{shown && shown.state !== 'failed' && qr.states[shown.state]}</p>
      {shown?.fault !== undefined && (
        <p role="alert" class="error">
          {shown.fault}
        </p>
      )}
    </>
  )
}

/** Resolves after so many milliseconds. Rejects when the signal aborts. */
function passed(time: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, time)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    })
  })
}
