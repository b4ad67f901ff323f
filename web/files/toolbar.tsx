/** The actions of a folder, or those of the selected entries as soon as there are any. */
import { FolderDown, FolderPlus, Globe, LayoutGrid, List, RefreshCw, Share2 } from 'lucide-preact'
import { useEffect, useState } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'
import { UploadButtons } from '../uploads/upload-buttons.tsx'
import { ActionButton } from './action-button.tsx'
import type { Actions } from './actions.ts'
import type { Point } from './file-grid.tsx'
import { MoreButton, SelectionCount, SelectionTools, useBarBelow } from './selection-bar.tsx'
import { selection } from './selection.ts'
import './toolbar.css'

const texts = textsOf('files')

/** Milliseconds without a key press after which the filter is applied. */
const filterDelay = 200

interface ToolbarProps {
  readonly path: string
  /** The name of the folder. */
  readonly name: string
  readonly actions: Actions
  readonly contains: string
  readonly tiles: boolean
  readonly onTiles: (tiles: boolean) => void
  readonly onContains: (text: string) => void
  /** Opens the menu of the selected entries, or of the folder if there are none. */
  readonly onMenu: (at: Point) => void
}

export function Toolbar(props: ToolbarProps) {
  const { path, name, actions, contains, tiles, onTiles, onContains, onMenu } = props
  const isBelow = useBarBelow()
  const count = selection.value.size
  return (
    <div class={count > 0 ? 'toolbar selecting' : 'toolbar'}>
      {/* Not removed while it is hidden: files can be dropped all the time. */}
      <span class="tools" hidden={count > 0}>
        {actions.grants('upload') && <UploadButtons path={path} name={name} disabled={!actions.allows('upload')} />}
        <ActionButton actions={actions} action="newFolder" Icon={FolderPlus} />
        <ActionButton actions={actions} action="fromUrls" Icon={Globe} />
        {/* All of the folder. */}
        <ActionButton actions={actions} action="share" Icon={Share2} />
        <ActionButton actions={actions} action="downloadAll" Icon={FolderDown} />
      </span>
      {count > 0 && <SelectionCount />}
      {count > 0 && !isBelow && <SelectionTools actions={actions} onMenu={onMenu} />}
      <span class="space" />
      <Filter text={contains} onText={onContains} />
      <button
        type="button"
        class="quiet icon"
        aria-label={texts.files.refresh}
        onClick={() => actions.start('refresh')}
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
      {isBelow && count === 0 && <MoreButton onMenu={onMenu} />}
    </div>
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
