/** A long list that scrolls by itself, of which only the part in view exists in the document. */
import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import { useVirtualizer } from './virtual.ts'
import './virtual-list.css'

interface VirtualListProps {
  readonly label: string
  readonly count: number
  /** Height of an item in pixels. */
  readonly itemHeight?: number
  /** Identifies an item that may move. The index by default. */
  readonly keyOf?: (index: number) => number
  readonly item: (index: number) => ComponentChildren
}

/** The width of both borders in pixels. */
const borders = 2

export function VirtualList({ label, count, itemHeight = 28, keyOf, item }: VirtualListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count,
    overscan: 8,
    getScrollElement: () => scroller.current,
    estimateSize: () => itemHeight,
  })
  return (
    <div
      ref={scroller}
      class="virtual-list"
      role="list"
      aria-label={label}
      tabIndex={0}
      style={{ height: `${count * itemHeight + borders}px` }}
    >
      <div role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => (
          <div
            key={keyOf ? keyOf(index) : index}
            role="listitem"
            aria-setsize={count}
            aria-posinset={index + 1}
            class="virtual-item"
            style={{ transform: `translateY(${start}px)`, height: `${itemHeight}px` }}
          >
            {item(index)}
          </div>
        ))}
      </div>
    </div>
  )
}
