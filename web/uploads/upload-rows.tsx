/** The uploads, one row for each. Only those in view are in the document. */
import { Pause, Play, RotateCw, X } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { formatDuration, formatSize, formatSpeed } from '../parts/format.ts'
import { useVirtualizer } from '../parts/virtual.ts'
import { texts } from '../texts.ts'
import { holdOrder, shownUploads } from './upload-list.ts'
import { cancel, pause, resume, retry } from './upload-queue.ts'
import type { Upload, UploadState } from './upload.ts'

/** In pixels. */
const rowHeight = 52

export function UploadRows() {
  const scroller = useRef<HTMLDivElement>(null)
  const uploads = shownUploads.value
  useEffect(() => () => holdOrder(false), [])
  const virtualizer = useVirtualizer({
    count: uploads.length,
    overscan: 4,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
  })
  return (
    <div
      ref={scroller}
      class="uploads-list"
      role="list"
      aria-label={texts.uploads.region}
      tabIndex={0}
      style={{ height: `${uploads.length * rowHeight}px` }}
      onPointerEnter={() => holdOrder(true)}
      onPointerLeave={() => holdOrder(scroller.current?.contains(document.activeElement) === true)}
      onFocusIn={() => holdOrder(true)}
      onFocusOut={() => holdOrder(scroller.current?.matches(':hover') === true)}
    >
      <div role="presentation" class="uploads-space" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const upload = uploads[index]
          if (!upload) return null
          return (
            <div
              key={upload.id}
              role="listitem"
              aria-setsize={uploads.length}
              aria-posinset={index + 1}
              class="upload"
              style={{ transform: `translateY(${start}px)` }}
            >
              <Row upload={upload} />
            </div>
          )
        })}
      </div>
    </div>
  )
}

function Row({ upload }: { readonly upload: Upload }) {
  const state = upload.state.value
  const { sent } = upload.progress.value
  const isEnded = state === 'stored' || state === 'skipped'
  return (
    <>
      <span class="name" title={upload.path}>
        {upload.name}
      </span>
      <span class={state === 'failed' ? 'upload-state error' : 'upload-state'}>{stateText(upload, state)}</span>
      {/* An empty file has no bytes, but an end. */}
      <progress aria-label={upload.name} max={upload.size + 1} value={isEnded ? upload.size + 1 : sent} />
      <span class="upload-buttons">
        {pausable.has(state) && (
          <RowButton label={texts.uploads.pause(upload.name)} onClick={() => pause(upload)}>
            <Pause aria-hidden size={14} />
          </RowButton>
        )}
        {state === 'paused' && (
          <RowButton label={texts.uploads.resume(upload.name)} onClick={() => resume(upload)}>
            <Play aria-hidden size={14} />
          </RowButton>
        )}
        {state === 'failed' && (
          <RowButton label={texts.uploads.retry(upload.name)} onClick={() => retry(upload)}>
            <RotateCw aria-hidden size={14} />
          </RowButton>
        )}
        {!isEnded && (
          <RowButton label={texts.uploads.cancel(upload.name)} onClick={() => cancel(upload)}>
            <X aria-hidden size={14} />
          </RowButton>
        )}
      </span>
    </>
  )
}

const pausable: ReadonlySet<UploadState> = new Set(['waiting', 'sending', 'disconnected'])

interface RowButtonProps {
  readonly label: string
  readonly onClick: () => void
  readonly children: ComponentChildren
}

function RowButton({ label, onClick, children }: RowButtonProps) {
  return (
    <button type="button" class="icon" aria-label={label} title={label} onClick={onClick}>
      {children}
    </button>
  )
}

function stateText(upload: Upload, state: UploadState): string {
  if (state === 'failed') return upload.failure.value
  if (state !== 'sending') return texts.uploads.states[state]
  const { sent, speed } = upload.progress.value
  const parts = [texts.uploads.sentOf(formatSize(sent), formatSize(upload.size))]
  if (speed !== undefined) parts.push(formatSpeed(speed))
  if (speed !== undefined && speed > 0) {
    parts.push(texts.uploads.timeLeft(formatDuration((upload.size - sent) / speed)))
  }
  return parts.join(' · ')
}
