/** The files that are played one after the other. Only the part in view exists in the document. */
import { Play } from 'lucide-preact'
import { useEffect, useRef } from 'preact/hooks'
import { useVirtualizer } from '../../components/virtual.ts'
import { textsOf } from '../../texts/texts.ts'
import { shownName } from '../siblings.ts'
import './queue-list.css'

const texts = textsOf('media')

interface QueueListProps {
  readonly paths: readonly string[]
  readonly at: number
  readonly folder: string
  readonly onChoose: (index: number) => void
}

/** Pixels: a finger can tap it. */
const itemHeight = 44

export function QueueList({ paths, at, folder, onChoose }: QueueListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtualizer = useVirtualizer({
    count: paths.length,
    overscan: 8,
    getScrollElement: () => scroller.current,
    estimateSize: () => itemHeight,
  })
  useEffect(() => {
    if (at >= 0) virtualizer.scrollToIndex(at, { align: 'auto' })
  }, [virtualizer, at])
  return (
    <div ref={scroller} class="queue" role="list" aria-label={texts.media.list}>
      <div role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const path = paths[index] ?? ''
          return (
            <div
              key={index}
              role="listitem"
              aria-setsize={paths.length}
              aria-posinset={index + 1}
              class="queue-item"
              style={{ transform: `translateY(${start}px)`, height: `${itemHeight}px` }}
            >
              <button
                type="button"
                class="quiet"
                aria-current={index === at ? 'true' : undefined}
                onClick={() => onChoose(index)}
              >
                <span class="queue-sign">{index === at && <Play aria-hidden size={14} />}</span>
                <span class="name">{shownName(path, folder)}</span>
              </button>
            </div>
          )
        })}
      </div>
    </div>
  )
}
