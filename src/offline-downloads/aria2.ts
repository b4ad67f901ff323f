/**
 * The aria2 tool, by its JSON-RPC interface. The GID of a download is derived from its key, so that a retry after a
 * crash finds the same download.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../base/errors.js'
import type { ProxyAccess } from '../net/egress-proxy.js'
import { parseUrl } from '../net/web-address.js'
import { callProgram, type DownloadKey, type DownloadTool, type Progress, type DownloadInput } from './tool.js'

interface Aria2Access {
  /**
   * The URL of the JSON-RPC interface: `http://HOST:6800/jsonrpc`. `ws:` and `wss:` are replaced by `http:` and
   * `https:`.
   */
  readonly uri: string
  readonly secret: string
}

/** The proxy through which aria2 connects. */
export interface Aria2ProxyProvider {
  /** The proxy for the aria2 at this address; undefined if it connects directly. */
  access(aria2: URL): Promise<ProxyAccess | undefined>
  /** Like `EgressProxy.takeRefusal`. The user name of a download is its GID. */
  takeRefusal(gid: string): GatewayError | undefined
}

const name = 'aria2'
const answer = z.object({
  result: z.unknown().optional(),
  error: z.object({ code: z.number(), message: z.string() }).optional(),
})
const number = z.string().transform(Number)
const statusOf = z.object({
  gid: z.string(),
  status: z.enum(['active', 'waiting', 'paused', 'error', 'complete', 'removed']),
  totalLength: number,
  completedLength: number,
  seeder: z.string().optional(),
  dir: z.string().optional(),
  errorCode: z.string().optional(),
  errorMessage: z.string().optional(),
  followedBy: z.array(z.string()).optional(),
})
type Status = z.output<typeof statusOf>
const statusKeys = [
  ...['gid', 'status', 'totalLength', 'completedLength', 'seeder', 'dir', 'errorCode', 'errorMessage', 'followedBy'],
]

/**
 * Maximum length of a chain of downloads. A magnet link first downloads the torrent, which is followed by its files.
 */
const maxChain = 5
/** Maximum number of waiting downloads that are searched if the GID is unknown. */
const maxListed = 1000

/** Options of every download. An existing file without a control file is downloaded again, never taken as complete. */
const defaultOptions = {
  'allow-overwrite': 'true',
  'auto-file-renaming': 'false',
  'always-resume': 'false',
  // A torrent or metalink that a server sends is stored as a file. Its addresses have not been checked.
  'follow-torrent': 'false',
  'follow-metalink': 'false',
  'rpc-save-upload-metadata': 'false',
  'seed-time': '0',
} as const

export class Aria2 implements DownloadTool {
  readonly name = name
  readonly settingKeys = ['aria2_uri', 'aria2_secret']
  readonly schemes = ['http:', 'https:', 'ftp:', 'sftp:', 'magnet:']
  readonly onlyTorrents = false

  /** `access` returns the current settings. */
  constructor(
    private readonly access: () => Aria2Access,
    private readonly proxies: Aria2ProxyProvider,
  ) {}

  async probe(signal: AbortSignal): Promise<string> {
    const parsed = z.object({ version: z.string() }).safeParse(await this.#call('aria2.getVersion', [], signal))
    if (!parsed.success) throw new GatewayError('unavailable', { reason: 'what answers there is not aria2' })
    return parsed.data.version
  }

  async start(key: DownloadKey, input: DownloadInput, signal: AbortSignal): Promise<void> {
    const options = { ...defaultOptions, ...(await this.#proxyOptions(key)), dir: key.folder, gid: gidOf(key) }
    if (input.kind === 'torrent') {
      await this.#call('aria2.addTorrent', [input.torrent.toString('base64'), [], options], signal)
    } else {
      await this.#call('aria2.addUri', [[input.address], options], signal)
    }
  }

  async updateProxy(key: DownloadKey, signal: AbortSignal): Promise<void> {
    const options = await this.#proxyOptions(key)
    for (const { gid, status } of await this.#chain(key, signal)) {
      if (isUnderWay(status)) await this.#callIfExists('aria2.changeOption', [gid, options], signal)
    }
  }

  async progress(key: DownloadKey, signal: AbortSignal): Promise<Progress> {
    const last = (await this.#chain(key, signal)).at(-1)
    if (!last) return { state: 'unknown', text: '', totalBytes: 0, doneBytes: 0, seeded: 0 }
    const { status, seeder, totalLength: totalBytes, completedLength: doneBytes } = last
    const common = { text: status, totalBytes, doneBytes, seeded: 0 }
    if (status === 'error' || status === 'removed') {
      const error = this.proxies.takeRefusal(gidOf(key)) ?? errorOf(last)
      return { ...common, state: 'failed', error }
    }
    const isDone = status === 'complete' || (status === 'active' && seeder === 'true' && doneBytes === totalBytes)
    return { ...common, state: isDone ? 'done' : 'working' }
  }

  async remove(key: DownloadKey, _withFiles: boolean, signal: AbortSignal): Promise<void> {
    for (const { gid, status } of await this.#chain(key, signal)) {
      if (isUnderWay(status)) await this.#callIfExists('aria2.forceRemove', [gid], signal)
      const removeResult = () => this.#callIfExists('aria2.removeDownloadResult', [gid], signal)
      // aria2 stops the download asynchronously and rejects `removeDownloadResult` until then.
      for (let tries = 0; tries < 20 && !(await removeResult()); tries++) {
        await delay(100, undefined, { signal })
      }
    }
  }

  /** The download and the downloads that follow it. Empty if it is unknown. */
  async #chain(key: DownloadKey, signal: AbortSignal): Promise<readonly Status[]> {
    const chain: Status[] = []
    let gid: string | undefined = gidOf(key)
    while (gid !== undefined && chain.length < maxChain) {
      const status = await this.#status(gid, signal)
      if (status) chain.push(status)
      gid = status?.followedBy?.[0]
    }
    return chain.length > 0 ? chain : this.#inFolder(key.folder, signal)
  }

  async #status(gid: string, signal: AbortSignal): Promise<Status | undefined> {
    const status = this.#call('aria2.tellStatus', [gid, statusKeys], signal)
    return undefinedIfMissing(status.then((told) => statusOf.parse(told)))
  }

  /**
   * Finds downloads by folder: after a restart with a saved session, aria2 may list only the torrent of a magnet link.
   */
  async #inFolder(folder: string, signal: AbortSignal): Promise<readonly Status[]> {
    const lists = await Promise.all([
      this.#call('aria2.tellActive', [statusKeys], signal),
      this.#call('aria2.tellWaiting', [0, maxListed, statusKeys], signal),
    ])
    return lists.flatMap((list) => z.array(statusOf).parse(list)).filter(({ dir }) => dir === folder)
  }

  /** Calls the method. True if it succeeded or the download does not exist; false if aria2 rejects the call. */
  async #callIfExists(method: string, params: readonly unknown[], signal: AbortSignal): Promise<boolean> {
    try {
      await this.#call(method, params, signal)
      return true
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return true
      if (isGatewayError(error, 'invalid')) return false
      throw error
    }
  }

  get #url(): URL {
    const url = parseUrl(this.access().uri.replace(/^ws/, 'http'))
    if (!url) throw new GatewayError('unavailable', { reason: 'aria2_uri is no address' })
    return url
  }

  /** Options that replace all proxies of aria2's own configuration. */
  async #proxyOptions(key: DownloadKey): Promise<Readonly<Record<string, string>>> {
    const proxy = await this.proxies.access(this.#url)
    if (!proxy) return {}
    const { address, password } = proxy
    const options = ['all', 'http', 'https', 'ftp'].flatMap((scheme) => [
      [`${scheme}-proxy`, `http://${address}`],
      [`${scheme}-proxy-user`, gidOf(key)],
      [`${scheme}-proxy-passwd`, password],
    ])
    return { ...(Object.fromEntries(options) as Record<string, string>), 'no-proxy': '', 'proxy-method': 'tunnel' }
  }

  async #call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const { secret } = this.access()
    const body = JSON.stringify({ jsonrpc: '2.0', id: '1', method, params: [`token:${secret}`, ...params] })
    const headers = { 'content-type': 'application/json' }
    const { text } = await callProgram(name, this.#url, { method: 'POST', headers, body, signal })
    const parsed = answer.safeParse(jsonOf(text))
    if (!parsed.success) throw new GatewayError('unavailable', { reason: 'what answers there is not aria2' })
    const { result, error } = parsed.data
    if (!error) return result
    if (error.message === 'Unauthorized') throw new GatewayError('denied', { reason: 'aria2 refuses the secret' })
    const isMissing = / is not found$|^No such download/.test(error.message)
    const [code, reason] = isMissing
      ? (['not_found', 'aria2 does not know the download'] as const)
      : (['invalid', 'aria2 rejected the request'] as const)
    throw new GatewayError(code, { reason, cause: new Error(`${method}: ${error.message}`) })
  }
}

function isUnderWay(status: Status['status']): boolean {
  return ['active', 'waiting', 'paused'].includes(status)
}

/** The GID of a download: 16 hexadecimal digits. */
function gidOf({ id }: DownloadKey): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 16)
}

/** The error of a failed download. The text of aria2 may have paths of the host, so it is only the cause. */
function errorOf({ status, errorCode = '', errorMessage = '' }: Status): GatewayError {
  if (status === 'removed') return new GatewayError('unavailable', { reason: 'it was removed in aria2' })
  const reason = failures[errorCode] ?? 'aria2 could not download it'
  return new GatewayError('unavailable', { reason, cause: new Error(`error ${errorCode}: ${errorMessage}`) })
}

/** The error codes of downloads (EXIT STATUS in the manual of aria2) in words for users. */
const failures: Readonly<Record<string, string>> = {
  2: 'the server does not answer in time',
  3: 'the server does not have the file',
  4: 'the server does not have the file',
  5: 'the server sends next to nothing',
  6: 'the network failed',
  7: 'aria2 was stopped before the download was complete',
  8: 'the server cannot resume the download',
  9: 'the disk of aria2 is full',
  10: 'another download with a different piece length has the same file',
  11: 'aria2 is downloading the same file already',
  12: 'aria2 is downloading the same torrent already',
  13: 'the file exists already in the folder of aria2',
  14: 'aria2 could not rename the file',
  15: 'aria2 could not open the file',
  16: 'aria2 could not create the file',
  17: 'aria2 could not read or write the file',
  18: 'aria2 could not create the folder',
  19: 'the name of the server could not be resolved',
  20: 'the Metalink file is damaged',
  21: 'the FTP server refused a command',
  22: 'the server sent an unexpected response',
  23: 'the server redirects too many times',
  24: 'the server refuses the download without the right credentials',
  25: 'the torrent is damaged',
  26: 'the torrent is damaged',
  27: 'the magnet link is invalid',
  28: 'aria2 rejected an option of the download',
  29: 'the server is overloaded',
  32: 'the checksum of the file is wrong',
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
