/** The page of a folder or file, of the tree or of a share. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect } from 'preact/hooks'
import { Link, useLocation } from 'wouter-preact'
import { FilePage } from '../viewers/file-page.tsx'
import { Failure } from '../components/failure.tsx'
import { addressOf, currentPath, parentOf } from '../components/places.ts'
import { entryQuery } from '../entries/folder.ts'
import { nameIn, useSource } from '../entries/source.ts'
import type { Me } from '../session/me.ts'
import { noteFolder } from '../session/recent-folders.ts'
import { textsOf } from '../texts/texts.ts'
import { AskFolderPassword, isDenied } from './ask-folder-password.tsx'
import { Breadcrumb } from './breadcrumb.tsx'
import { FolderView } from './folder-view.tsx'
import { clearSelection } from './selection.ts'

const texts = textsOf('common', 'files')

/** `me`: absent for visitors of a share. */
export function FilesPage({ me }: { readonly me?: Me }) {
  useLocation()
  const path = currentPath()
  const source = useSource()
  const { data, error, refetch } = useEntry(path)
  const shownPath = source.kind === 'tree' ? path : source.name + path.slice(source.top.length)
  useEffect(() => {
    document.title = shownPath === '/' ? texts.appName : `${shownPath} – ${texts.appName}`
    clearSelection()
  }, [shownPath])
  const isShownFolder = data?.is_dir === true && source.kind === 'tree'
  useEffect(() => {
    if (isShownFolder && me) noteFolder(me, path)
  }, [isShownFolder, path])
  const name = nameIn(source, path, texts.files.home)
  return (
    <>
      <Breadcrumb path={path} />
      {data?.is_dir !== false && <h1 class="for-screen-readers">{name}</h1>}
      {data?.is_dir === true ? (
        <FolderView key={path} path={path} me={me} />
      ) : data ? (
        // It stays if it cannot be loaded again: its text may be edited.
        <FilePage path={path} file={data} me={me} />
      ) : isDenied(error, path) ? (
        <AskFolderPassword path={path} error={error} onEntered={refetch} />
      ) : error ? (
        <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()}>
          {path !== source.top && (
            <Link href={addressOf(parentOf(path))} class="button primary">
              {texts.files.toParent}
            </Link>
          )}
        </Failure>
      ) : (
        <p class="loading skeleton">{texts.loading}</p>
      )}
    </>
  )
}

/** The file or folder of this path. */
export function useEntry(path: string) {
  return useQuery(entryQuery(path))
}
