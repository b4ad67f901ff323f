/** The page of a folder or file. */
import { useQuery } from '@tanstack/preact-query'
import { lazy, Suspense } from 'preact/compat'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { ApiError, post } from '../api/client.ts'
import { FilePage } from '../look/file-page.tsx'
import { Failure } from '../parts/failure.tsx'
import { addressOf, currentPath, inTree, nameOf, parentOf } from '../parts/places.ts'
import type { Me } from '../session/me.ts'
import { texts } from '../texts.ts'
import { folderActions, type Change } from './actions.ts'
import { AskFolderPassword } from './ask-folder-password.tsx'
import { Breadcrumb } from './breadcrumb.tsx'
import { FileGrid, type Point } from './file-grid.tsx'
import { refreshFolder, sorting, useFolder } from './folder.ts'
import { folderPasswords } from './folder-passwords.ts'
import { ListHead } from './list-head.tsx'
import { Notes } from './notes.tsx'
import { rightsIn } from './rights.ts'
import { clearSelection } from './selection.ts'
import { Toolbar } from './toolbar.tsx'

const ChangeDialog = lazy(() => import('./changes.tsx'))
const ContextMenu = lazy(() => import('./context-menu.tsx'))

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
  return (
    <>
      <Breadcrumb path={path} />
      <h1 class="for-screen-readers">{nameOf(path) || texts.files.home}</h1>
      {isDenied(error) ? (
        <AskFolderPassword path={path} onEntered={() => void refetch()} />
      ) : error ? (
        <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <p class="loading">{texts.loading}</p>
      ) : data.is_dir ? (
        <FolderView key={path} path={path} me={me} />
      ) : (
        <FilePage path={path} treePath={inTree(me, path)} file={data} />
      )}
    </>
  )
}

function isDenied(error: unknown): boolean {
  return error instanceof ApiError && error.code === denied
}

/** The changes that keys start. */
const changeOfKey: Readonly<Record<string, Change>> = { F2: 'rename', Delete: 'remove' }

function FolderView({ path, me }: { readonly path: string; readonly me: Me }) {
  const [, navigate] = useLocation()
  const [contains, setContains] = useState('')
  const [tiles, setTiles] = useState(localStorage.getItem('view') === 'tiles')
  const [change, setChange] = useState<Change>()
  const [menuAt, setMenuAt] = useState<Point>()
  const order = sorting.value
  const display = useMemo(() => ({ ...order, contains }), [order, contains])
  const { data: folder, error, refetch } = useFolder(path, display)

  if (isDenied(error)) return <AskFolderPassword path={path} onEntered={() => void refetch()} />
  if (error) return <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
  const treePath = inTree(me, path)
  const total = folder?.total ?? 0
  const rights = rightsIn(me, folder)
  const actions = folderActions({ path, treePath, display, total, rights, navigate, onChange: setChange })
  const onKey = (event: KeyboardEvent) => {
    const pressed = changeOfKey[event.key]
    if (pressed === undefined || !actions.allows(pressed)) return
    event.preventDefault()
    actions.start(pressed)
  }
  return (
    <section class="folder" aria-label={nameOf(path) || texts.files.home}>
      <Toolbar
        path={path}
        actions={actions}
        contains={contains}
        tiles={tiles}
        onTiles={(shown) => {
          localStorage.setItem('view', shown ? 'tiles' : 'list')
          setTiles(shown)
        }}
        onContains={setContains}
        onRefresh={() => refreshFolder(path, display, rights.write)}
      />
      {folder && <Notes text={folder.header} path={path} />}
      <ListHead total={total} onSelectAll={() => actions.start('selectAll')} />
      {folder?.total === 0 && <p class="loading">{contains === '' ? texts.files.empty : texts.files.noMatch}</p>}
      <FileGrid
        path={path}
        treePath={treePath}
        display={display}
        total={total}
        tiles={tiles}
        onOpen={actions.open}
        onKey={onKey}
        onUp={() => navigate(addressOf(parentOf(path)))}
        onMenu={setMenuAt}
      />
      {folder && <Notes text={folder.readme} path={path} />}
      <Suspense fallback={null}>
        {menuAt && <ContextMenu at={menuAt} actions={actions} onClose={() => setMenuAt(undefined)} />}
        {change && <ChangeDialog change={change} path={path} onClose={() => setChange(undefined)} />}
      </Suspense>
    </section>
  )
}
