/** The uploads, one row for each. Only those in view are in the document. */
import { Pause, Play, RotateCw, X } from 'lucide-preact'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { formatDuration, formatSize, formatSpeed } from '../texts/format.ts'
import { shareTop } from '../components/places.ts'
import { VirtualList } from '../components/virtual-list.tsx'
import { textsOf } from '../texts/texts.ts'
import { holdOrder, shownUploads } from './upload-list.ts'
import { cancel, pause, resume, retry } from './upload-queue.ts'
import type { Upload, UploadState } from './upload.ts'
import './upload-rows.css'

const texts = textsOf('uploads')

/** The height of a row in pixels. */
const rowHeight = 60

export function UploadRows() {
  const list = useRef<HTMLDivElement>(null)
  const uploads = shownUploads.value
  useEffect(() => () => holdOrder(false), [])
  // Nothing moves under the pointer, and what has the focus keeps its place.
  return (
    <div
      ref={list}
      onPointerEnter={() => holdOrder(true)}
      onPointerLeave={() => holdOrder(list.current?.contains(document.activeElement) === true)}
      onFocusIn={() => holdOrder(true)}
      onFocusOut={() => holdOrder(list.current?.matches(':hover') === true)}
    >
      <VirtualList
        label={texts.uploads.region}
        count={uploads.length}
        itemHeight={rowHeight}
        keyOf={(index) => uploads[index]?.id ?? index}
        item={(index) => {
          const upload = uploads[index]
          return upload && <Row upload={upload} />
        }}
      />
    </div>
  )
}

function Row({ upload }: { readonly upload: Upload }) {
  const state = upload.state.value
  const { sent } = upload.progress.value
  const isEnded = state === 'stored' || state === 'skipped'
  return (
    <div class="upload">
      <span class="name" title={upload.path.slice(shareTop(upload.path)?.length ?? 0)}>
        {upload.name}
      </span>
      {/* An empty file has no bytes, but an end. */}
      <progress aria-label={upload.name} max={upload.size + 1} value={isEnded ? upload.size + 1 : sent} />
      <span class={state === 'failed' ? 'upload-state error' : 'upload-state'}>{stateText(upload, state)}</span>
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
    </div>
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
    <button type="button" class="quiet icon" aria-label={label} title={label} onClick={onClick}>
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
