/** Asks before something is deleted. */
import { texts } from '../texts.ts'
import { Dialog } from './dialog.tsx'

interface DeleteDialogProps {
  readonly title: string
  /** What happens by it. */
  readonly warning: string
  readonly onDelete: () => Promise<unknown>
  readonly onClose: () => void
}

export function DeleteDialog({ title, warning, onDelete, onClose }: DeleteDialogProps) {
  return (
    <Dialog title={title} action={texts.files.remove} dangerous onClose={onClose} onConfirm={onDelete}>
      <p>{warning}</p>
    </Dialog>
  )
}
