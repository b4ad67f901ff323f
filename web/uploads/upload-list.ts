/**
 * The list of uploads as it is shown. However many events arrive, it is published at most once for each animation
 * frame, and then not more often than five times a second.
 */
import { batch, signal } from '@preact/signals'
import { Speed } from './speed.ts'
import type { Upload } from './upload.ts'

export interface Summary {
  /** Numbers of uploads. */
  readonly count: number
  readonly finished: number
  readonly failed: number
  readonly paused: number
  /** The number of uploads that are neither finished nor paused. */
  readonly active: number
  /** Bytes of all uploads that were sent, and bytes of all. */
  readonly sent: number
  readonly size: number
  /** The speed in bytes per second; undefined if it is not known. */
  readonly speed: number | undefined
}

/** Milliseconds between two publications, and between two measurements of speed. */
const publishInterval = 200
const speedInterval = 500

const uploads = new Set<Upload>()
const changed = new Set<Upload>()
const speed = new Speed()
let transferred = 0
let isScheduled = false
let isHeld = false
let speedTimer: ReturnType<typeof setInterval> | undefined

/**
 * The uploads as they are shown: first those that have failed, then those that are not finished, in the order in which
 * they were added.
 */
export const shownUploads = signal<readonly Upload[]>([])
export const summary = signal<Summary>(summaryOf())
/**
 * One whose name exists, and that waits for the user's choice. It stays until that is made: another may ask meanwhile.
 */
export const shownConflict = signal<Upload>()

export function allUploads(): ReadonlySet<Upload> {
  return uploads
}

export function addToList(upload: Upload): void {
  uploads.add(upload)
  showChange(upload)
}

export function removeFromList(upload: Upload): void {
  uploads.delete(upload)
  schedule()
}

/** The upload has another state, or its file another number of sent bytes. */
export function showChange(upload: Upload): void {
  changed.add(upload)
  schedule()
  speedTimer ??= setInterval(measureSpeed, speedInterval)
}

/** Sets the number of bytes that were sent. It may fall: the upload then begins again. */
export function setSent(upload: Upload, bytes: number): void {
  transferred += Math.max(0, bytes - upload.sent)
  upload.sent = bytes
  showChange(upload)
}

/** While the order is held, nothing moves under the pointer of the user. */
export function holdOrder(held: boolean): void {
  isHeld = held
  schedule()
}

function schedule(): void {
  if (isScheduled) return
  isScheduled = true
  setTimeout(() => requestAnimationFrame(publish), publishInterval)
}

function publish(): void {
  isScheduled = false
  batch(() => {
    for (const upload of changed) {
      upload.progress.value = { sent: upload.sent, speed: upload.speed.perSecond }
    }
    shownUploads.value = isHeld ? heldOrder() : order()
    summary.value = summaryOf()
    const asking = [...uploads].filter(({ state }) => state.peek() === 'asking')
    shownConflict.value = asking.find((upload) => upload === shownConflict.peek()) ?? asking[0]
  })
  changed.clear()
}

function order(): readonly Upload[] {
  const failed: Upload[] = []
  const unfinished: Upload[] = []
  const finished: Upload[] = []
  for (const upload of uploads) {
    if (upload.state.peek() === 'failed') failed.push(upload)
    else (upload.isUnfinished ? unfinished : finished).push(upload)
  }
  return [...failed, ...unfinished, ...finished]
}

function heldOrder(): readonly Upload[] {
  const before = new Set(shownUploads.peek())
  return [...[...before].filter((upload) => uploads.has(upload)), ...[...uploads].filter((each) => !before.has(each))]
}

function measureSpeed(): void {
  const now = performance.now()
  let active = 0
  for (const upload of uploads) {
    if (upload.isActive) active++
    if (upload.state.peek() !== 'sending') continue
    upload.speed.add(now, upload.sent)
    changed.add(upload)
  }
  if (active > 0) speed.add(now, transferred)
  else {
    clearInterval(speedTimer)
    speedTimer = undefined
    speed.clear()
  }
  schedule()
}

function summaryOf(): Summary {
  let [finished, failed, paused, active, sent, size] = [0, 0, 0, 0, 0, 0]
  for (const upload of uploads) {
    const state = upload.state.peek()
    if (state === 'failed') failed++
    else if (state === 'paused') paused++
    else if (upload.isUnfinished) active++
    else finished++
    sent += state === 'skipped' ? upload.size : upload.sent
    size += upload.size
  }
  return { count: uploads.size, finished, failed, paused, active, sent, size, speed: speed.perSecond }
}
