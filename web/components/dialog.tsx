/** A modal dialog. Everything behind it is inert (HTML Standard, the dialog element). */
import type { ComponentChildren } from 'preact'
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks'
import { noteEndOfSession } from '../api/queries.ts'
import { SessionEnded } from './session-ended.ts'
import { textsOf } from '../texts/texts.ts'
import { messageOf } from './error-text.ts'
import { reportFailure } from './notices.tsx'
import './dialog.css'

const texts = textsOf('common')

interface DialogProps {
  readonly title: string
  /** The name of the confirming button. Absent: the dialog has only a button that closes it. */
  readonly action?: string
  /** Whether the action deletes something. */
  readonly dangerous?: boolean
  /** Other choices, whose buttons do not close the dialog. */
  readonly otherActions?: readonly { readonly name: string; readonly onChoose: () => void }[]
  readonly disabled?: boolean
  readonly wide?: boolean
  readonly onClose: () => void
  /**
   * Performs the action. The dialog is closed when it resolves, and shows the error when it rejects. If the user has
   * closed the dialog before, the error is reported as a notice.
   */
  readonly onConfirm?: () => Promise<unknown> | undefined
  readonly children: ComponentChildren
}

export function Dialog(props: DialogProps) {
  const { title, action, onClose, onConfirm } = props
  const dialog = useRef<HTMLDialogElement>(null)
  const id = useId()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string>()
  const isClosed = useRef(false)

  const isHidden = useContext(SessionEnded)

  useEffect(() => {
    if (isHidden) return
    const element = dialog.current
    element?.showModal()
    // Returns the focus to where it was.
    return () => element?.close()
  }, [isHidden])
  useEffect(() => () => void (isClosed.current = true), [])

  async function confirm(event: Event) {
    event.preventDefault()
    if (busy) return
    setBusy(true)
    setError(undefined)
    try {
      await onConfirm?.()
      if (!isClosed.current) onClose()
    } catch (failure) {
      if (isClosed.current) {
        // The dialog has ended the request itself.
        if (!(failure instanceof DOMException && failure.name === 'AbortError')) reportFailure(failure)
        return
      }
      noteEndOfSession(failure)
      setError(messageOf(failure))
      setBusy(false)
    }
  }

  return (
    <dialog
      ref={dialog}
      class={props.wide === true ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
    >
      <form onSubmit={(event) => void confirm(event)}>
        <h2 id={id}>{title}</h2>
        <div class="dialog-body">{props.children}</div>
        {error !== undefined && (
          <p role="alert" class="error">
            {error}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={onClose}>
            {action === undefined ? texts.close : texts.cancel}
          </button>
          {props.otherActions?.map(({ name, onChoose }) => (
            <button
              key={name}
              type="button"
              onClick={() => {
                setError(undefined)
                onChoose()
              }}
            >
              {name}
            </button>
          ))}
          {action !== undefined && (
            <button
              type="submit"
              class={props.dangerous === true ? 'primary danger' : 'primary'}
              disabled={props.disabled === true}
              aria-disabled={busy}
            >
              {action}
            </button>
          )}
        </div>
      </form>
    </dialog>
  )
}
