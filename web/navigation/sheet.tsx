/** A modal part of the window at its edge. Everything behind it is inert (HTML Standard, the dialog element). */
import { X } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import './sheet.css'

const texts = textsOf('common')

interface SheetProps {
  readonly label: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** Escape, the button and a click beside it close it. */
export function Sheet({ label, onClose, children }: SheetProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  // Before what is behind it can be clicked.
  useLayoutEffect(() => {
    const element = dialog.current
    element?.showModal()
    // Returns the focus to where it was.
    return () => element?.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      class="side-sheet"
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={({ target }) => target === dialog.current && onClose()}
    >
      <div class="side-sheet-head">
        <button type="button" class="quiet icon" aria-label={texts.close} onClick={onClose}>
          <X aria-hidden size={18} />
        </button>
      </div>
      {children}
    </dialog>
  )
}
