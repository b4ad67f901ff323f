/** The head of a folder's list: a box that selects all entries, and the columns as buttons that sort by them. */
import { ArrowDown, ArrowUp } from 'lucide-preact'
import { textsOf } from '../texts/texts.ts'
import { sorting, type SortColumn } from '../entries/folder.ts'
import { clearSelection, selection } from './selection.ts'
import './list-head.css'

const texts = textsOf('files')

/** The classes of the columns. */
const cells = { name: 'cell-name', size: 'cell-size', modified: 'cell-time' } as const
const columns = Object.keys(cells) as readonly SortColumn[]

interface ListHeadProps {
  /** Number of entries in the folder. */
  readonly total: number
  readonly onSelectAll: () => void
}

export function ListHead({ total, onSelectAll }: ListHeadProps) {
  const { sort_by: current, sort_direction: direction } = sorting.value
  const Arrow = direction === 'asc' ? ArrowUp : ArrowDown
  const count = selection.value.size
  return (
    <div class="columns">
      <input
        type="checkbox"
        aria-label={texts.files.selectAll}
        checked={count > 0 && count === total}
        indeterminate={count > 0 && count < total}
        disabled={total === 0}
        onClick={(event) => {
          event.preventDefault()
          if (count === total) clearSelection()
          else onSelectAll()
        }}
      />
      {columns.map((column) => (
        <button
          key={column}
          type="button"
          class={`column ${cells[column]}`}
          aria-label={texts.files.sortBy(texts.files[column])}
          aria-pressed={column === current}
          onClick={() => {
            const isReversed = column === current && direction === 'asc'
            sorting.value = { sort_by: column, sort_direction: isReversed ? 'desc' : 'asc' }
          }}
        >
          {texts.files[column]}
          {column === current && <Arrow aria-hidden size={14} />}
        </button>
      ))}
    </div>
  )
}
