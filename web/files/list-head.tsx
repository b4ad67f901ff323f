/** The first row of a folder's grid: a box that selects all entries, and the columns as buttons that sort by them. */
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
    <div role="rowgroup" class="list-head">
      <div role="row" class="columns" aria-rowindex={1}>
        <span role="columnheader" class="cell-check">
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
        </span>
        {columns.map((column) => (
          <span
            key={column}
            role="columnheader"
            class={cells[column]}
            aria-sort={column !== current ? 'none' : direction === 'asc' ? 'ascending' : 'descending'}
          >
            <button
              type="button"
              class="column"
              aria-label={texts.files.sortBy(texts.files[column])}
              onClick={() => {
                const isReversed = column === current && direction === 'asc'
                sorting.value = { sort_by: column, sort_direction: isReversed ? 'desc' : 'asc' }
              }}
            >
              {texts.files[column]}
              {column === current && <Arrow aria-hidden size={14} />}
            </button>
          </span>
        ))}
      </div>
    </div>
  )
}
