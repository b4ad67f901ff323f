/** The dialogs of a folder and its entries. */
import { joined } from '../components/places.ts'
import type { Change } from './actions.ts'
import type { ChangeProps } from './change.ts'
import { BatchRenameDialog } from './batch-rename-dialog.tsx'
import { FromUrlsDialog } from './from-urls-dialog.tsx'
import { entryInMemory } from '../entries/folder.ts'
import type { Me } from '../session/me.ts'
import { ShareDialog } from '../shares/share-dialog.tsx'
import { HistoryDialog } from '../viewers/history-dialog.tsx'
import { LinkDialog } from '../viewers/link-dialog.tsx'
import { NewFileDialog } from './new-file-dialog.tsx'
import { NewFolderDialog } from './new-folder-dialog.tsx'
import { PropertiesDialog } from './properties-dialog.tsx'
import { RemoveDialog } from './remove-dialog.tsx'
import { RenameDialog } from './rename-dialog.tsx'
import { TransferDialog } from './transfer-dialog.tsx'

interface ChangeDialogProps extends ChangeProps {
  readonly change: Change
  readonly me: Me | undefined
}

export default function ChangeDialog({ change, me, ...dialog }: ChangeDialogProps) {
  const { names, path } = dialog
  const [first = ''] = names
  switch (change) {
    case 'newFolder':
      return <NewFolderDialog {...dialog} />
    case 'newFile':
      return <NewFileDialog {...dialog} />
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
    case 'history':
      return <HistoryDialog path={joined(path, first)} onClose={dialog.onClose} />
    case 'properties':
      return <PropertiesDialog {...dialog} />
    case 'share': {
      if (me === undefined) return null
      const paths = names.length === 0 ? [path] : names.map((name) => joined(path, name))
      const hasFiles = names.some((name) => entryInMemory(path, name)?.is_dir === false)
      return <ShareDialog me={me} paths={paths} hasFiles={hasFiles} onClose={dialog.onClose} />
    }
  }
}
