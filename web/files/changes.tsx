/** The dialogs that change the entries of a folder. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { Dialog } from '../parts/dialog.tsx'
import { report } from '../parts/notices.tsx'
import { joined } from '../parts/places.ts'
import { texts } from '../texts.ts'
import { showChanges } from './folder.ts'
import { clearSelection, selection } from './selection.ts'

export interface Change {
  readonly action: 'newFolder' | 'rename' | 'move' | 'copy' | 'remove'
}

interface ChangeDialogProps {
  readonly change: Change
  readonly path: string
  readonly onClose: () => void
}

export function ChangeDialog({ change: { action }, path, onClose }: ChangeDialogProps) {
  const names = [...selection.value]
  const [name, setName] = useState(action === 'rename' ? (names[0] ?? '') : '')
  async function perform() {
    if (action === 'newFolder') await post('/api/fs/mkdir', { path: joined(path, name) })
    if (action === 'rename') await post('/api/fs/rename', { path: joined(path, names[0] ?? ''), name })
    if (action === 'remove') await post('/api/fs/remove', { dir: path, names })
    clearSelection()
    await showChanges(path)
    report(texts.files[action])
  }
  return (
    <Dialog
      title={texts.files[action]}
      action={texts.files[action]}
      dangerous={action === 'remove'}
      onClose={onClose}
      onConfirm={perform}
    >
      {action === 'remove' ? (
        <ul>
          {names.map((shown) => (
            <li key={shown}>{shown}</li>
          ))}
        </ul>
      ) : (
        <label>
          {texts.files.name}
          <input value={name} autofocus onInput={(event) => setName(event.currentTarget.value)} />
        </label>
      )}
    </Dialog>
  )
}
