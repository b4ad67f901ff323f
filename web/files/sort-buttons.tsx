/** The columns of a folder, as buttons that sort by them. */
import { ArrowDown, ArrowUp } from 'lucide-preact'
import { texts } from '../texts.ts'
import type { Display, SortColumn } from './folder.ts'

const columns: readonly SortColumn[] = ['name', 'size', 'modified']

interface SortButtonsProps {
  readonly display: Display
  readonly onDisplay: (display: Display) => void
}

export function SortButtons({ display, onDisplay }: SortButtonsProps) {
  const { sort_by: current, sort_direction: direction } = display
  const Arrow = direction === 'asc' ? ArrowUp : ArrowDown
  return (
    <div class="columns">
      {columns.map((column) => (
        <button
          key={column}
          type="button"
          class={`column cell-${column === 'modified' ? 'time' : column}`}
          aria-label={texts.files.sortBy(texts.files[column])}
          aria-pressed={column === current}
          onClick={() => {
            const reversed = column === current && direction === 'asc'
            onDisplay({ ...display, sort_by: column, sort_direction: reversed ? 'desc' : 'asc' })
          }}
        >
          {texts.files[column]}
          {column === current && <Arrow aria-hidden size={14} />}
        </button>
      ))}
    </div>
  )
}
