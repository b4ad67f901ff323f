/** A download by an external program: starts or resumes it, polls it until its files are complete, and seeds it. */
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import type { EgressGuard } from '../net/egress.js'
import type { TaskRun } from '../tasks/task.js'
import type { DownloadPlan } from './download.js'
import { assertNoCredentials, parseUrl } from './http-request.js'
import { RemoteFile } from './remote-file.js'
import type { DownloadKey, DownloadTool, Progress, DownloadInput } from './tool.js'
import { sanitizedMagnet, sanitizedTorrent } from './torrent.js'

/** Milliseconds between two polls. */
const pollInterval = 1000
/** Consecutive polls that may fail. */
const maxFailures = 6
/** Consecutive polls in which a program may not list a download that was started. */
const maxUnknown = 5
/** Starts of the download in one run. */
const maxStarts = 3
/** Maximum size of a torrent file in bytes. */
const maxTorrentSize = 16 * 1024 * 1024

interface ProgramDownload {
  readonly tool: DownloadTool
  readonly plan: DownloadPlan
  readonly egress: EgressGuard
  /** Maximum size of the download in bytes. */
  readonly limit: number
  /** Reserves disk space in bytes, in place of the last reservation. Throws `no_space` above the limit. */
  readonly claim: (bytes: number) => void
}

/** Parses an address that the tool supports. Throws `invalid` for any other. */
export function assertSupported({ name, schemes }: Pick<DownloadTool, 'name' | 'schemes'>, address: string): URL {
  const url = parseUrl(address)
  if (!url) throw new GatewayError('invalid', { reason: 'this is no address' })
  if (!schemes.includes(url.protocol)) {
    throw new GatewayError('invalid', { reason: `${name} does not fetch addresses of ${url.protocol.slice(0, -1)}` })
  }
  assertNoCredentials(url)
  return url
}

/** Resolves when all files are complete. `prepare` is called before the program starts the download. */
export async function fetchByProgram(
  download: ProgramDownload,
  run: TaskRun,
  prepare: () => Promise<void>,
): Promise<void> {
  const { tool, plan, limit, claim } = download
  const { signal } = run
  const start = async () => {
    run.setPhase({ tool: tool.name, state: 'connecting' })
    const input = await sanitizedInput(download, signal)
    await prepare()
    await tool.start(plan, input, signal)
  }
  const earlier = await tool.progress(plan, signal)
  if (earlier.state === 'failed') await tool.remove(plan, false, signal)
  if (earlier.state === 'failed' || earlier.state === 'unknown') await start()
  if (earlier.state === 'working') await tool.updateProxy?.(plan, signal)
  let starts = 1
  let counted = 0
  let unknown = 0
  const poll = pollerOf(tool, plan, signal)
  for (;;) {
    const progress = await poll()
    const { state, text, totalBytes, doneBytes } = progress
    if (Math.max(totalBytes, doneBytes) > limit) {
      const megabytes = Math.floor(limit / 1024 / 1024)
      const reason = `it is larger than ${megabytes} MB (offline_download_size_limit)`
      throw new GatewayError('too_large', { reason })
    }
    claim(Math.max(totalBytes, doneBytes))
    run.setTotal(totalBytes)
    run.advance(doneBytes - counted)
    counted = doneBytes
    if (state === 'done') return
    if (state === 'failed') throw progress.error ?? new GatewayError('unavailable', { reason: text })
    unknown = state === 'unknown' ? unknown + 1 : 0
    if (unknown > maxUnknown) {
      if (starts >= maxStarts) throw new GatewayError('unavailable', { reason: `${tool.name} lost the download` })
      // The program was restarted and lost the download. A new start resumes from the files in the folder.
      await start()
      starts += 1
      unknown = 0
    }
    if (state === 'working') run.setPhase({ tool: tool.name, state: text })
    await delay(pollInterval, undefined, { signal })
  }
}

/** Resolves when the download has been seeded for `minutes`, or the program no longer lists it. */
export async function seed(tool: DownloadTool, key: DownloadKey, minutes: number, run: TaskRun): Promise<void> {
  const poll = pollerOf(tool, key, run.signal)
  for (;;) {
    const { state, seeded } = await poll()
    if (state !== 'done' || seeded >= minutes * 60) return
    run.setPhase('seeding')
    await delay(pollInterval, undefined, { signal: run.signal })
  }
}

/** A function that polls the progress. It rejects only after `maxFailures` consecutive transient failures. */
function pollerOf(tool: DownloadTool, key: DownloadKey, signal: AbortSignal): () => Promise<Progress> {
  let failures = 0
  return async () => {
    for (;;) {
      try {
        const progress = await tool.progress(key, signal)
        failures = 0
        return progress
      } catch (error) {
        failures += 1
        if (failures >= maxFailures || !isGatewayError(error, 'unavailable', 'timeout')) throw error
        await delay(pollInterval, undefined, { signal })
      }
    }
  }
}

/**
 * The input for the program, which opens its own connections. Its host is checked first; torrents are fetched here,
 * because their trackers and web seeds are hosts too. Redirects and later changes of DNS are not covered by this check.
 */
async function sanitizedInput(
  { tool, plan, egress, limit }: ProgramDownload,
  signal: AbortSignal,
): Promise<DownloadInput> {
  const { address } = plan
  const url = assertSupported(tool, address)
  const isAllowed = (host: URL) => egress.allowsHost(host)
  if (url.protocol === 'magnet:') return { kind: 'magnet', address: await sanitizedMagnet(address, isAllowed) }
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:'
  if (isWeb && (tool.onlyTorrents || /\.torrent$/i.test(url.pathname))) {
    const file = await RemoteFile.open(address, { egress, limit: Math.min(limit, maxTorrentSize), signal })
    try {
      return { kind: 'torrent', torrent: await sanitizedTorrent(await buffer(await file.source.read()), isAllowed) }
    } finally {
      file.close()
    }
  }
  if (!(await isAllowed(url))) {
    const reason = 'the address leads into a network that is not allowed, or nowhere'
    throw new GatewayError('denied', { reason })
  }
  return { kind: 'address', address: url.href }
}
