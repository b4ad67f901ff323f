/** The page of a folder or file. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { post } from '../api/client.ts'
import { FilePage } from '../viewers/file-page.tsx'
import { Failure } from '../components/failure.tsx'
import { currentPath, inTree, nameOf } from '../components/places.ts'
import type { Me } from '../session/me.ts'
import { texts } from '../texts.ts'
import { AskFolderPassword, isDenied } from './ask-folder-password.tsx'
import { Breadcrumb } from './breadcrumb.tsx'
import { FolderView } from './folder-view.tsx'
import { folderPasswords } from '../session/folder-passwords.ts'
import { clearSelection } from './selection.ts'

export function FilesPage({ me }: { readonly me: Me }) {
  useLocation()
  const path = currentPath()
  const { data, error, refetch } = useQuery({
    queryKey: ['entry', path],
    queryFn: ({ signal }) => post('/api/fs/get', { path, password: folderPasswords.of(path) }, { signal }),
  })
  useEffect(() => {
    document.title = path === '/' ? texts.appName : `${path} – ${texts.appName}`
    clearSelection()
  }, [path])
  const name = nameOf(path) || texts.files.home
  return (
    <>
      <Breadcrumb path={path} />
      {data?.is_dir !== false && <h1 class="for-screen-readers">{name}</h1>}
      {data?.is_dir === true ? (
        <FolderView key={path} path={path} me={me} />
      ) : data ? (
        // It stays if it cannot be loaded again: its text may be edited.
        <FilePage path={path} treePath={inTree(me, path)} file={data} />
      ) : isDenied(error) ? (
        <AskFolderPassword path={path} onEntered={() => void refetch()} />
      ) : error ? (
        <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
      ) : (
        <p class="loading">{texts.loading}</p>
      )}
    </>
  )
}
