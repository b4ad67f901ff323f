/**
 * The qBittorrent tool, by its Web API (2.8.3 and later: qBittorrent 4.3.4). Torrents are tagged with the id of their
 * key.
 */
import { z } from 'zod'
import { GatewayError } from '../base/errors.js'
import { parseUrl } from '../net/web-address.js'
import {
  callProgram,
  type DownloadKey,
  type DownloadTool,
  type Progress,
  type DownloadInput,
  type ProgramResponse,
} from './tool.js'

const name = 'qBittorrent'
const torrent = z.object({
  hash: z.string(),
  state: z.string(),
  tags: z.string(),
  size: z.number(),
  amount_left: z.number(),
  seeding_time: z.number().optional(),
})
type Torrent = z.output<typeof torrent>

/** States of a complete torrent, in versions 4 and 5. */
const completeStates: ReadonlySet<string> = new Set([
  ...['uploading', 'stalledUP', 'queuedUP', 'forcedUP', 'pausedUP', 'stoppedUP'],
])
/** States of a failed torrent, in words for users. */
const failedStates: ReadonlyMap<string, string> = new Map([
  ['error', 'qBittorrent stopped the download because of an error'],
  ['missingFiles', 'files of the download are missing'],
])

export class QBittorrent implements DownloadTool {
  readonly name = name
  readonly settingKeys = ['qbittorrent_url']
  readonly schemes = ['magnet:', 'http:', 'https:']
  readonly onlyTorrents = true
  /** The cookie of the session, and the address to which it belongs. */
  #session: { readonly address: string; readonly cookie: string } | undefined

  /** `address` returns the current URL of the Web API, which may contain a user name and password. */
  constructor(private readonly address: () => string) {}

  async probe(signal: AbortSignal): Promise<string> {
    this.#session = undefined
    return (await this.#call('app/version', undefined, signal)).text
  }

  async start(key: DownloadKey, input: DownloadInput, signal: AbortSignal): Promise<void> {
    const form = new FormData()
    if (input.kind === 'torrent') form.set('torrents', new Blob([input.torrent]), 'download.torrent')
    else form.set('urls', input.address)
    form.set('savepath', key.folder)
    form.set('tags', tagOf(key))
    form.set('autoTMM', 'false')
    form.set('contentLayout', 'Original')
    // The gateway ends the seeding.
    form.set('ratioLimit', '-1')
    form.set('seedingTimeLimit', '-1')
    const { status, text } = await this.#call('torrents/add', form, signal)
    if (status < 300 && !text.startsWith('Fails')) return
    const reason = 'qBittorrent rejected the torrent: it is invalid or was added before'
    throw new GatewayError('invalid', { reason })
  }

  async progress(key: DownloadKey, signal: AbortSignal): Promise<Progress> {
    const found = await this.#find(key, signal)
    if (!found) return { state: 'unknown', text: '', totalBytes: 0, doneBytes: 0, seeded: 0 }
    const { state, size, amount_left: left, seeding_time: seeded = 0 } = found
    const totalBytes = Math.max(0, size)
    const common = { text: state, totalBytes, doneBytes: Math.max(0, totalBytes - left), seeded }
    const reason = failedStates.get(state)
    if (reason !== undefined) {
      const error = new GatewayError('unavailable', { reason })
      return { ...common, state: 'failed', error }
    }
    return { ...common, state: completeStates.has(state) && left === 0 ? 'done' : 'working' }
  }

  async remove(key: DownloadKey, withFiles: boolean, signal: AbortSignal): Promise<void> {
    const found = await this.#find(key, signal)
    if (found) {
      const body = new URLSearchParams({ hashes: found.hash, deleteFiles: String(withFiles) })
      await this.#call('torrents/delete', body, signal)
    }
    await this.#call('torrents/deleteTags', new URLSearchParams({ tags: tagOf(key) }), signal)
  }

  async #find(key: DownloadKey, signal: AbortSignal): Promise<Torrent | undefined> {
    const tag = tagOf(key)
    const { text } = await this.#call(`torrents/info?tag=${tag}`, undefined, signal)
    const torrents = z.array(torrent).safeParse(jsonOf(text))
    if (!torrents.success) throw notQBittorrent()
    return torrents.data.find(({ tags }) => tags.split(/,\s*/).includes(tag))
  }

  /** Calls the API. Signs in and repeats the call on status 403. */
  async #call(
    path: string,
    body: FormData | URLSearchParams | undefined,
    signal: AbortSignal,
  ): Promise<ProgramResponse> {
    const first = await this.#request(path, body, signal)
    if (first.status !== 403) return assertExpected(first)
    await this.#signIn(signal)
    const second = await this.#request(path, body, signal)
    if (second.status === 403) throw refused()
    return assertExpected(second)
  }

  #request(path: string, body: FormData | URLSearchParams | undefined, signal: AbortSignal): Promise<ProgramResponse> {
    const { url } = this.#endpoint()
    const session = this.#session?.address === this.address() ? this.#session : undefined
    const headers = { referer: url.origin, ...(session && { cookie: session.cookie }) }
    const init = { method: body ? 'POST' : 'GET', headers, signal, ...(body && { body }) }
    return callProgram(name, new URL(`api/v2/${path}`, url), init)
  }

  async #signIn(signal: AbortSignal): Promise<void> {
    const { username, password } = this.#endpoint()
    const address = this.address()
    this.#session = undefined
    const { status, text, headers } = await this.#request(
      'auth/login',
      new URLSearchParams({ username, password }),
      signal,
    )
    if (status >= 300 || text.startsWith('Fails')) throw refused()
    const [cookie = ''] = headers.getSetCookie()[0]?.split(';') ?? []
    this.#session = { address, cookie }
  }

  #endpoint(): { readonly url: URL; readonly username: string; readonly password: string } {
    const url = parseUrl(this.address())
    if (!url) throw new GatewayError('unavailable', { reason: 'qbittorrent_url is no address' })
    const [username, password] = [url.username, url.password].map(decodeURIComponent) as [string, string]
    url.username = ''
    url.password = ''
    if (!url.pathname.endsWith('/')) url.pathname += '/'
    return { url, username, password }
  }
}

function tagOf({ id }: DownloadKey): string {
  return `tidegate-${id}`
}

function assertExpected(answer: ProgramResponse): ProgramResponse {
  // 409, and 415 for a file that is not a torrent, are left to the caller.
  if (answer.status < 300 || answer.status === 415 || answer.status === 409) return answer
  throw notQBittorrent()
}

function refused(): GatewayError {
  return new GatewayError('denied', { reason: 'qBittorrent refuses the user name or password' })
}

function notQBittorrent(): GatewayError {
  return new GatewayError('unavailable', { reason: 'what answers there is not qBittorrent' })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
