/** Moves or copies the selected entries to a folder that the user chooses. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { Dialog } from '../components/dialog.tsx'
import { report } from '../components/notices.tsx'
import { isWithin, joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { useBatches, type ChangeProps } from './change.ts'
import { FolderChooser } from './folder-chooser.tsx'
import { folderPasswords } from '../session/folder-passwords.ts'

const texts = textsOf('common', 'files', 'changes')

/** What happens to an entry whose name exists in the target. 'merge': into an existing folder, without its files. */
type Conflict = 'refuse' | 'replace' | 'skip' | 'merge'

const conflicts: Readonly<Record<'move' | 'copy', readonly Conflict[]>> = {
  move: ['refuse', 'replace', 'skip'],
  copy: ['refuse', 'replace', 'skip', 'merge'],
}

export function TransferDialog({ kind, path, names, onClose }: ChangeProps & { readonly kind: 'move' | 'copy' }) {
  const [target, setTarget] = useState(path)
  const [conflict, setConflict] = useState<Conflict>('refuse')
  const batches = useBatches()
  async function perform(): Promise<void> {
    let tasks = 0
    await batches.send(names, [path, target], async (some, signal) => {
      const fields = {
        src_dir: path,
        dst_dir: target,
        names: [...some],
        overwrite: conflict === 'replace',
        skip_existing: conflict === 'skip',
        merge: conflict === 'merge',
      }
      const password = folderPasswords.of(target) || folderPasswords.of(path)
      const answer = await post(`/api/fs/${kind}`, fields, { password, signal })
      tasks += answer?.tasks.length ?? 0
    })
    if (tasks === 0) report(texts.changes.transferred[kind](names.length))
    else report(texts.changes.tasksStarted(tasks), { href: '/@tasks', text: texts.nav.tasks })
  }
  const isPossible = target !== path && !names.some((name) => isWithin(joined(path, name), target))
  return (
    <Dialog
      title={texts.files[kind]}
      action={texts.files[kind]}
      disabled={!isPossible}
      onClose={onClose}
      onConfirm={perform}
    >
      <p>{texts.changes.to[kind](names.length, target)}</p>
      <FolderChooser path={target} onPath={setTarget} />
      <label>
        {texts.changes.conflict}
        <select value={conflict} onChange={(event) => setConflict(event.currentTarget.value as Conflict)}>
          {conflicts[kind].map((each) => (
            <option key={each} value={each}>
              {texts.changes.conflicts[each]}
            </option>
          ))}
        </select>
      </label>
      {batches.done > 0 && <p role="status">{texts.changes.progress(batches.done, names.length)}</p>}
    </Dialog>
  )
}
