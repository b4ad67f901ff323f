/**
 * The question what happens to a file that exists. The Enter key, which may have been meant for something else,
 * destroys nothing.
 */
import { useQuery } from '@tanstack/preact-query'
import { useState } from 'preact/hooks'
import { post } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { Dialog } from '../components/dialog.tsx'
import { shareTop } from '../components/places.ts'
import { formatSize, formatTime } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { cancelConflict, resolveConflict } from './upload-queue.ts'
import type { ConflictChoice, Upload } from './upload.ts'
import './conflict-dialog.css'

const texts = textsOf('common', 'uploads')

export function ConflictDialog({ upload }: { readonly upload: Upload }) {
  const [toAll, setToAll] = useState(false)
  const { wantedPath: path, file } = upload
  const { data: existing } = useQuery({
    queryKey: keys.existing(path),
    queryFn: ({ signal }) => post('/api/fs/get', { path, password: folderPasswords.of(path) }, { signal }),
  })
  const choose = (choice: ConflictChoice) => resolveConflict(upload, choice, toAll)
  return (
    <Dialog
      title={texts.uploads.conflict.title(upload.name)}
      action={texts.uploads.conflict.keepBoth}
      otherActions={[
        { name: texts.uploads.conflict.skip, onChoose: () => choose('skip') },
        { name: texts.uploads.conflict.replace, onChoose: () => choose('replace') },
      ]}
      onClose={() => cancelConflict(upload, toAll)}
      onConfirm={async () => choose('keepBoth')}
    >
      <p>{texts.uploads.conflict.where(path.slice(shareTop(path)?.length ?? 0))}</p>
      <dl class="conflict">
        <dt>{texts.uploads.conflict.existing}</dt>
        <dd>{existing ? factsOf(existing.size, existing.modified) : texts.loading}</dd>
        <dt>{texts.uploads.conflict.chosen}</dt>
        <dd>{file && factsOf(file.size, new Date(file.lastModified).toISOString())}</dd>
      </dl>
      <label class="check">
        <input type="checkbox" checked={toAll} onChange={(event) => setToAll(event.currentTarget.checked)} />
        {texts.uploads.conflict.toAll}
      </label>
    </Dialog>
  )
}

function factsOf(size: number, time: string): string {
  return texts.facts([formatSize(size), formatTime(time)])
}
