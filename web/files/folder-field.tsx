/** A field for the path of a folder, with a tree from which it can be chosen. */
import { useState } from 'preact/hooks'
import { ApiError, post, type Data, type ErrorName } from '../api/client.ts'
import { textsOf } from '../texts/texts.ts'
import { FolderChooser } from './folder-chooser.tsx'

const texts = textsOf('changes')

interface FolderFieldProps {
  readonly label: string
  readonly path: string
  readonly onPath: (path: string) => void
}

export function FolderField({ label, path, onPath }: FolderFieldProps) {
  const [isChoosing, setChoosing] = useState(false)
  return (
    <>
      <div class="field-with-button">
        <label>
          {label}
          <input required value={path} onInput={({ currentTarget }) => onPath(currentTarget.value)} />
        </label>
        <button type="button" aria-expanded={isChoosing} onClick={() => setChoosing(!isChoosing)}>
          {texts.changes.choose}
        </button>
      </div>
      {isChoosing && <FolderChooser path={path.startsWith('/') ? path : '/'} onPath={onPath} />}
    </>
  )
}

const missing: ReadonlySet<ErrorName> = new Set(['not_found', 'parent_missing', 'no_storage', 'nothing_mounted'])

/**
 * Whether there is a folder of this path. True if the server does not tell, such as for a storage that does not start.
 */
export function isFolder(path: string): Promise<boolean> {
  return isSo(path, ({ is_dir: isFolder }) => isFolder)
}

/** Like `isFolder`, for files and folders. */
export function exists(path: string): Promise<boolean> {
  return isSo(path, () => true)
}

async function isSo(path: string, test: (entry: Data<'/api/fs/get'>) => boolean): Promise<boolean> {
  try {
    return test(await post('/api/fs/get', { path, password: '' }))
  } catch (error) {
    return !(error instanceof ApiError && error.error !== undefined && missing.has(error.error))
  }
}
