/**
 * The entries of a folder as a grid (ARIA Authoring Practices, grid pattern with one focusable row at a time), as a
 * list or as tiles.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatSize, formatTime } from '../parts/format.ts'
import { useVirtualizer } from '../parts/virtual.ts'
import { texts } from '../texts.ts'
import { EntryIcon, Thumbnail } from './entry-icon.tsx'
import { allNames, pageLength, usePages, type Display, type Entry } from './folder.ts'
import { clearSelection, select, selection, toggle } from './selection.ts'

/** Heights of a row and of a tile, and the least width of a tile, in pixels. */
const rowHeight = 40
const tileHeight = 168
const tileWidth = 150

interface FileGridProps {
  readonly path: string
  readonly display: Display
  readonly total: number
  readonly tiles: boolean
  readonly onOpen: (entry: Entry) => void
  /** The user presses a key that the grid does not use: F2, Delete and so on. */
  readonly onKey: (event: KeyboardEvent) => void
  readonly onUp: () => void
  /** The user asks for the menu of the selected entries at this place. */
  readonly onMenu: (at: { readonly x: number; readonly y: number }) => void
}

export function FileGrid(props: FileGridProps) {
  const { path, display, total, tiles, onOpen } = props
  const scroller = useRef<HTMLDivElement>(null)
  const width = useWidth(scroller)
  const lanes = tiles ? Math.max(1, Math.floor(width / tileWidth)) : 1
  const virtualizer = useVirtualizer({
    count: total,
    lanes,
    overscan: lanes * 8,
    getScrollElement: () => scroller.current,
    estimateSize: () => (tiles ? tileHeight : rowHeight),
  })
  useEffect(() => virtualizer.measure(), [lanes, tiles, virtualizer])
  const items = virtualizer.getVirtualItems()
  const pages = useMemo(
    () => [...new Set(items.map(({ index }) => Math.floor(index / pageLength)))],
    [items[0]?.index, items.at(-1)?.index],
  )
  const entryAt = usePages(path, display, pages)
  const [active, setActive] = useState(0)
  const [anchor, setAnchor] = useState(0)
  const hasFocus = useRef(false)

  useEffect(() => {
    setActive(0)
    setAnchor(0)
    scroller.current?.scrollTo({ top: 0 })
  }, [path, display, tiles])

  // The row of the active entry may be created only after the list has scrolled to it.
  useEffect(() => {
    if (!hasFocus.current) return
    const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${active}"]`)
    if (row && document.activeElement !== row) row.focus({ preventScroll: true })
  })

  function moveTo(index: number, extend: boolean): void {
    const next = Math.min(Math.max(index, 0), total - 1)
    setActive(next)
    virtualizer.scrollToIndex(next)
    if (extend) selectRange(anchor, next)
    else setAnchor(next)
  }

  function selectRange(from: number, to: number): void {
    const names: string[] = []
    for (let index = Math.min(from, to); index <= Math.max(from, to); index++) {
      const entry = entryAt(index)
      if (entry) names.push(entry.name)
    }
    select(names)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const entry = entryAt(active)
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / (tiles ? tileHeight : rowHeight))) * lanes
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: lanes,
      ArrowUp: -lanes,
      ...(tiles && { ArrowRight: 1, ArrowLeft: -1 }),
      PageDown: page,
      PageUp: -page,
      Home: -total,
      End: total,
    }
    const step = steps[event.key]
    if (step !== undefined) moveTo(active + step, event.shiftKey)
    else if (event.key === 'Enter' && entry) onOpen(entry)
    else if (event.key === ' ' && entry) toggle(entry.name)
    else if (event.key === 'Escape') clearSelection()
    else if (event.key === 'Backspace') props.onUp()
    else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) void allNames(path, display).then(select)
    else if ((event.key === 'F10' && event.shiftKey) || event.key === 'ContextMenu') openMenu(entry, event)
    else {
      if (entry && selection.value.size === 0 && (event.key === 'F2' || event.key === 'Delete')) select([entry.name])
      props.onKey(event)
      return
    }
    event.preventDefault()
  }

  function openMenu(entry: Entry | undefined, event: Event): void {
    if (entry && !selection.value.has(entry.name)) select([entry.name])
    const box = (event.target as HTMLElement).getBoundingClientRect()
    props.onMenu({ x: box.left + 24, y: box.bottom })
  }

  function onRowClick(event: MouseEvent, index: number, entry: Entry): void {
    setActive(index)
    if (event.shiftKey) selectRange(anchor, index)
    else {
      setAnchor(index)
      if (event.ctrlKey || event.metaKey) toggle(entry.name)
      else onOpen(entry)
    }
  }

  return (
    <div
      ref={scroller}
      class={tiles ? 'grid tiles' : 'grid'}
      role="grid"
      aria-label={texts.files.grid}
      aria-rowcount={total}
      aria-multiselectable="true"
      tabIndex={total === 0 ? 0 : -1}
      onKeyDown={onKeyDown}
      onFocusIn={() => (hasFocus.current = true)}
      onFocusOut={(event) => {
        const { relatedTarget } = event
        if (relatedTarget instanceof Node && !scroller.current?.contains(relatedTarget)) hasFocus.current = false
      }}
    >
      <div role="presentation" class="grid-space" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {items.map(({ index, start, lane }) => {
          const entry = entryAt(index)
          const selected = entry !== undefined && selection.value.has(entry.name)
          return (
            <div
              key={index}
              role="row"
              data-index={index}
              class={tiles ? 'tile' : 'row'}
              aria-rowindex={index + 1}
              aria-selected={selected}
              aria-label={entry ? labelOf(entry) : texts.loading}
              tabIndex={index === active ? 0 : -1}
              style={{
                transform: `translateY(${start}px)`,
                ...(tiles && { left: `${(lane * 100) / lanes}%`, width: `${100 / lanes}%` }),
              }}
              onClick={(event) => entry && onRowClick(event, index, entry)}
              onContextMenu={(event) => {
                if (!entry) return
                event.preventDefault()
                setActive(index)
                if (!selection.value.has(entry.name)) select([entry.name])
                props.onMenu({ x: event.clientX, y: event.clientY })
              }}
            >
              {entry && (tiles ? <Tile entry={entry} path={path} /> : <Row entry={entry} selected={selected} />)}
            </div>
          )
        })}
      </div>
    </div>
  )
}

function labelOf({ name, is_dir: isFolder, size, modified }: Entry): string {
  return [name, isFolder ? texts.files.folder : formatSize(size), formatTime(modified)].filter(Boolean).join(', ')
}

function Row({ entry, selected }: { readonly entry: Entry; readonly selected: boolean }) {
  return (
    <>
      <span role="gridcell" class="cell-check">
        <input
          type="checkbox"
          tabIndex={-1}
          checked={selected}
          aria-label={entry.name}
          onClick={(event) => {
            event.stopPropagation()
            toggle(entry.name)
          }}
        />
      </span>
      <span role="gridcell" class="cell-name">
        <EntryIcon entry={entry} />
        <span class="name">{entry.name}</span>
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

function Tile({ entry, path }: { readonly entry: Entry; readonly path: string }) {
  return (
    <span role="gridcell" class="tile-content">
      <Thumbnail entry={entry} path={path} />
      <span class="name">{entry.name}</span>
    </span>
  )
}

/** The width of an element in pixels. */
function useWidth(element: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    if (!element.current) return
    const observer = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0))
    observer.observe(element.current)
    return () => observer.disconnect()
  }, [element])
  return width
}
