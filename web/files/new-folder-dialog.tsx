/** Asks for the name of a new folder. */
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { Dialog } from '../components/dialog.tsx'
import { report } from '../components/notices.tsx'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { plainly, type ChangeProps } from './change.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { showChanges } from '../entries/folder.ts'

const texts = textsOf('files', 'changes')

export function NewFolderDialog({ path, onClose }: ChangeProps) {
  const [name, setName] = useState('')
  async function perform(): Promise<void> {
    await makeFolder(path, name)
    report(texts.changes.folderMade(name))
  }
  return (
    <Dialog
      title={texts.files.newFolder}
      action={texts.files.newFolder}
      disabled={name === ''}
      onClose={onClose}
      onConfirm={perform}
    >
      <label>
        {texts.files.name}
        <input value={name} autofocus autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
      </label>
    </Dialog>
  )
}

/** Rejects if the name is taken, which the API accepts for a folder. */
export async function makeFolder(folder: string, name: string): Promise<void> {
  const password = folderPasswords.of(folder)
  if (await exists(joined(folder, name), password)) throw new Error(texts.changes.exists(name))
  await plainly(post('/api/fs/mkdir', { path: joined(folder, name) }, { password }))
  await showChanges(folder)
}

async function exists(path: string, password: string): Promise<boolean> {
  try {
    await post('/api/fs/get', { path, password })
    return true
  } catch {
    // If it fails for another reason, making the folder fails too.
    return false
  }
}
