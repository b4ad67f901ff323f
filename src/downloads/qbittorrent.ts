/** qBittorrent, by its Web API (2.8.3 of qBittorrent 4.3.4, and later). A torrent bears a tag that is made from its key. */
import { z } from 'zod'
import { GatewayError } from '../errors.js'
import { parsedUrl } from './http-request.js'
import { callProgram, type ProgramAnswer } from './local-program.js'
import type { DownloadKey, DownloadTool, Progress, Wanted } from './tool.js'

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

/** States of one that is whole, in version 4 and in version 5. */
const whole: ReadonlySet<string> = new Set([
  ...['uploading', 'stalledUP', 'queuedUP', 'forcedUP', 'pausedUP', 'stoppedUP'],
])
const broken: ReadonlySet<string> = new Set(['error', 'missingFiles'])

export class QBittorrent implements DownloadTool {
  readonly name = name
  readonly accessKeys = ['qbittorrent_url']
  readonly schemes = ['magnet:', 'http:', 'https:']
  readonly onlyTorrents = true
  /** Of the session, and the address that it belongs to. */
  #session: { readonly address: string; readonly cookie: string } | undefined

  /** `address` tells it as it is set now: with user name and password, if there are any. */
  constructor(private readonly address: () => string) {}

  async probe(signal: AbortSignal): Promise<string> {
    this.#session = undefined
    return (await this.#call('app/version', undefined, signal)).text
  }

  async start(key: DownloadKey, wanted: Wanted, signal: AbortSignal): Promise<void> {
    const form = new FormData()
    if (wanted.kind === 'torrent') form.set('torrents', new Blob([wanted.torrent]), 'download.torrent')
    else form.set('urls', wanted.address)
    form.set('savepath', key.folder)
    form.set('tags', tagOf(key))
    form.set('autoTMM', 'false')
    form.set('contentLayout', 'Original')
    // The gateway says when it has seeded for long enough.
    form.set('ratioLimit', '-1')
    form.set('seedingTimeLimit', '-1')
    const { status, text } = await this.#call('torrents/add', form, signal)
    if (status < 300 && !text.startsWith('Fails')) return
    const reason = 'qBittorrent refuses it: it is no torrent, or one that it has already'
    throw new GatewayError('invalid', { reason })
  }

  async progress(key: DownloadKey, signal: AbortSignal): Promise<Progress> {
    const found = await this.#find(key, signal)
    if (!found) return { state: 'unknown', text: '', totalBytes: 0, doneBytes: 0, seeded: 0 }
    const { state, size, amount_left: left, seeding_time: seeded = 0 } = found
    const totalBytes = Math.max(0, size)
    const told = { text: state, totalBytes, doneBytes: Math.max(0, totalBytes - left), seeded }
    if (broken.has(state)) {
      const error = new GatewayError('unavailable', { reason: `qBittorrent: ${state}` })
      return { ...told, state: 'failed', error }
    }
    return { ...told, state: whole.has(state) && left === 0 ? 'done' : 'working' }
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
    if (!torrents.success) throw notThere()
    return torrents.data.find(({ tags }) => tags.split(/,\s*/).includes(tag))
  }

  /** Signs in where that is needed. */
  async #call(path: string, body: FormData | URLSearchParams | undefined, signal: AbortSignal): Promise<ProgramAnswer> {
    const first = await this.#ask(path, body, signal)
    if (first.status !== 403) return asExpected(first)
    await this.#signIn(signal)
    const second = await this.#ask(path, body, signal)
    if (second.status === 403) throw refused()
    return asExpected(second)
  }

  #ask(path: string, body: FormData | URLSearchParams | undefined, signal: AbortSignal): Promise<ProgramAnswer> {
    const { url } = this.#place()
    const session = this.#session?.address === this.address() ? this.#session : undefined
    const headers = { referer: url.origin, ...(session && { cookie: session.cookie }) }
    const init = { method: body ? 'POST' : 'GET', headers, signal, ...(body && { body }) }
    return callProgram(name, new URL(`api/v2/${path}`, url), init)
  }

  async #signIn(signal: AbortSignal): Promise<void> {
    const { username, password } = this.#place()
    const address = this.address()
    this.#session = undefined
    const { status, text, headers } = await this.#ask('auth/login', new URLSearchParams({ username, password }), signal)
    if (status >= 300 || text.startsWith('Fails')) throw refused()
    const [cookie = ''] = headers.getSetCookie()[0]?.split(';') ?? []
    this.#session = { address, cookie }
  }

  #place(): { readonly url: URL; readonly username: string; readonly password: string } {
    const url = parsedUrl(this.address())
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

function asExpected(answer: ProgramAnswer): ProgramAnswer {
  // 415 is what a file is told that is no torrent.
  if (answer.status < 300 || answer.status === 415 || answer.status === 409) return answer
  throw notThere()
}

function refused(): GatewayError {
  return new GatewayError('denied', { reason: 'qBittorrent refuses the user name or password' })
}

function notThere(): GatewayError {
  return new GatewayError('unavailable', { reason: 'what answers there is not qBittorrent' })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
