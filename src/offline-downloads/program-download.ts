/** A download by an external program: starts or resumes it, polls it until its files are complete, and seeds it. */
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { GatewayError } from '../base/errors.js'
import type { EgressGuard } from '../net/egress.js'
import type { TaskRun } from '../tasks/task.js'
import type { DownloadPlan } from './download.js'
import { follow, pollerOf, type FollowedDownload } from './followed-download.js'
import { assertNoCredentials, parseUrl } from '../net/web-address.js'
import { RemoteFile } from './remote-file.js'
import type { DownloadInput, DownloadKey, DownloadTool } from './tool.js'
import { sanitizedMagnet, sanitizedTorrent } from './torrent.js'

/** Milliseconds between two polls. */
const pollInterval = 1000
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
  const followed: FollowedDownload = {
    name: tool.name,
    pollInterval,
    limit,
    claim,
    async start() {
      const input = await sanitizedInput(download, signal)
      await prepare()
      await tool.start(plan, input, signal)
    },
    resume: async () => tool.updateProxy?.(plan, signal),
    progress: () => tool.progress(plan, signal),
    remove: () => tool.remove(plan, false, signal),
  }
  await follow(followed, run)
}

/** Resolves when the download has been seeded for `minutes`, or the program no longer lists it. */
export async function seed(tool: DownloadTool, key: DownloadKey, minutes: number, run: TaskRun): Promise<void> {
  const poll = pollerOf({ progress: () => tool.progress(key, run.signal), pollInterval }, run.signal)
  for (;;) {
    const { state, seeded } = await poll()
    if (state !== 'done' || seeded >= minutes * 60) return
    run.setPhase('seeding')
    await delay(pollInterval, undefined, { signal: run.signal })
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
