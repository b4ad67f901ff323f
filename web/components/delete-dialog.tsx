/** Asks before something is deleted. */
import { textsOf } from '../texts/texts.ts'
import { Dialog } from './dialog.tsx'

const texts = textsOf('files')

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
