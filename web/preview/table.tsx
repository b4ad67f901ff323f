/** A table of any size, of which only the part in view exists in the document. */
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import './table.css'

export interface TableContent {
  /** Cells may be missing. */
  readonly rows: readonly (readonly (string | undefined)[])[]
  /** The names of the columns. */
  readonly columns: readonly string[]
  /** The number of the first row. */
  readonly firstNumber: number
}

interface TableProps {
  readonly label: string
  /** The label of the content of the current cell. */
  readonly cellLabel: string
  readonly content: TableContent
}

interface Cell {
  readonly row: number
  readonly column: number
}

/** In pixels. */
const rowHeight = 28
const characterWidth = 8
const padding = 30
const narrowest = 64
const widest = 360
/** Rows by which the widths of columns are chosen, and rows outside of the view that are kept. */
const sampledRows = 200
const overscan = 6

export function Table({ label, cellLabel, content }: TableProps) {
  const { rows, columns, firstNumber } = content
  const scroller = useRef<HTMLDivElement>(null)
  const [, render] = useReducer((count: number) => count + 1, 0)
  const [current, setCurrent] = useState<Cell>({ row: 0, column: 0 })
  const lefts = useMemo(() => leftsOf(content), [content])
  const numberWidth = padding + characterWidth * String(firstNumber + rows.length).length
  const width = lefts.at(-1) ?? 0
  useEffect(() => {
    const observer = new ResizeObserver(() => render(undefined))
    if (scroller.current) observer.observe(scroller.current)
    return () => observer.disconnect()
  }, [])
  useLayoutEffect(() => {
    setCurrent({ row: 0, column: 0 })
    scroller.current?.scrollTo(0, 0)
  }, [content])

  const { scrollTop = 0, scrollLeft = 0, clientHeight = 600, clientWidth = 1000 } = scroller.current ?? {}
  const firstRow = Math.max(0, Math.floor(scrollTop / rowHeight) - overscan)
  const lastRow = Math.min(rows.length, Math.ceil((scrollTop + clientHeight) / rowHeight) + overscan)
  const firstColumn = Math.max(0, columnAt(lefts, scrollLeft) - 1)
  const lastColumn = Math.min(columns.length, columnAt(lefts, scrollLeft + clientWidth) + 2)
  const shownColumns = range(firstColumn, lastColumn)
  const value = rows[current.row]?.[current.column] ?? ''

  function select(row: number, column: number): void {
    const cell = {
      row: Math.min(Math.max(row, 0), rows.length - 1),
      column: Math.min(Math.max(column, 0), columns.length - 1),
    }
    setCurrent(cell)
    const view = scroller.current
    if (!view) return
    const [top, left] = [cell.row * rowHeight, lefts[cell.column] ?? 0]
    const right = lefts[cell.column + 1] ?? left
    // The first row and the first column of the view are the headers.
    view.scrollTop = Math.min(Math.max(view.scrollTop, top - view.clientHeight + 2 * rowHeight), top)
    view.scrollLeft = Math.min(Math.max(view.scrollLeft, right - view.clientWidth + numberWidth), left)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const { row, column } = current
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / rowHeight) - 2)
    const isWhole = event.ctrlKey || event.metaKey
    const targets: Readonly<Record<string, Cell>> = {
      ArrowUp: { row: row - 1, column },
      ArrowDown: { row: row + 1, column },
      ArrowLeft: { row, column: column - 1 },
      ArrowRight: { row, column: column + 1 },
      PageUp: { row: row - page, column },
      PageDown: { row: row + page, column },
      Home: { row: isWhole ? 0 : row, column: 0 },
      End: { row: isWhole ? rows.length : row, column: columns.length },
    }
    const target = targets[event.key]
    if (!target || event.altKey) return
    event.preventDefault()
    select(target.row, target.column)
  }

  function onCopy(event: ClipboardEvent): void {
    if (getSelection()?.isCollapsed === false) return
    event.clipboardData?.setData('text/plain', value)
    event.preventDefault()
  }

  return (
    <>
      <p class="cell-content" aria-label={cellLabel}>
        <span class="muted">{`${columns[current.column] ?? ''} · ${firstNumber + current.row}`}</span>
        <bdi>{value}</bdi>
      </p>
      <div
        ref={scroller}
        class="cells"
        role="grid"
        aria-label={label}
        aria-readonly
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + 1}
        aria-activedescendant={`cell-${current.row}-${current.column}`}
        tabIndex={0}
        onScroll={() => render(undefined)}
        onKeyDown={onKeyDown}
        onCopy={onCopy}
      >
        <div
          role="presentation"
          style={{ width: `${numberWidth + width}px`, height: `${(rows.length + 1) * rowHeight}px` }}
        >
          <div role="row" aria-rowindex={1} class="cell-names">
            <span role="columnheader" aria-colindex={1} class="cell-number" style={{ width: `${numberWidth}px` }}>
              <span class="for-screen-readers">#</span>
            </span>
            {shownColumns.map((column) => (
              <span
                key={column}
                role="columnheader"
                aria-colindex={column + 2}
                class="cell"
                style={placeOf(lefts, column, numberWidth)}
                title={columns[column]}
              >
                {columns[column]}
              </span>
            ))}
          </div>
          {range(firstRow, lastRow).map((row) => (
            <div
              key={row}
              role="row"
              aria-rowindex={row + 2}
              class={row % 2 === 1 ? 'cell-row odd' : 'cell-row'}
              style={{ top: `${(row + 1) * rowHeight}px` }}
            >
              <span role="rowheader" aria-colindex={1} class="cell-number" style={{ width: `${numberWidth}px` }}>
                {firstNumber + row}
              </span>
              {shownColumns.map((column) => {
                const text = rows[row]?.[column] ?? ''
                const isCurrent = row === current.row && column === current.column
                return (
                  <span
                    key={column}
                    id={`cell-${row}-${column}`}
                    role="gridcell"
                    aria-colindex={column + 2}
                    aria-selected={isCurrent}
                    class={isNumber(text) ? 'cell number' : 'cell'}
                    style={placeOf(lefts, column, numberWidth)}
                    onClick={() => setCurrent({ row, column })}
                  >
                    {shortened(text)}
                  </span>
                )
              })}
            </div>
          ))}
        </div>
      </div>
    </>
  )
}

/** Where each column begins, in pixels from the first, and where the last one ends. */
function leftsOf({ rows, columns }: TableContent): readonly number[] {
  let left = 0
  const lefts = columns.map((name, column) => {
    const texts = [name, ...rows.slice(0, sampledRows).map((row) => row[column] ?? '')]
    const wanted = padding + characterWidth * Math.max(...texts.map(lengthOf))
    const start = left
    left += Math.min(Math.max(wanted, narrowest), widest)
    return start
  })
  return [...lefts, left]
}

/** Characters of Chinese, Japanese and Korean are as wide as two. */
function lengthOf(text: string): number {
  const start = text.slice(0, widest / characterWidth)
  return start.length + (start.match(/[\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\uff00-\uff60]/g)?.length ?? 0)
}

/** The column at this place, by halving. */
function columnAt(lefts: readonly number[], left: number): number {
  let [low, high] = [0, Math.max(0, lefts.length - 2)]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((lefts[middle] ?? 0) <= left) low = middle
    else high = middle - 1
  }
  return low
}

function placeOf(lefts: readonly number[], column: number, offset: number) {
  const [left = 0, right = left] = [lefts[column], lefts[column + 1]]
  return { left: `${offset + left}px`, width: `${right - left}px` }
}

function range(start: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - start) }, (_, index) => start + index)
}

function isNumber(text: string): boolean {
  return text.length < 40 && /^[-+(]?\p{Sc}?\s?[-+]?\d[\d.,\s\u00a0\u202f']*(?:e[-+]?\d+)?\s?[%\p{Sc})]?$/iu.test(text)
}

/** What fits into a cell, in one line. */
function shortened(text: string): string {
  return text.slice(0, 200).replaceAll(/\s+/g, ' ')
}
