/**
 * Dragging entries onto folders. Whatever has the path of a folder as `data-folder` takes them: rows, the breadcrumb,
 * and other parts of the page.
 */
import { useRef } from 'preact/hooks'
import { mayWriteIn } from '../entries/folder.ts'
import { textsOf } from '../texts/texts.ts'
import type { Rights } from './rights.ts'
import { isPossible, startTransfer, type Chosen, type TransferKind } from './transfer.ts'
import './row-drag.css'

const texts = textsOf('files')

/** The type of what is dragged: no other page takes it. */
const type = 'application/x-entries'

/** The drag whose listeners are active. */
let current = new AbortController()

/** Pixels between the pointer and what it drags. */
const distance = 12

export interface RowDrag {
  /** Makes the row at the pointer one that can be dragged, or not: a finger scrolls, and selects. */
  readonly prepare: (event: PointerEvent) => void
  readonly start: (event: DragEvent, chosen: Chosen) => void
  /** What the pointer carries. It is out of sight until then. */
  readonly image: preact.VNode
}

export function useRowDrag(rights: Pick<Rights, 'move' | 'copy'>): RowDrag {
  const image = useRef<HTMLDivElement>(null)
  return {
    prepare({ target, pointerType }) {
      const row = target instanceof Element ? target.closest<HTMLElement>('[data-index]') : null
      if (row === null) return
      row.draggable = pointerType === 'mouse' && (rights.move || rights.copy)
      // Not the picture alone.
      for (const picture of row.querySelectorAll('img')) picture.draggable = false
    },
    start(event, chosen) {
      const { dataTransfer } = event
      if (dataTransfer === null || image.current === null) return
      const [name = ''] = chosen.names
      image.current.textContent = chosen.names.size === 1 ? name : texts.files.entries(chosen.names.size)
      dataTransfer.setData(type, '')
      dataTransfer.setDragImage(image.current, -distance, -distance)
      dataTransfer.effectAllowed = !rights.copy ? 'move' : rights.move ? 'copyMove' : 'copy'
      followDrag(chosen, rights)
    },
    image: <div ref={image} class="drag-image" aria-hidden />,
  }
}

/** Marks the folders that are dragged over, until the drag ends, and transfers the entries if it ends on one. */
function followDrag(chosen: Chosen, rights: Pick<Rights, 'move' | 'copy'>): void {
  // The `dragend` of a row that has left the page meanwhile does not reach the document.
  current.abort()
  const dragging = (current = new AbortController())
  const { signal } = dragging
  let marked: HTMLElement | undefined
  const mark = (target?: HTMLElement, state?: 'taken' | 'refused') => {
    if (marked !== target) delete marked?.dataset.drop
    if (target && state) target.dataset.drop = state
    marked = target
  }
  /** Whether the user may write in the folders that were dragged over, as soon as the server has told. */
  const writable = new Map<string, boolean>()
  const takes = (to: string): boolean => {
    if (!isPossible(chosen, to)) return false
    if (!writable.has(to)) {
      writable.set(to, true)
      void mayWriteIn(to).then(
        (may) => writable.set(to, may),
        () => writable.set(to, false),
      )
    }
    return writable.get(to) === true
  }
  const follow = (event: DragEvent): { readonly to: string; readonly kind: TransferKind } | undefined => {
    if (event.dataTransfer?.types.includes(type) !== true) return undefined
    const target = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-folder]') : null
    const to = target?.dataset.folder
    const kind = kindOf(event, rights)
    if (target === null || to === undefined) {
      mark()
      return undefined
    }
    event.preventDefault()
    const isTaken = kind !== undefined && takes(to)
    event.dataTransfer.dropEffect = isTaken ? kind : 'none'
    mark(target, isTaken ? 'taken' : 'refused')
    return isTaken ? { to, kind } : undefined
  }
  document.addEventListener('dragover', follow, { signal })
  document.addEventListener(
    'drop',
    (event) => {
      const target = follow(event)
      if (target) void startTransfer({ ...target, from: chosen.from, names: [...chosen.names] })
    },
    { signal },
  )
  document.addEventListener(
    'dragend',
    () => {
      mark()
      dragging.abort()
    },
    { signal },
  )
}

/** What a drop would do: it copies with Ctrl or Option. Undefined: the user may not do that. */
function kindOf({ ctrlKey, altKey }: DragEvent, rights: Pick<Rights, 'move' | 'copy'>): TransferKind | undefined {
  if (rights.copy && (ctrlKey || altKey || !rights.move)) return 'copy'
  return rights.move && !ctrlKey && !altKey ? 'move' : undefined
}
