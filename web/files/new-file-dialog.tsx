/** Asks for the name of a new file, which is empty. */
import { useState } from 'preact/hooks'
import { ApiError, putFile } from '../api/client.ts'
import { Dialog } from '../components/dialog.tsx'
import { report } from '../components/notices.tsx'
import { addressOf, joined } from '../components/places.ts'
import { showChanges } from '../entries/folder.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { textsOf } from '../texts/texts.ts'
import type { ChangeProps } from './change.ts'
import { select } from './selection.ts'

const texts = textsOf('files', 'changes')

export function NewFileDialog({ path, onClose }: ChangeProps) {
  const [name, setName] = useState('')
  async function perform(): Promise<void> {
    await makeFile(joined(path, name), folderPasswords.headerOf(path)).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.error !== 'exists') throw error
      throw new Error(texts.changes.exists(name), { cause: error })
    })
    await showChanges(path)
    select([name])
    report(texts.changes.fileMade(name), { href: addressOf(joined(path, name)), text: texts.files.open })
  }
  return (
    <Dialog
      title={texts.files.newFile}
      action={texts.files.newFile}
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

function makeFile(path: string, password: string): Promise<string> {
  const headers = {
    'File-Path': encodeURIComponent(path),
    Overwrite: 'false',
    Password: password,
    'Content-Type': 'application/octet-stream',
  }
  return putFile(headers, '')
}
