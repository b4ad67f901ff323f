/** The actions of a folder, or those of the selected entries as soon as there are any. */
import {
  Copy,
  Download,
  FolderDown,
  FolderInput,
  FolderPlus,
  Globe,
  LayoutGrid,
  Link as LinkIcon,
  List,
  Pencil,
  RefreshCw,
  Share2,
  Trash2,
  X,
  type LucideIcon,
} from 'lucide-preact'
import { useEffect, useState } from 'preact/hooks'
import { reporting } from '../components/notices.tsx'
import { textsOf } from '../texts/texts.ts'
import { UploadButtons } from '../uploads/upload-buttons.tsx'
import type { Action, Actions } from './actions.ts'
import { focusGrid } from './file-grid.tsx'
import { clearSelection, selection } from './selection.ts'
import './toolbar.css'

const texts = textsOf('files')

/** Milliseconds without a key press after which the filter is applied. */
const filterDelay = 200

interface ToolbarProps {
  readonly path: string
  /** The name of the folder. */
  readonly name: string
  readonly mayUpload: boolean
  readonly actions: Actions
  readonly contains: string
  readonly tiles: boolean
  readonly onTiles: (tiles: boolean) => void
  readonly onContains: (text: string) => void
  readonly onRefresh: () => Promise<void>
}

export function Toolbar(props: ToolbarProps) {
  const { path, name, mayUpload, actions, contains, tiles, onTiles, onContains, onRefresh } = props
  // A visitor of a share cannot get the right to upload.
  const showsUpload = mayUpload || !actions.offers('downloadAll')
  const count = selection.value.size
  return (
    <div class={count > 0 ? 'toolbar selecting' : 'toolbar'}>
      {/* Not removed while it is hidden: files can be dropped all the time. */}
      <span class="tools" hidden={count > 0}>
        {showsUpload && (
          <>
            <UploadButtons path={path} name={name} disabled={!mayUpload} />
            <ActionButton actions={actions} action="newFolder" Icon={FolderPlus} />
            <ActionButton actions={actions} action="fromUrls" Icon={Globe} />
            {/* All of the folder. */}
            <ActionButton actions={actions} action="share" Icon={Share2} />
          </>
        )}
        <ActionButton actions={actions} action="downloadAll" Icon={FolderDown} />
      </span>
      {count > 0 && <SelectionTools actions={actions} count={count} />}
      <span class="space" />
      <Filter text={contains} onText={onContains} />
      <button
        type="button"
        class="quiet icon"
        aria-label={texts.files.refresh}
        onClick={() => void reporting(onRefresh())}
      >
        <RefreshCw aria-hidden size={16} />
      </button>
      <button
        type="button"
        class="quiet icon"
        aria-label={tiles ? texts.files.viewAsList : texts.files.viewAsGrid}
        onClick={() => onTiles(!tiles)}
      >
        {tiles ? <List aria-hidden size={16} /> : <LayoutGrid aria-hidden size={16} />}
      </button>
    </div>
  )
}

function SelectionTools({ actions, count }: { readonly actions: Actions; readonly count: number }) {
  return (
    <>
      <button
        type="button"
        class="quiet"
        title={texts.files.clearSelection}
        onClick={() => {
          clearSelection()
          focusGrid()
        }}
      >
        <X aria-hidden size={16} />
        {texts.files.selected(count)}
      </button>
      <ActionButton actions={actions} action="download" Icon={Download} />
      <ActionButton actions={actions} action="share" Icon={Share2} />
      <ActionButton actions={actions} action="link" Icon={LinkIcon} />
      <ActionButton actions={actions} action="rename" Icon={Pencil} />
      <ActionButton actions={actions} action="move" Icon={FolderInput} />
      <ActionButton actions={actions} action="copy" Icon={Copy} />
      <ActionButton actions={actions} action="remove" Icon={Trash2} />
    </>
  )
}

interface ActionButtonProps {
  readonly actions: Actions
  readonly action: Action
  readonly Icon: LucideIcon
}

function ActionButton({ actions, action, Icon }: ActionButtonProps) {
  if (!actions.offers(action)) return null
  return (
    <button type="button" disabled={!actions.allows(action)} onClick={() => actions.start(action)}>
      <Icon aria-hidden size={16} />
      <span class="text">{texts.files[action]}</span>
    </button>
  )
}

function Filter({ text, onText }: { readonly text: string; readonly onText: (text: string) => void }) {
  const [shown, setShown] = useState(text)
  useEffect(() => {
    if (shown === text) return
    const timer = setTimeout(() => onText(shown), filterDelay)
    return () => clearTimeout(timer)
  }, [shown])
  return (
    <input
      type="text"
      class="filter"
      aria-label={texts.files.filter}
      placeholder={texts.files.filter}
      value={shown}
      onInput={(event) => setShown(event.currentTarget.value)}
    />
  )
}
