/** Follows a download that something else makes, a program or a storage, until its files are complete. */
import { setTimeout as delay } from 'node:timers/promises'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { TaskRun } from '../tasks/task.js'
import type { Progress } from './tool.js'

export interface FollowedDownload {
  readonly name: string
  /** Starts the download. It was not listed, or has failed and was removed. */
  start(): Promise<void>
  /** Called instead of `start` if an earlier run has started the download. */
  resume?(): Promise<void>
  progress(): Promise<Progress>
  /** Removes a failed download, so that it can be started again. */
  remove(): Promise<void>
  /** Milliseconds between two polls. */
  readonly pollInterval: number
  /** Maximum size in bytes. */
  readonly limit: number
  /** Reserves disk space in bytes, in place of the last reservation. Throws `no_space` above the limit. */
  readonly claim?: ((bytes: number) => void) | undefined
}

/** Maximum number of consecutive polls that may fail. */
const maxFailures = 6
/** Maximum number of consecutive polls in which a download that was started may not be listed. */
const maxUnknown = 5
/** Maximum number of starts of the download in one run. */
const maxStarts = 3

/** Starts or resumes the download. Resolves when all its files are complete. */
export async function follow(download: FollowedDownload, run: TaskRun): Promise<void> {
  const { name, limit, pollInterval } = download
  const { signal } = run
  const start = async () => {
    run.setPhase({ tool: name, state: 'connecting' })
    await download.start()
  }
  const earlier = await download.progress()
  if (earlier.state === 'failed') await download.remove()
  if (earlier.state === 'failed' || earlier.state === 'unknown') await start()
  if (earlier.state === 'working') await download.resume?.()
  let starts = 1
  let counted = 0
  let unknown = 0
  const poll = pollerOf(download, signal)
  for (;;) {
    const progress = await poll()
    const { state, text, totalBytes, doneBytes } = progress
    const bytes = Math.max(totalBytes, doneBytes)
    assertWithin(limit, bytes)
    download.claim?.(bytes)
    run.setTotal(totalBytes)
    run.advance(doneBytes - counted)
    counted = doneBytes
    if (state === 'done') return
    if (state === 'failed') throw progress.error ?? new GatewayError('unavailable', { reason: text })
    unknown = state === 'unknown' ? unknown + 1 : 0
    if (unknown > maxUnknown) {
      if (starts >= maxStarts) throw new GatewayError('unavailable', { reason: `${name} lost the download` })
      // It was restarted and lost the download. A program resumes from the files in the folder.
      await start()
      starts += 1
      unknown = 0
    }
    if (state === 'working') run.setPhase({ tool: name, state: text })
    await delay(pollInterval, undefined, { signal })
  }
}

function assertWithin(limit: number, bytes: number): void {
  if (bytes <= limit) return
  const megabytes = Math.floor(limit / 1024 / 1024)
  throw new GatewayError('too_large', { reason: `it is larger than ${megabytes} MB (offline_download_size_limit)` })
}

/** A function that polls the progress. It rejects only after `maxFailures` consecutive transient failures. */
export function pollerOf(
  { progress, pollInterval }: Pick<FollowedDownload, 'progress' | 'pollInterval'>,
  signal: AbortSignal,
): () => Promise<Progress> {
  let failures = 0
  return async () => {
    for (;;) {
      try {
        const result = await progress()
        failures = 0
        return result
      } catch (error) {
        failures += 1
        if (failures >= maxFailures || !isGatewayError(error, 'unavailable', 'timeout')) throw error
        await delay(pollInterval, undefined, { signal })
      }
    }
  }
}
