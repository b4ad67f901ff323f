/** A long list that scrolls by itself, of which only the part in view exists in the document. */
import type { ComponentChildren } from 'preact'
import { useRef } from 'preact/hooks'
import { useVirtualizer } from './virtual.ts'

/** Height of an item in pixels. */
const itemHeight = 28

interface VirtualListProps {
  readonly label: string
  readonly count: number
  readonly item: (index: number) => ComponentChildren
}

export function VirtualList({ label, count, item }: VirtualListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count,
    overscan: 8,
    getScrollElement: () => scroller.current,
    estimateSize: () => itemHeight,
  })
  return (
    <div ref={scroller} class="virtual-list" role="list" aria-label={label} tabIndex={0}>
      <div role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => (
          <div
            key={index}
            role="listitem"
            aria-setsize={count}
            aria-posinset={index + 1}
            class="virtual-item"
            style={{ transform: `translateY(${start}px)` }}
          >
            {item(index)}
          </div>
        ))}
      </div>
    </div>
  )
}
