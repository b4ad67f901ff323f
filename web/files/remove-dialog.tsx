/** Lists the entries that are about to be deleted. */
import { post } from '../api/client.ts'
import { Dialog } from '../components/dialog.tsx'
import { report } from '../components/notices.tsx'
import { VirtualList } from '../components/virtual-list.tsx'
import { textsOf } from '../texts/texts.ts'
import { useBatches, type ChangeProps } from './change.ts'
import { folderPasswords } from '../session/folder-passwords.ts'

const texts = textsOf('files', 'changes')

export function RemoveDialog({ path, names, onClose }: ChangeProps) {
  const batches = useBatches()
  const only = names.length === 1 ? names[0] : undefined
  async function perform(): Promise<void> {
    const password = folderPasswords.of(path)
    await batches.send(names, [path], (some, signal) =>
      post('/api/fs/remove', { dir: path, names: [...some] }, { password, signal }),
    )
    report(texts.changes.removed(names.length))
  }
  return (
    <Dialog title={texts.files.remove} action={texts.files.remove} dangerous onClose={onClose} onConfirm={perform}>
      <p>{only === undefined ? texts.changes.removeWarning(names.length) : texts.changes.removeOneWarning(only)}</p>
      {only === undefined && (
        <VirtualList label={texts.changes.selected} count={names.length} item={(index) => names[index]} />
      )}
      {batches.done > 0 && <p role="status">{texts.changes.progress(batches.done, names.length)}</p>}
    </Dialog>
  )
}
