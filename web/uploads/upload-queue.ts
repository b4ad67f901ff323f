/** The queue of uploads, and what the user does with them. */
import { signal } from '@preact/signals'
import PQueue from 'p-queue'
import { isSignedOut, isUnreachable } from '../api/client.ts'
import { askWhoIsSignedIn } from '../api/queries.ts'
import { report } from '../components/notices.tsx'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import type { Chosen } from './chosen-files.ts'
import { isConflict } from './conflict.ts'
import { failureText } from './failure-text.ts'
import { folderChanged } from './changed-folders.ts'
import { serverAnswers } from './reconnect.ts'
import { discard, store } from './store.ts'
import { addToList, allUploads, removeFromList, setSent, showChange } from './upload-list.ts'
import { Upload, type Batch, type ConflictChoice, type UploadState } from './upload.ts'

const texts = textsOf('uploads')

/** Browsers open six connections to a server: these leave two to the pages. */
const concurrentUploads = 4

/** Number of times in a row that a connection may be lost without a byte being stored, while the server answers. */
const maxLosses = 5

/** The name of the user whose uploads these are. */
export const owner = signal<string>()

/** The name of the user who is signed in. */
let current: string | undefined

/** Number of uploads that were stored since this was last reported. */
let stored = 0

const queue = new PQueue({ concurrency: concurrentUploads }).on('idle', reportStored)

addEventListener('beforeunload', (event) => {
  if ([...allUploads()].some(({ isUnfinished }) => isUnfinished)) event.preventDefault()
})

/**
 * Uploads what was chosen for a folder, as it is found. Rejects if it cannot be read; what was found before is
 * uploaded.
 */
export async function addUploads(folder: string, chosen: AsyncIterable<Chosen>): Promise<void> {
  takeOver()
  const batch: Batch = { folder }
  if (![...allUploads()].some(({ isUnfinished }) => isUnfinished)) clear()
  for await (const { path, file } of chosen) {
    const upload = new Upload(batch, joined(folder, path), file)
    addToList(upload)
    enqueue(upload)
  }
}

export function pause(upload: Upload): void {
  // What is being stored is as good as stored.
  if (upload.state.peek() === 'storing' || !upload.isActive) return
  setState(upload, 'paused')
  upload.stop.abort()
}

export function resume(upload: Upload): void {
  if (upload.state.peek() === 'paused') enqueue(upload)
}

export function retry(upload: Upload): void {
  if (upload.state.peek() === 'failed') enqueue(upload)
}

/** Ends the upload and takes it from the list. */
export function cancel(upload: Upload): void {
  upload.stop.abort()
  void discard(upload)
  removeFromList(upload)
}

/** Applies the user's choice to an upload whose name exists, or to all that were chosen with it. */
export function resolveConflict(upload: Upload, choice: ConflictChoice, toAll: boolean): void {
  if (toAll) upload.batch.choice = choice
  for (const each of conflictsLike(upload, toAll)) resolve(each, choice)
}

/** Like `resolveConflict`, but takes them from the list. */
export function cancelConflict(upload: Upload, all: boolean): void {
  conflictsLike(upload, all).forEach(cancel)
}

function conflictsLike(upload: Upload, all: boolean): readonly Upload[] {
  const like = all ? [...allUploads()].filter(({ batch }) => batch === upload.batch) : [upload]
  return like.filter(({ state }) => state.peek() === 'asking')
}

function resolve(upload: Upload, choice: ConflictChoice): void {
  upload.choice = choice
  if (choice === 'skip') setState(upload, 'skipped')
  else enqueue(upload)
}

export const pauseAll = (): void => allUploads().forEach(pause)
export const resumeAll = (): void => allUploads().forEach(resume)
export const retryAll = (): void => allUploads().forEach(retry)
export const cancelAll = (): void => allUploads().forEach(cancel)

/** Takes those that have ended from the list. */
export function clear(): void {
  for (const upload of allUploads()) if (!upload.isUnfinished) removeFromList(upload)
}

/** From now on, this user is signed in. The uploads of another one end; they wait if it is only the guest. */
export function belongTo(user: string, isGuest: boolean): void {
  current = user
  if (isGuest && owner.peek() !== undefined && owner.peek() !== user) pauseAll()
  else takeOver()
}

/** Ends the uploads of another user. */
function takeOver(): void {
  if (owner.peek() !== undefined && owner.peek() !== current) cancelAll()
  owner.value = current
}

function enqueue(upload: Upload): void {
  setState(upload, 'waiting')
  upload.stop = new AbortController()
  const { signal } = upload.stop
  void queue.add(() => run(upload, signal))
}

/** Does nothing if the upload was stopped while it waited. */
async function run(upload: Upload, signal: AbortSignal): Promise<void> {
  const isStopped = () => signal.aborted
  if (isStopped()) return
  try {
    await storeDespiteLosses(upload, signal)
    setSent(upload, upload.size)
    stored++
    folderChanged(upload)
    setState(upload, 'stored')
  } catch (error) {
    // Whoever stopped it has set its state.
    if (isStopped()) return
    if (isConflict(error)) ask(upload)
    else fail(upload, error)
  }
}

async function storeDespiteLosses(upload: Upload, signal: AbortSignal): Promise<void> {
  for (let losses = 0; ;) {
    const before = upload.confirmed
    try {
      setState(upload, 'sending')
      await store(upload, signal, () => setState(upload, 'storing'))
      return
    } catch (error) {
      if (!isUnreachable(error)) throw error
      await assertReadable(upload)
      losses = upload.confirmed > before ? 1 : losses + 1
      if (losses > maxLosses) throw error
    }
    signal.throwIfAborted()
    setState(upload, 'disconnected')
    await serverAnswers(signal)
  }
}

/** Rejects if the file has changed or is gone: a browser reports this in the same way as a lost connection. */
async function assertReadable({ file }: Upload): Promise<void> {
  await file?.slice(0, 1).arrayBuffer()
}

function ask(upload: Upload): void {
  const { choice } = upload.batch
  // It was sent before the choice was made for all.
  if (choice !== undefined && upload.choice === undefined) resolve(upload, choice)
  else {
    setSent(upload, 0)
    setState(upload, 'asking')
  }
}

function fail(upload: Upload, error: unknown): void {
  upload.failure.value = failureText(error)
  setState(upload, 'failed')
  if (!isSignedOut(error)) return
  // The others would fail too.
  pauseAll()
  void askWhoIsSignedIn()
}

function setState(upload: Upload, state: UploadState): void {
  if (upload.state.peek() === state) return
  upload.state.value = state
  showChange(upload)
}

function reportStored(): void {
  if (stored > 0) report(texts.uploads.stored(stored))
  stored = 0
}
