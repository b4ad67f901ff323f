/** The actions of a folder and of the selected entries. */
import { Copy, FolderInput, FolderPlus, LayoutGrid, List, Pencil, RefreshCw, Trash2 } from 'lucide-preact'
import { useEffect, useState } from 'preact/hooks'
import { reporting } from '../parts/notices.tsx'
import { texts } from '../texts.ts'
import { UploadButtons } from '../uploads/upload-buttons.tsx'
import type { Change } from './changes.tsx'
import type { Display } from './folder.ts'
import { selection } from './selection.ts'

/** Milliseconds without a key press after which the filter is applied. */
const filterDelay = 200

interface ToolbarProps {
  readonly path: string
  readonly display: Display
  readonly mayWrite: boolean
  readonly tiles: boolean
  readonly onTiles: (tiles: boolean) => void
  readonly onDisplay: (display: Display) => void
  readonly onRefresh: () => Promise<void>
  readonly onChange: (change: Change) => void
}

export function Toolbar(props: ToolbarProps) {
  const { path, display, mayWrite, tiles, onChange } = props
  const count = selection.value.size
  return (
    <div class="toolbar">
      {mayWrite && (
        <>
          <UploadButtons path={path} />
          <button type="button" onClick={() => onChange({ action: 'newFolder' })}>
            <FolderPlus aria-hidden size={16} /> {texts.files.newFolder}
          </button>
        </>
      )}
      {count > 0 && mayWrite && (
        <>
          <button type="button" onClick={() => onChange({ action: 'rename' })}>
            <Pencil aria-hidden size={16} /> {texts.files.rename}
          </button>
          <button type="button" onClick={() => onChange({ action: 'move' })}>
            <FolderInput aria-hidden size={16} /> {texts.files.move}
          </button>
        </>
      )}
      {count > 0 && (
        <button type="button" onClick={() => onChange({ action: 'copy' })}>
          <Copy aria-hidden size={16} /> {texts.files.copy}
        </button>
      )}
      {count > 0 && mayWrite && (
        <button type="button" onClick={() => onChange({ action: 'remove' })}>
          <Trash2 aria-hidden size={16} /> {texts.files.remove}
        </button>
      )}
      {count > 0 && <span class="count">{texts.files.selected(count)}</span>}
      <span class="space" />
      <Filter text={display.contains} onText={(contains) => props.onDisplay({ ...display, contains })} />
      <button
        type="button"
        class="icon"
        aria-label={texts.files.refresh}
        onClick={() => void reporting(props.onRefresh())}
      >
        <RefreshCw aria-hidden size={16} />
      </button>
      <button
        type="button"
        class="icon"
        aria-label={tiles ? texts.files.viewAsList : texts.files.viewAsGrid}
        onClick={() => props.onTiles(!tiles)}
      >
        {tiles ? <List aria-hidden size={16} /> : <LayoutGrid aria-hidden size={16} />}
      </button>
    </div>
  )
}

function Filter({ text, onText }: { readonly text: string; readonly onText: (text: string) => void }) {
  const [shown, setShown] = useState(text)
  useEffect(() => setShown(text), [text])
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
