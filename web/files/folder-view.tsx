/** A folder: its actions, its notes and its entries. */
import { FolderOpen, SearchX } from 'lucide-preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { readmes } from '../components/appearance.ts'
import { Empty } from '../components/empty.tsx'
import { Failure } from '../components/failure.tsx'
import { Loaded, part } from '../components/loaded.tsx'
import { addressOf, parentOf } from '../components/places.ts'
import { nameIn, useSource } from '../entries/source.ts'
import type { Me } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { folderActions, type Change } from './actions.ts'
import { AskFolderPassword, isDenied } from './ask-folder-password.tsx'
import { clipboardOf, useClipboardEvents } from './clipboard.ts'
import { ClipboardBar } from './clipboard-bar.tsx'
import { FileGrid, focusFiles, type Point } from './file-grid.tsx'
import { sorting, useFolder } from '../entries/folder.ts'
import { Notes } from '../viewers/notes.tsx'
import { FolderReadme, useReadme } from './folder-readme.tsx'
import { rightsIn } from './rights.ts'
import { BarBelow } from './selection-bar.tsx'
import { selection } from './selection.ts'
import { stoppedTransfer } from './transfer.ts'
import { Toolbar } from './toolbar.tsx'
import './folder-view.css'

const texts = textsOf('files')

const ChangeDialog = part(() => import('./changes.tsx'))
const StoppedTransferDialog = part(async () => ({
  default: (await import('./transfer-dialog.tsx')).StoppedTransferDialog,
}))
const ContextMenu = part(() => import('./context-menu.tsx'))

/** The changes that keys start. */
const changeOfKey: Readonly<Record<string, Change>> = { F2: 'rename', Delete: 'remove', 'Alt+Enter': 'properties' }

/** `me`: absent for visitors of a share. */
export function FolderView({ path, me }: { readonly path: string; readonly me?: Me | undefined }) {
  const [, navigate] = useLocation()
  const source = useSource()
  const [contains, setContains] = useState('')
  const [tiles, setTiles] = useState(localStorage.getItem('view') === 'tiles')
  const [dialog, setDialog] = useState<{ readonly change: Change; readonly names: readonly string[] }>()
  const [menuAt, setMenuAt] = useState<Point>()
  useEffect(() => (dialog ? focusFiles : undefined), [dialog])
  const order = sorting.value
  const display = useMemo(() => ({ ...order, contains }), [order, contains])
  const { data: folder, error, refetch } = useFolder(path, display)
  const readme = useReadme(path, display, folder)
  const total = folder?.total ?? 0
  const rights = rightsIn(me, folder)
  const ask = (change: Change) => setDialog({ change, names: [...selection.value] })
  const isLoaded = folder !== undefined
  const actions = folderActions({ path, source, me, display, total, rights, isLoaded, navigate, onChange: ask })
  useClipboardEvents(path, me, actions)

  if (isDenied(error, path)) return <AskFolderPassword path={path} error={error} onEntered={refetch} />
  const failure = error && <Failure error={error} title={texts.files.failed} onRetry={() => void refetch()} />
  if (failure && !folder) return failure
  const onKey = (event: KeyboardEvent) => {
    const pressed = changeOfKey[event.altKey ? `Alt+${event.key}` : event.key]
    if (pressed === undefined || !actions.allows(pressed)) return
    event.preventDefault()
    actions.start(pressed)
  }
  const name = nameIn(source, path, texts.files.home)
  const showTiles = (shown: boolean) => {
    localStorage.setItem('view', shown ? 'tiles' : 'list')
    setTiles(shown)
  }
  const kept = clipboardOf(me)
  const cut = kept?.kind === 'move' && kept.from === path ? kept.names : undefined
  // What the rule of the folder says takes the place of the file.
  const shownReadme = readmes.chosen.value === 'shown' && folder?.readme.trim() === '' ? readme : undefined
  // The notes of a share are the same in all its folders.
  const notesFolder = source.kind === 'share' ? source.top : path
  return (
    <section class="folder" aria-label={name}>
      <Toolbar
        path={path}
        name={name}
        actions={actions}
        contains={contains}
        tiles={tiles}
        onTiles={showTiles}
        onContains={setContains}
        onMenu={setMenuAt}
      />
      {failure}
      {folder && <Notes text={folder.header} path={notesFolder} />}
      <div
        class={shownReadme ? 'entries with-readme' : 'entries'}
        // No higher than its rows, those of the columns and room for the menu of the folder.
        style={shownReadme && !tiles ? { maxHeight: `calc(${total + 2} * var(--row))` } : undefined}
      >
        <FileGrid
          path={path}
          display={display}
          total={total}
          tiles={tiles}
          rights={rights}
          cut={cut}
          onOpen={actions.open}
          onKey={onKey}
          onUp={() => path !== source.top && navigate(addressOf(parentOf(path)))}
          onMenu={setMenuAt}
          onSelectAll={() => actions.start('selectAll')}
        />
        {folder?.total === 0 && (
          <Empty
            Icon={contains === '' ? FolderOpen : SearchX}
            text={contains === '' ? texts.files.empty : texts.files.noMatch}
          >
            {contains === '' && rights.write && <p class="muted">{texts.files.emptyHint}</p>}
          </Empty>
        )}
      </div>
      {folder && <Notes text={folder.readme} path={notesFolder} />}
      {shownReadme && <FolderReadme path={path} file={shownReadme} />}
      <ClipboardBar me={me} actions={actions} />
      <BarBelow actions={actions} onMenu={setMenuAt} />
      {menuAt && (
        <Loaded quiet>
          <ContextMenu
            key={`${menuAt.x} ${menuAt.y}`}
            at={menuAt}
            actions={actions}
            tiles={tiles}
            onTiles={showTiles}
            onClose={() => setMenuAt(undefined)}
          />
        </Loaded>
      )}
      {dialog && (
        <Loaded quiet>
          <ChangeDialog {...dialog} path={path} me={me} onClose={() => setDialog(undefined)} />
        </Loaded>
      )}
      {stoppedTransfer.value && (
        <Loaded quiet>
          <StoppedTransferDialog />
        </Loaded>
      )}
    </section>
  )
}
