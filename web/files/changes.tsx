/** The dialogs that change the entries of a folder. */
import { selection } from './selection.ts'
import type { Change } from './actions.ts'
import { BatchRenameDialog } from './batch-rename-dialog.tsx'
import { LinkDialog } from './link-dialog.tsx'
import { NewFolderDialog } from './new-folder-dialog.tsx'
import { RemoveDialog } from './remove-dialog.tsx'
import { RenameDialog } from './rename-dialog.tsx'
import { TransferDialog } from './transfer-dialog.tsx'
import { useState } from 'preact/hooks'

interface ChangeDialogProps {
  readonly change: Change
  /** The folder. */
  readonly path: string
  readonly onClose: () => void
}

export default function ChangeDialog({ change, path, onClose }: ChangeDialogProps) {
  const [names] = useState([...selection.value])
  const [first = ''] = names
  const dialog = { path, names, onClose }
  switch (change) {
    case 'newFolder':
      return <NewFolderDialog {...dialog} />
    case 'rename':
      return names.length === 1 ? <RenameDialog {...dialog} name={first} /> : <BatchRenameDialog {...dialog} />
    case 'move':
    case 'copy':
      return <TransferDialog {...dialog} kind={change} />
    case 'remove':
      return <RemoveDialog {...dialog} />
    case 'link':
      return <LinkDialog {...dialog} name={first} />
  }
}
