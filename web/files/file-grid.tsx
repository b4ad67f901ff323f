/**
 * The entries of a folder as a grid, as a list or as tiles. One row at a time can have the focus (ARIA Authoring
 * Practices, grid pattern).
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { rowHeight, rows } from '../components/appearance.ts'
import { reporting } from '../components/notices.tsx'
import { useVirtualizer, withItem } from '../components/virtual.ts'
import { textsOf } from '../texts/texts.ts'
import { allNames, namesBetween, useEntries, type Display, type Entry } from '../entries/folder.ts'
import { GridRow, headRows } from './grid-row.tsx'
import { ListHead } from './list-head.tsx'
import type { Rights } from './rights.ts'
import { useRowDrag } from './row-drag.tsx'
import { clearSelection, select, selection, toggle } from './selection.ts'
import { useTouchSelection } from './touch-selection.ts'
import './file-grid.css'

const texts = textsOf('files')

/** The height and the least width of a tile, in pixels. */
const tileHeight = 168
const tileWidth = 150

/** Offset of the menu from the left edge of its row, in pixels. */
const menuOffset = 24

/** The index of the entry that was last used in each folder, until the page is closed. */
const lastUsed = new Map<string, number>()
/** Whether the grid that was shown last had the focus. */
let hadFocus = false

export interface Point {
  readonly x: number
  readonly y: number
}

interface FileGridProps {
  readonly path: string
  readonly display: Display
  readonly total: number
  readonly tiles: boolean
  readonly rights: Rights
  /** The names of the entries that are cut. */
  readonly cut: ReadonlySet<string> | undefined
  readonly onOpen: (entry: Entry) => void
  /** The user presses a key that the grid does not use: F2, Delete and so on. */
  readonly onKey: (event: KeyboardEvent) => void
  readonly onUp: () => void
  /** The user asks for a menu at this place: that of the selected entries, or of the folder if none is selected. */
  readonly onMenu: (at: Point) => void
  readonly onSelectAll: () => void
}

export function FileGrid(props: FileGridProps) {
  const { path, display, total, tiles, cut, onOpen } = props
  const scroller = useRef<HTMLDivElement>(null)
  const space = useRef<HTMLDivElement>(null)
  const width = useWidth(space)
  const listHeight = useMemo(rowHeight, [rows.chosen.value])
  const itemHeight = tiles ? tileHeight : listHeight
  const lanes = tiles ? Math.max(1, Math.floor(width / tileWidth)) : 1
  const [lastActive, setActive] = useState(lastUsed.get(path) ?? 0)
  const active = Math.max(0, Math.min(lastActive, total - 1))
  const [anchor, setAnchor] = useState(active)
  const virtualizer = useVirtualizer({
    count: total,
    lanes,
    overscan: lanes * 8,
    rangeExtractor: withItem(active),
    getScrollElement: () => scroller.current,
    estimateSize: () => itemHeight,
  })
  useEffect(() => virtualizer.measure(), [lanes, itemHeight, virtualizer])
  const items = virtualizer.getVirtualItems()
  const entryAt = useEntries(
    path,
    display,
    items.map(({ index }) => index),
  )
  const drag = useRowDrag(props.rights)
  const isTouch = useTouchSelection(scroller, (at, index) => {
    const entry = index === undefined ? undefined : entryAt(index)
    if (index !== undefined && entry) chooseOne(index, entry)
    else if (index === undefined && selection.value.size === 0) props.onMenu(at)
  })
  const hasFocus = useRef(hadFocus)
  const latestRange = useRef(0)

  useEffect(() => {
    if (total > 0 && active > 0) virtualizer.scrollToIndex(active, { align: 'center' })
  }, [total > 0])
  useEffect(() => void lastUsed.set(path, active), [path, active])
  useEffect(() => () => void (hadFocus = hasFocus.current), [])
  const shown = useRef({ display, tiles })
  useEffect(() => {
    if (shown.current.display === display && shown.current.tiles === tiles) return
    shown.current = { display, tiles }
    setActive(0)
    setAnchor(0)
    scroller.current?.scrollTo({ top: 0 })
  }, [display, tiles])

  // The row of the active entry may be created only after the list has scrolled to it. A row that had the focus may be
  // gone. The focus is never taken from a control outside of the grid.
  useEffect(() => {
    const focused = document.activeElement
    if (focused !== document.body && scroller.current?.contains(focused) !== true) hasFocus.current = false
    if (!hasFocus.current) return
    const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${active}"]`) ?? scroller.current
    if (row && focused !== row) row.focus({ preventScroll: true })
  })

  function moveTo(index: number, extend: boolean): void {
    const next = Math.min(Math.max(index, 0), total - 1)
    setActive(next)
    virtualizer.scrollToIndex(next)
    if (extend) selectRange(anchor, next)
    else setAnchor(next)
  }

  function selectRange(one: number, other: number): void {
    const request = ++latestRange.current
    const names = namesBetween(path, display, Math.min(one, other), Math.max(one, other))
    void reporting(names.then((range) => request === latestRange.current && select(range)))
  }

  function onKeyDown(event: KeyboardEvent): void {
    const entry = entryAt(active)
    const { key, shiftKey } = event
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey
    const step = hasModifier ? undefined : stepsOf()[key]
    if (step !== undefined) moveTo(active + step, shiftKey)
    else if (key === 'Enter' && entry && !event.altKey) onOpen(entry)
    else if (key === ' ' && entry) toggle(entry.name)
    else if (key === 'Escape') clearSelection()
    else if (key === 'Backspace' || (key === 'ArrowUp' && event.altKey)) props.onUp()
    else if (key === 'a' && (event.ctrlKey || event.metaKey)) void reporting(allNames(path, display).then(select))
    else if ((key === 'F10' && shiftKey) || key === 'ContextMenu') openMenu(event.target as HTMLElement)
    else {
      if (entry && selection.value.size === 0 && isOfEntries(event)) select([entry.name])
      props.onKey(event)
      return
    }
    event.preventDefault()
  }

  /** How far each key moves. */
  function stepsOf(): Readonly<Record<string, number>> {
    const height = scroller.current?.clientHeight ?? 0
    const page = Math.max(1, Math.floor(height / itemHeight)) * lanes
    return {
      ArrowDown: lanes,
      ArrowUp: -lanes,
      ...(tiles && { ArrowRight: 1, ArrowLeft: -1 }),
      PageDown: page,
      PageUp: -page,
      Home: -total,
      End: total,
    }
  }

  function openMenu(row: HTMLElement): void {
    const { left, bottom } = row.getBoundingClientRect()
    props.onMenu({ x: left + menuOffset, y: bottom })
  }

  function chooseOne(index: number, entry: Entry): void {
    setActive(index)
    setAnchor(index)
    toggle(entry.name)
  }

  /** `opens`: a click without a modifier opens the entry, unless fingers are selecting; otherwise it selects it. */
  function onRowClick(event: MouseEvent, index: number, entry: Entry, opens: boolean): void {
    const selects = !opens || event.ctrlKey || event.metaKey || (isTouch() && selection.value.size > 0)
    setActive(index)
    if (event.shiftKey) selectRange(anchor, index)
    else if (selects) chooseOne(index, entry)
    else {
      setAnchor(index)
      onOpen(entry)
    }
  }

  function onRowMenu(event: MouseEvent, index: number, entry: Entry): void {
    event.preventDefault()
    event.stopPropagation()
    // A long press has selected it.
    if (isTouch()) return
    setActive(index)
    setAnchor(index)
    if (!selection.value.has(entry.name)) select([entry.name])
    props.onMenu({ x: event.clientX, y: event.clientY })
  }

  function onBackgroundMenu(event: MouseEvent): void {
    event.preventDefault()
    if (isTouch()) return
    clearSelection()
    props.onMenu({ x: event.clientX, y: event.clientY })
  }

  /** Drags the selected entries if the row is one of them, else its entry alone. */
  function onDragStart(event: DragEvent): void {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-index]') : null
    const index = Number(row?.dataset.index)
    const entry = entryAt(index)
    if (!entry) return
    // The row stays in the document until the drag ends.
    setActive(index)
    const names = selection.value.has(entry.name) ? selection.value : new Set([entry.name])
    drag.start(event, { from: path, names })
  }

  const selected = selection.value
  return (
    <div
      class="grid"
      role="grid"
      aria-label={texts.files.grid}
      aria-rowcount={headRows + total}
      aria-multiselectable="true"
    >
      <ListHead total={total} onSelectAll={props.onSelectAll} />
      <div
        ref={scroller}
        class="grid-rows"
        role="rowgroup"
        tabIndex={total === 0 ? 0 : -1}
        onKeyDown={onKeyDown}
        onContextMenu={onBackgroundMenu}
        onPointerDown={drag.prepare}
        onDragStart={onDragStart}
        onFocusIn={() => (hasFocus.current = true)}
        onFocusOut={({ relatedTarget }) => {
          if (relatedTarget instanceof Node && !scroller.current?.contains(relatedTarget)) hasFocus.current = false
        }}
      >
        <div ref={space} role="presentation" class="grid-space" style={{ height: `${virtualizer.getTotalSize()}px` }}>
          {items.map(({ index, start, lane }) => {
            const entry = entryAt(index)
            return (
              <GridRow
                key={index}
                index={index}
                entry={entry}
                folder={path}
                tile={tiles}
                selected={entry !== undefined && selected.has(entry.name)}
                active={index === active}
                cut={entry !== undefined && cut?.has(entry.name) === true}
                position={{ start, lane, lanes }}
                onClick={onRowClick}
                onMenu={onRowMenu}
              />
            )
          })}
        </div>
      </div>
      {drag.image}
    </div>
  )
}

/** Whether the key does something with the selected entries: those without a modifier, Alt+Enter, Ctrl+C and Ctrl+X. */
function isOfEntries({ key, altKey, ctrlKey, metaKey }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey) return key === 'c' || key === 'x'
  return altKey ? key === 'Enter' : key === 'F2' || key === 'Delete'
}

/** Moves the focus to the active entry, unless something has it: the entry that had it may have been deleted. */
export function focusFiles(): void {
  if (document.activeElement === document.body) focusGrid()
}

/** Moves the focus to the active entry. */
export function focusGrid(): void {
  document
    .querySelector<HTMLElement>('[role="grid"] [role="row"][tabindex="0"], [role="grid"] > [tabindex="0"]')
    ?.focus()
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
