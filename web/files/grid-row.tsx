/** One entry of the grid: a row of a list, or a tile. */
import { joined } from '../components/places.ts'
import { formatSize, formatTime } from '../texts/format.ts'
import { textsOf } from '../texts/texts.ts'
import { EntryIcon } from '../entries/entry-icon.tsx'
import type { Entry } from '../entries/folder.ts'
import { Thumbnail } from '../entries/thumbnail.tsx'
import './grid-row.css'

const texts = textsOf('common', 'files')

/** The rows above that of the first entry: the titles of the columns. */
export const headRows = 1

interface GridRowProps {
  readonly index: number
  /** Absent until its page is loaded. */
  readonly entry: Entry | undefined
  readonly folder: string
  readonly tile: boolean
  readonly selected: boolean
  readonly active: boolean
  /** Whether it is cut: it is gone from here as soon as it is pasted elsewhere. */
  readonly cut: boolean
  /** `start`: pixels from the top of the grid. `lane`: the place of a tile among those beside it. */
  readonly position: { readonly start: number; readonly lane: number; readonly lanes: number }
  /** `opens`: whether a click at this part opens the entry. */
  readonly onClick: (event: MouseEvent, index: number, entry: Entry, opens: boolean) => void
  readonly onMenu: (event: MouseEvent, index: number, entry: Entry) => void
}

export function GridRow(props: GridRowProps) {
  const { index, entry, folder, tile, selected, active, cut, position, onClick, onMenu } = props
  const { start, lane, lanes } = position
  return (
    <div
      role="row"
      data-index={index}
      data-folder={entry?.is_dir === true ? joined(folder, entry.name) : undefined}
      data-cut={cut || undefined}
      class={tile ? 'tile' : 'row'}
      aria-rowindex={headRows + index + 1}
      aria-selected={selected}
      aria-label={entry ? labelOf(entry, cut) : texts.loading}
      tabIndex={active ? 0 : -1}
      style={{
        transform: `translateY(${start}px)`,
        ...(tile && { left: `${(lane * 100) / lanes}%`, width: `${100 / lanes}%` }),
      }}
      onClick={(event) => entry && onClick(event, index, entry, true)}
      onContextMenu={(event) => entry && onMenu(event, index, entry)}
    >
      {entry && (
        <>
          {/* All of the cell, which is large enough for a finger. */}
          <span
            role="gridcell"
            class="cell-check"
            onClick={(event) => {
              event.stopPropagation()
              onClick(event, index, entry, false)
            }}
          >
            <input type="checkbox" tabIndex={-1} checked={selected} aria-label={texts.files.select(entry.name)} />
          </span>
          {tile ? <TileCells entry={entry} folder={folder} /> : <RowCells entry={entry} />}
        </>
      )}
    </div>
  )
}

function labelOf({ name, is_dir: isFolder, size, modified, unreadable }: Entry, isCut: boolean): string {
  const facts = [isFolder ? texts.files.folder : formatSize(size), formatTime(modified)]
  return texts.facts([name, ...facts, unreadable === true && texts.files.unreadable, isCut && texts.files.isCut])
}

function RowCells({ entry }: { readonly entry: Entry }) {
  return (
    <>
      <span role="gridcell" class="cell-name">
        <EntryIcon entry={entry} />
        <span class="name">{entry.name}</span>
        {entry.unreadable === true && <span class="muted problem">{texts.files.unreadable}</span>}
      </span>
      <span role="gridcell" class="cell-size">
        {entry.is_dir ? '' : formatSize(entry.size)}
      </span>
      <span role="gridcell" class="cell-time">
        {formatTime(entry.modified)}
      </span>
    </>
  )
}

function TileCells({ entry, folder }: { readonly entry: Entry; readonly folder: string }) {
  return (
    <span role="gridcell" class="tile-content">
      <Thumbnail entry={entry} folder={folder} />
      <span class="name">{entry.name}</span>
    </span>
  )
}
