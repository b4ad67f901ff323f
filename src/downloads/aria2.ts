/** aria2, by its JSON-RPC interface. A download has a GID that is made from its key: no call is ever made twice, whoever was killed. */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { ProxyAccess } from '../egress-proxy.js'
import { GatewayError, isGatewayError, type ErrorCode } from '../errors.js'
import { callProgram } from './local-program.js'
import { parsedUrl } from './http-request.js'
import type { DownloadKey, DownloadTool, Progress, Wanted } from './tool.js'

export interface Aria2Access {
  /** Of the interface: `http://HOST:6800/jsonrpc`; `ws` does the same. */
  readonly uri: string
  readonly secret: string
}

/** What it connects through. */
export interface Aria2WayOut {
  /** Of an aria2 at this address; undefined where it connects by itself. */
  access(aria2: URL): Promise<ProxyAccess | undefined>
  /** As `EgressProxy.takeRefusal`: a download's user name is its GID. */
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
const keys = [
  ...['gid', 'status', 'totalLength', 'completedLength', 'seeder', 'dir', 'errorCode', 'errorMessage', 'followedBy'],
]

/** Downloads that one leads to: of a magnet link the description of the torrent, then its files. */
const mostFollowed = 5
/** Looked at where the GID is unknown. */
const mostListed = 1000

/** Options of every download. Files that are there without a record of how far they came are begun anew, never taken for whole. */
const usualOptions = {
  'allow-overwrite': 'true',
  'auto-file-renaming': 'false',
  'always-resume': 'false',
  // What a server sends is a file to be stored, not a list of more addresses to be fetched from here.
  'follow-torrent': 'false',
  'follow-metalink': 'false',
  'rpc-save-upload-metadata': 'false',
  'seed-time': '0',
} as const

export class Aria2 implements DownloadTool {
  readonly name = name
  readonly accessKeys = ['aria2_uri', 'aria2_secret']
  readonly schemes = ['http:', 'https:', 'ftp:', 'sftp:', 'magnet:']
  readonly onlyTorrents = false

  /** `access` tells it as it is set now. */
  constructor(
    private readonly access: () => Aria2Access,
    private readonly wayOut: Aria2WayOut,
  ) {}

  async probe(signal: AbortSignal): Promise<string> {
    const told = z.object({ version: z.string() }).safeParse(await this.#call('aria2.getVersion', [], signal))
    if (!told.success) throw new GatewayError('unavailable', { reason: 'what answers there is not aria2' })
    return told.data.version
  }

  async start(key: DownloadKey, wanted: Wanted, signal: AbortSignal): Promise<void> {
    const options = { ...usualOptions, ...(await this.#proxyOptions(key)), dir: key.folder, gid: gidOf(key) }
    if (wanted.kind === 'torrent') {
      await this.#call('aria2.addTorrent', [wanted.torrent.toString('base64'), [], options], signal)
    } else {
      await this.#call('aria2.addUri', [[wanted.address], options], signal)
    }
  }

  async goOn(key: DownloadKey, signal: AbortSignal): Promise<void> {
    const options = await this.#proxyOptions(key)
    for (const { gid, status } of await this.#chain(key, signal)) {
      if (isUnderWay(status)) await this.#unlessGone('aria2.changeOption', [gid, options], signal)
    }
  }

  async progress(key: DownloadKey, signal: AbortSignal): Promise<Progress> {
    const last = (await this.#chain(key, signal)).at(-1)
    if (!last) return { state: 'unknown', text: '', totalBytes: 0, doneBytes: 0, seeded: 0 }
    const { status, seeder, totalLength: totalBytes, completedLength: doneBytes } = last
    const told = { text: status, totalBytes, doneBytes, seeded: 0 }
    if (status === 'error' || status === 'removed') {
      const error = this.wayOut.takeRefusal(gidOf(key)) ?? faultOf(last)
      return { ...told, state: 'failed', error }
    }
    const isDone = status === 'complete' || (status === 'active' && seeder === 'true' && doneBytes === totalBytes)
    return { ...told, state: isDone ? 'done' : 'working' }
  }

  async remove(key: DownloadKey, _withFiles: boolean, signal: AbortSignal): Promise<void> {
    for (const { gid, status } of await this.#chain(key, signal)) {
      if (isUnderWay(status)) await this.#unlessGone('aria2.forceRemove', [gid], signal)
      const forget = () => this.#unlessGone('aria2.removeDownloadResult', [gid], signal)
      // It stops a moment later, and cannot be forgotten before.
      for (let tries = 0; tries < 20 && !(await forget()); tries++) {
        await delay(100, undefined, { signal })
      }
    }
  }

  /** The download, and those that it led to; empty where it is unknown. */
  async #chain(key: DownloadKey, signal: AbortSignal): Promise<readonly Status[]> {
    const found: Status[] = []
    let gid: string | undefined = gidOf(key)
    while (gid !== undefined && found.length < mostFollowed) {
      const status = await this.#status(gid, signal)
      if (status) found.push(status)
      gid = status?.followedBy?.[0]
    }
    return found.length > 0 ? found : this.#inFolder(key.folder, signal)
  }

  async #status(gid: string, signal: AbortSignal): Promise<Status | undefined> {
    try {
      return statusOf.parse(await this.#call('aria2.tellStatus', [gid, keys], signal))
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** A program that was started anew with a saved session may know the files of a magnet link, and no more the link. */
  async #inFolder(folder: string, signal: AbortSignal): Promise<readonly Status[]> {
    const lists = await Promise.all([
      this.#call('aria2.tellActive', [keys], signal),
      this.#call('aria2.tellWaiting', [0, mostListed, keys], signal),
    ])
    return lists.flatMap((list) => z.array(statusOf).parse(list)).filter(({ dir }) => dir === folder)
  }

  /** Whether it was done, or there was nothing to be done. */
  async #unlessGone(method: string, params: readonly unknown[], signal: AbortSignal): Promise<boolean> {
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
    const url = parsedUrl(this.access().uri.replace(/^ws/, 'http'))
    if (!url) throw new GatewayError('unavailable', { reason: 'aria2_uri is no address' })
    return url
  }

  /** In the place of whatever aria2 is configured with, for one scheme or for all. */
  async #proxyOptions(key: DownloadKey): Promise<Readonly<Record<string, string>>> {
    const proxy = await this.wayOut.access(this.#url)
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
    const code: ErrorCode = / is not found$|^No such download/.test(error.message) ? 'not_found' : 'invalid'
    throw new GatewayError(code, { reason: `aria2: ${error.message}` })
  }
}

function isUnderWay(status: Status['status']): boolean {
  return ['active', 'waiting', 'paused'].includes(status)
}

/** 16 hexadecimal digits. */
function gidOf({ id }: DownloadKey): string {
  return createHash('sha256').update(id).digest('hex').slice(0, 16)
}

function faultOf({ status, errorCode = '', errorMessage = '' }: Status): GatewayError {
  const reason = status === 'removed' ? 'it was removed in aria2' : `aria2: ${errorMessage || `error ${errorCode}`}`
  return new GatewayError('unavailable', { reason })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
