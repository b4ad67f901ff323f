/** The dialogs that change the entries of a folder. */
import type { Change } from './actions.ts'
import type { ChangeProps } from './change.ts'
import { BatchRenameDialog } from './batch-rename-dialog.tsx'
import { FromUrlsDialog } from './from-urls-dialog.tsx'
import { LinkDialog } from '../viewers/link-dialog.tsx'
import { NewFolderDialog } from './new-folder-dialog.tsx'
import { RemoveDialog } from './remove-dialog.tsx'
import { RenameDialog } from './rename-dialog.tsx'
import { TransferDialog } from './transfer-dialog.tsx'

interface ChangeDialogProps extends ChangeProps {
  readonly change: Change
}

export default function ChangeDialog({ change, ...dialog }: ChangeDialogProps) {
  const { names } = dialog
  const [first = ''] = names
  switch (change) {
    case 'newFolder':
      return <NewFolderDialog {...dialog} />
    case 'fromUrls':
      return <FromUrlsDialog {...dialog} />
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
