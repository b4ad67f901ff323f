/** Asks for the new name of one entry. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { Dialog } from '../components/dialog.tsx'
import { report } from '../components/notices.tsx'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { plainly, type ChangeProps } from './change.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { entryInMemory, showChanges } from '../entries/folder.ts'
import { select } from './selection.ts'

const texts = textsOf('files', 'changes')

export function RenameDialog({ path, name: oldName, onClose }: ChangeProps & { readonly name: string }) {
  const [name, setName] = useState(oldName)
  const input = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => {
    const dot = entryInMemory(path, oldName)?.is_dir === true ? -1 : oldName.lastIndexOf('.')
    input.current?.setSelectionRange(0, dot > 0 ? dot : oldName.length)
  }, [path, oldName])
  async function perform(): Promise<void> {
    const password = folderPasswords.of(path)
    await plainly(post('/api/fs/rename', { path: joined(path, oldName), name }, { password }))
    select([name])
    await showChanges(path)
    report(texts.changes.renamed(oldName, name))
  }
  return (
    <Dialog
      title={texts.files.rename}
      action={texts.files.rename}
      disabled={name === '' || name === oldName}
      onClose={onClose}
      onConfirm={perform}
    >
      <label>
        {texts.files.name}
        <input
          ref={input}
          value={name}
          autofocus
          autocomplete="off"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
    </Dialog>
  )
}
