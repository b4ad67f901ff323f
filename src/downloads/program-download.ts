/** A download by a program beside the gateway: begun or taken up again, watched until its files are whole, and given to others. */
import { setTimeout as delay } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import type { EgressGuard } from '../egress.js'
import { GatewayError, isGatewayError } from '../errors.js'
import type { TaskRun } from '../tasks/task.js'
import type { DownloadPlan } from './download.js'
import { assertNoCredentials, parsedUrl } from './http-request.js'
import { RemoteFile } from './remote-file.js'
import type { DownloadKey, DownloadTool, Progress, Wanted } from './tool.js'
import { harmlessMagnet, harmlessTorrent } from './torrent.js'

/** Milliseconds between two looks. */
const lookEvery = 1000
/** Looks in a row that may fail. */
const mostFailures = 6
/** Looks in a row at which a program may not show a download that it was told of. */
const mostUnknown = 5
/** Times that it is told of it in one run. */
const mostStarts = 3
/** Bytes of a file that describes a torrent. */
const largestTorrent = 16 * 1024 * 1024

export interface ProgramDownload {
  readonly tool: DownloadTool
  readonly plan: DownloadPlan
  readonly egress: EgressGuard
  /** Bytes that all of it may have. */
  readonly limit: number
  /** Told of the bytes that it has, or is going to have; throws where the disk may not be filled as much. */
  readonly claim: (bytes: number) => void
}

/** What the tool could fetch at all; rejects with `invalid` for anything else. */
export function assertFetches({ name, schemes }: Pick<DownloadTool, 'name' | 'schemes'>, address: string): URL {
  const url = parsedUrl(address)
  if (!url) throw new GatewayError('invalid', { reason: 'this is no address' })
  if (!schemes.includes(url.protocol)) {
    throw new GatewayError('invalid', { reason: `${name} does not fetch addresses of ${url.protocol.slice(0, -1)}` })
  }
  assertNoCredentials(url)
  return url
}

/** Resolves when everything is whole. `prepare` makes room for it, before the program hears of it. */
export async function fetchByProgram(
  download: ProgramDownload,
  run: TaskRun,
  prepare: () => Promise<void>,
): Promise<void> {
  const { tool, plan, limit, claim } = download
  const { signal } = run
  const start = async () => {
    run.status(`[${tool.name}]: connecting`)
    const wanted = await checked(download, signal)
    await prepare()
    await tool.start(plan, wanted, signal)
  }
  const before = await tool.progress(plan, signal)
  if (before.state === 'failed') await tool.remove(plan, false, signal)
  if (before.state === 'failed' || before.state === 'unknown') await start()
  if (before.state === 'working') await tool.goOn?.(plan, signal)
  let starts = 1
  let counted = 0
  let unknown = 0
  const watch = watched(tool, plan, signal)
  for (;;) {
    const progress = await watch()
    const { state, text, totalBytes, doneBytes } = progress
    if (Math.max(totalBytes, doneBytes) > limit) {
      const megabytes = Math.floor(limit / 1024 / 1024)
      const reason = `it is larger than ${megabytes} MB (offline_download_size_limit)`
      throw new GatewayError('too_large', { reason })
    }
    claim(Math.max(totalBytes, doneBytes))
    run.total(totalBytes)
    run.advance(doneBytes - counted)
    counted = doneBytes
    if (state === 'done') return
    if (state === 'failed') throw progress.error ?? new GatewayError('unavailable', { reason: text })
    unknown = state === 'unknown' ? unknown + 1 : 0
    if (unknown > mostUnknown) {
      if (starts >= mostStarts) throw new GatewayError('unavailable', { reason: `${tool.name} forgets the download` })
      // It was started anew meanwhile; what it left in the folder it takes up.
      await start()
      starts += 1
      unknown = 0
    }
    if (state === 'working') run.status(`[${tool.name}]: ${text}`)
    await delay(lookEvery, undefined, { signal })
  }
}

/** Resolves when it was given to others for so many minutes, or the program forgot it. */
export async function seed(tool: DownloadTool, key: DownloadKey, minutes: number, run: TaskRun): Promise<void> {
  const watch = watched(tool, key, run.signal)
  for (;;) {
    const { state, seeded } = await watch()
    if (state !== 'done' || seeded >= minutes * 60) return
    run.status('offline download completed, waiting for seeding')
    await delay(lookEvery, undefined, { signal: run.signal })
  }
}

/** Looks; that the program does not answer now and then is borne. */
function watched(tool: DownloadTool, key: DownloadKey, signal: AbortSignal): () => Promise<Progress> {
  let failures = 0
  return async () => {
    for (;;) {
      try {
        const progress = await tool.progress(key, signal)
        failures = 0
        return progress
      } catch (error) {
        failures += 1
        if (failures >= mostFailures || !isGatewayError(error, 'unavailable', 'timeout')) throw error
        await delay(lookEvery, undefined, { signal })
      }
    }
  }
}

/**
 * What the program is told. It connects by itself: hosts are looked up before, and torrents, whose trackers and seeds are hosts
 * too, are fetched here. What a host redirects to, and what its name means a moment later, is not seen from here.
 */
async function checked({ tool, plan, egress, limit }: ProgramDownload, signal: AbortSignal): Promise<Wanted> {
  const { address } = plan
  const url = assertFetches(tool, address)
  const mayReach = (host: URL) => egress.mayReach(host)
  if (url.protocol === 'magnet:') return { kind: 'magnet', address: await harmlessMagnet(address, mayReach) }
  const isWeb = url.protocol === 'http:' || url.protocol === 'https:'
  if (isWeb && (tool.onlyTorrents || /\.torrent$/i.test(url.pathname))) {
    const file = await RemoteFile.open(address, { egress, limit: Math.min(limit, largestTorrent), signal })
    try {
      return { kind: 'torrent', torrent: await harmlessTorrent(await buffer(await file.source.read()), mayReach) }
    } finally {
      file.close()
    }
  }
  if (!(await mayReach(url))) {
    const reason = 'the address leads into a network that is not allowed, or nowhere'
    throw new GatewayError('denied', { reason })
  }
  return { kind: 'address', address: url.href }
}
