/** The page of a folder or file. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { ApiError, post } from '../api/client.ts'
import { FilePage } from '../look/file-page.tsx'
import { Failure } from '../parts/failure.tsx'
import { addressOf, currentPath, joined, parentOf } from '../parts/places.ts'
import type { Me } from '../session/me.ts'
import { texts } from '../texts.ts'
import { AskFolderPassword } from './ask-folder-password.tsx'
import { Breadcrumb } from './breadcrumb.tsx'
import { ChangeDialog, type Change } from './changes.tsx'
import { ContextMenu } from './context-menu.tsx'
import { FileGrid } from './file-grid.tsx'
import { refreshFolder, useFolder, type Display, type Entry } from './folder.ts'
import { folderPasswords } from './folder-passwords.ts'
import { Notes } from './notes.tsx'
import { clearSelection } from './selection.ts'
import { SortButtons } from './sort-buttons.tsx'
import { Toolbar } from './toolbar.tsx'

/** The code of a refusal that a folder password may overcome. */
const denied = 403

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
  if (error instanceof ApiError && error.code === denied) {
    return <AskFolderPassword path={path} onEntered={() => void refetch()} />
  }
  return (
    <>
      <Breadcrumb path={path} />
      {error ? (
        <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <p class="loading">{texts.loading}</p>
      ) : data.is_dir ? (
        <FolderView path={path} />
      ) : (
        <FilePage path={path} file={data} onLink={() => undefined} />
      )}
    </>
  )
}

const byName: Display = { sort_by: 'name', sort_direction: 'asc', contains: '' }

function FolderView({ path }: { readonly path: string }) {
  const [, navigate] = useLocation()
  const [display, setDisplay] = useState(byName)
  const [tiles, setTiles] = useState(localStorage.getItem('view') === 'tiles')
  const [change, setChange] = useState<Change>()
  const [menuAt, setMenuAt] = useState<{ readonly x: number; readonly y: number }>()
  const { data: folder, error, refetch } = useFolder(path, display)

  useEffect(() => setDisplay((before) => ({ ...before, contains: '' })), [path])

  if (error instanceof ApiError && error.code === denied) {
    return <AskFolderPassword path={path} onEntered={() => void refetch()} />
  }
  if (error) return <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
  const open = ({ name }: Entry) => navigate(addressOf(joined(path, name)))
  const onKey = (event: KeyboardEvent) => {
    const action = ({ F2: 'rename', Delete: 'remove' } as const)[event.key]
    if (action === undefined) return
    event.preventDefault()
    setChange({ action })
  }
  return (
    <section class="folder">
      <Toolbar
        path={path}
        display={display}
        mayWrite={folder?.write === true}
        tiles={tiles}
        onTiles={(shown) => {
          localStorage.setItem('view', shown ? 'tiles' : 'list')
          setTiles(shown)
        }}
        onDisplay={setDisplay}
        onRefresh={() => refreshFolder(path, display)}
        onChange={setChange}
      />
      {folder && <Notes text={folder.header} />}
      <SortButtons display={display} onDisplay={setDisplay} />
      {folder?.total === 0 && (
        <p class="loading">{display.contains === '' ? texts.files.empty : texts.files.noMatch}</p>
      )}
      <FileGrid
        path={path}
        display={display}
        total={folder?.total ?? 0}
        tiles={tiles}
        onOpen={open}
        onKey={onKey}
        onUp={() => navigate(addressOf(parentOf(path)))}
        onMenu={setMenuAt}
      />
      {folder && <Notes text={folder.readme} />}
      {menuAt && <ContextMenu at={menuAt} path={path} onClose={() => setMenuAt(undefined)} onChange={setChange} />}
      {change && <ChangeDialog change={change} path={path} onClose={() => setChange(undefined)} />}
    </section>
  )
}
