/** Visitors of shares over HTTP, with or without cookies, and a search for what no answer to them may hold. */
import type { Served } from '../protocols/http/served.js'
import { assertDeclared } from '../protocols/http/declared.js'

/** What a request has besides its path. */
interface Ask {
  readonly method?: string
  readonly body?: string | Uint8Array | FormData
  readonly headers?: Readonly<Record<string, string>>
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly bytes: Buffer
}

export interface Entry {
  readonly name: string
  readonly is_dir: boolean
  readonly size: number
  readonly sign: string
  readonly thumb: string
  readonly raw_url: string
  readonly type: number
}

export interface Page {
  readonly content: readonly Entry[]
  readonly total: number
  readonly readme: string
  readonly header: string
  readonly write: boolean
  readonly provider: string
}

/** What an upload tells. */
interface Given {
  readonly name: string
}

interface Envelope<Data> {
  readonly code: number
  readonly message: string
  readonly data: Data
  readonly error?: string
}

export class Visitor {
  #cookie: string | undefined
  /** All that the visitor was told. */
  readonly told: string[] = []

  constructor(
    private readonly served: Pick<Served, 'url'>,
    private readonly options: { readonly agent?: string; readonly cookies?: boolean; readonly address?: string } = {},
  ) {}

  async ask(path: string, init: Ask = {}): Promise<Answer> {
    const { agent = 'browser', cookies = true, address } = this.options
    const headers = {
      'user-agent': agent,
      ...(this.#cookie !== undefined && { cookie: this.#cookie }),
      ...(address !== undefined && { 'x-forwarded-for': address }),
      ...init.headers,
    }
    const response = await fetch(this.served.url + path, { redirect: 'manual', ...init, headers })
    const bytes = Buffer.from(await response.arrayBuffer())
    const text = bytes.toString()
    const [cookie] = response.headers.getSetCookie()
    if (cookies && cookie?.startsWith('tidegate_visit=') === true) this.#cookie = cookie.split(';')[0]
    this.told.push(JSON.stringify([...response.headers]), text)
    return { status: response.status, headers: response.headers, text, bytes }
  }

  async #api<Data>(path: string, body: object, more: Readonly<Record<string, string>> = {}): Promise<Envelope<Data>> {
    const headers = { 'content-type': 'application/json', ...more }
    const answer = await this.ask(path, { method: 'POST', body: JSON.stringify(body), headers })
    const envelope = JSON.parse(answer.text) as Envelope<Data>
    assertDeclared('POST', path, envelope)
    return envelope
  }

  /** By the API, to `path`. */
  async put(
    path: string,
    body: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Envelope<Given | null>> {
    const sent = { 'file-path': encodeURIComponent(path), ...headers }
    const answer = await this.ask('/api/fs/put', { method: 'PUT', body, headers: sent })
    const envelope = JSON.parse(answer.text) as Envelope<Given | null>
    assertDeclared('PUT', '/api/fs/put', envelope)
    return envelope
  }

  mkdir(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Envelope<null>> {
    return this.#api('/api/fs/mkdir', { path }, headers)
  }

  zipLink(path: string, fields: object = {}): Promise<Envelope<{ readonly url: string; readonly expires: string }>> {
    return this.#api('/api/fs/zip_link', { path, ...fields })
  }

  list(path: string, fields: object = {}): Promise<Envelope<Page>> {
    return this.#api('/api/fs/list', { path, ...fields })
  }

  get(path: string, fields: object = {}): Promise<Envelope<Entry>> {
    return this.#api('/api/fs/get', { path, ...fields })
  }

  async names(path: string, fields: object = {}): Promise<readonly string[]> {
    const { code, data, message } = await this.list(path, fields)
    if (code !== 200) throw new Error(message)
    return data.content.map(({ name }) => name)
  }

  /** The content of a file by the URL that `get` tells. */
  async content(path: string, fields: object = {}): Promise<string> {
    const { code, data, message } = await this.get(path, fields)
    if (code !== 200) throw new Error(message)
    return (await this.ask(data.raw_url.slice(this.served.url.length))).text
  }
}

export interface ShareShown {
  readonly id: string
  readonly files: readonly string[]
  readonly accessed: number
  readonly state: string
  readonly mode: string
  readonly pwd: string
  readonly disabled: boolean
  readonly [field: string]: unknown
}

/** Makes a share. Throws the message of a refusal. */
export async function share(creator: Served, files: readonly string[], fields: object = {}): Promise<string> {
  const { data, message } = await creator.post('/api/share/create', { files, ...fields })
  if (data === null) throw new Error(message)
  return (data as ShareShown).id
}

export async function shown(creator: Served, id: string): Promise<ShareShown> {
  const { data, message } = await creator.get(`/api/share/get?id=${encodeURIComponent(id)}`)
  if (data === null) throw new Error(message)
  return data as ShareShown
}

/** The message of a share that cannot be opened. */
export const ended = {
  code: 500,
  message: 'the share has expired or is no longer valid',
  data: null,
  error: 'share_ended',
}
export const absent = { code: 500, message: 'object not found' }
