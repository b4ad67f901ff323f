/** The API of Quark and UC: checks each call as the vendor does, and answers it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { bodyOf } from '../requests.js'
import type { QuarkDownloads } from './downloads.js'
import { rootId, type QuarkDrive, type QuarkNode } from './drive.js'
import type { QuarkSession } from './session.js'
import type { QuarkUploads } from './uploads.js'
import { QuarkRefusal, refusals, type QuarkVendor } from './vendor.js'

interface Parts {
  readonly vendor: QuarkVendor
  readonly session: QuarkSession
  readonly drive: QuarkDrive
  readonly uploads: QuarkUploads
  readonly downloads: QuarkDownloads
}

interface Call {
  readonly query: URLSearchParams
  readonly fields: Readonly<Record<string, unknown>>
  readonly userAgent: string
}

interface Answer {
  readonly data?: unknown
  readonly metadata?: object
}

type Handler = (call: Call) => Answer | Promise<Answer>

/** Entries of one page of a listing, at most. */
const maxPage = 100
const capacity = 10 * 1024 ** 4

export class QuarkApi {
  readonly #handlers: Readonly<Record<string, Handler>> = {
    'GET config': () => ({ data: {} }),
    'GET member': (call) => this.#member(call),
    'GET file/sort': (call) => this.#list(call),
    'POST file': (call) => this.#makeFolder(call),
    'POST file/rename': (call) => this.#rename(call),
    'POST file/move': (call) => this.#move(call),
    'POST file/delete': (call) => this.#delete(call),
    'POST file/download': (call) => this.#download(call),
    'POST file/v2/play/project': (call) => this.#play(call),
    'POST file/upload/pre': (call) => this.#beginUpload(call),
    'POST file/update/hash': (call) => this.#setHashes(call),
    'POST file/upload/auth': (call) => this.#sign(call),
    'POST file/upload/finish': (call) => this.#finish(call),
  }

  constructor(private readonly parts: Parts) {}

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { session } = this.parts
    try {
      const call = await this.#verified(request)
      const { data, metadata = {} } = await call.handler(call)
      const cookies = session.setCookies()
      response.writeHead(200, {
        'content-type': 'application/json',
        ...(cookies.length > 0 && { 'set-cookie': [...cookies] }),
      })
      response.end(JSON.stringify({ status: 200, code: 0, message: 'ok', timestamp: seconds(), data, metadata }))
    } catch (error) {
      // The connection was cut: there is nobody to answer.
      if (request.destroyed && !request.complete) return
      if (!(error instanceof QuarkRefusal)) throw error
      const { status, code, message } = error
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ status, code, message, timestamp: seconds(), metadata: {} }))
    }
  }

  async #verified(request: IncomingMessage): Promise<Call & { readonly handler: Handler }> {
    const { vendor, session } = this.parts
    const { method = '', url = '', headers } = request
    const { pathname, searchParams: query } = new URL(url, `https://${vendor.api}`)
    const body = (await bodyOf(request)).toString()
    session.verify(headers.cookie)
    const handler = this.#handlers[`${method} ${pathname.replace(/^\/1\/clouddrive\//, '')}`]
    if (!handler) throw new QuarkRefusal(404, 404, 'no such call')
    if (query.get('pr') !== vendor.product || query.get('fr') !== 'pc') throw refusals.invalid('pr or fr')
    if (headers.referer !== vendor.referer) throw refusals.invalid('referer')
    if (headers.accept !== 'application/json, text/plain, */*') throw refusals.invalid('accept')
    if (method === 'GET') return { handler, query, fields: {}, userAgent: headers['user-agent'] ?? '' }
    if (!/^application\/json\b/.test(headers['content-type'] ?? '')) throw refusals.invalid('content-type')
    return { handler, query, fields: parsed(body), userAgent: headers['user-agent'] ?? '' }
  }

  #member({ query }: Call): Answer {
    const expected = { fetch_subscribe: 'false', _ch: 'home', fetch_identity: 'false' }
    for (const [name, value] of Object.entries(expected)) if (query.get(name) !== value) throw refusals.invalid(name)
    const used = this.parts.drive.usedBytes()
    return { data: { total_capacity: capacity, use_capacity: used, member_type: 'NORMAL' } }
  }

  #list({ query }: Call): Answer {
    for (const name of ['fetch_all_file', 'fetch_risk_file_name', '_fetch_total']) {
      if (query.get(name) !== '1') throw refusals.invalid(name)
    }
    const [page, size] = [Number(query.get('_page')), Number(query.get('_size'))]
    if (!(Number.isInteger(page) && page >= 1)) throw refusals.invalid('_page')
    if (!(Number.isInteger(size) && size >= 1)) throw refusals.invalid('_size')
    const all = sorted(this.parts.drive.listed(query.get('pdir_fid') ?? ''), query.get('_sort') ?? '')
    const count = Math.min(size, maxPage)
    const list = all.slice((page - 1) * count, page * count).map((node) => itemOf(node))
    return { data: { list }, metadata: { _total: all.length, _count: list.length, _page: page, _size: count } }
  }

  #makeFolder({ fields }: Call): Answer {
    if (fields.dir_init_lock !== false || fields.dir_path !== '') throw refusals.invalid('dir_path')
    const { drive } = this.parts
    const [parent, name] = [textIn(fields, 'pdir_fid'), textIn(fields, 'file_name')]
    drive.assertFolder(parent)
    // Folders never share a name, whatever the rule for files.
    if (drive.members(parent).some((node) => node.name === name)) throw refusals.sameName()
    return { data: { finish: true, fid: drive.create(parent, name).fid } }
  }

  #rename({ fields }: Call): Answer {
    this.parts.drive.rename(textIn(fields, 'fid'), textIn(fields, 'file_name'))
    return { data: {} }
  }

  #move({ fields }: Call): Answer {
    const target = textIn(fields, 'to_pdir_fid')
    for (const fid of entriesOf(fields)) this.parts.drive.move(fid, target)
    return { data: { task_id: '', finish: true } }
  }

  #delete({ fields }: Call): Answer {
    for (const fid of entriesOf(fields)) this.parts.drive.remove(fid)
    return { data: { task_id: '', finish: true } }
  }

  #download({ fields, userAgent }: Call): Answer {
    const { vendor, drive, downloads } = this.parts
    if (userAgent !== vendor.userAgent) throw refusals.invalid('user-agent')
    const data = textsIn(fields, 'fids').map((fid) => {
      const { content, name } = drive.get(fid)
      if (!content) throw refusals.invalid('a folder')
      return { fid, file_name: name, size: content.size, download_url: downloads.url(content, userAgent) }
    })
    return { data }
  }

  async #play({ fields }: Call): Promise<Answer> {
    const { content, name } = this.parts.drive.get(textIn(fields, 'fid'))
    if (!content || categoryOf(name) !== 1) throw refusals.invalid('not a video')
    if (textIn(fields, 'supports') !== 'fmp4_av,m3u8,dolby_vision') throw refusals.invalid('supports')
    const resolutions = textIn(fields, 'resolutions').split(',')
    return { data: { video_list: await this.parts.downloads.transcoded(content, resolutions) } }
  }

  #beginUpload({ fields }: Call): Answer {
    if (fields.ccp_hash_update !== true || fields.dir_name !== '') throw refusals.invalid('dir_name')
    const { uploads } = this.parts
    for (const name of ['l_created_at', 'l_updated_at']) numberIn(fields, name)
    const size = numberIn(fields, 'size')
    const data = uploads.begin({
      parent: textIn(fields, 'pdir_fid'),
      name: textIn(fields, 'file_name'),
      mime: textIn(fields, 'format_type'),
      size,
    })
    return { data, metadata: { part_size: uploads.partSize, part_thread: 3 } }
  }

  #setHashes({ fields }: Call): Answer {
    const [taskId, md5, sha1] = ['task_id', 'md5', 'sha1'].map((name) => textIn(fields, name)) as [
      string,
      string,
      string,
    ]
    return { data: { finish: this.parts.uploads.setHashes(taskId, md5, sha1) } }
  }

  #sign({ fields }: Call): Answer {
    const taskId = textIn(fields, 'task_id')
    const key = this.parts.uploads.sign(taskId, textIn(fields, 'auth_info'), textIn(fields, 'auth_meta'))
    return { data: { auth_key: key, speed: -1, headers: [] } }
  }

  #finish({ fields }: Call): Answer {
    const fid = this.parts.uploads.finish(textIn(fields, 'task_id'), textIn(fields, 'obj_key'))
    return { data: { finish: true, fid } }
  }
}

function itemOf(node: QuarkNode): object {
  const { fid, parent, name, content, created, updated } = node
  const isFile = content !== undefined
  return {
    ...{ fid, file_name: escapeHtml(name), pdir_fid: parent, category: isFile ? categoryOf(name) : 0 },
    ...{ file_type: isFile ? 1 : 0, size: content?.size ?? 0, status: 1, file: isFile, dir: !isFile },
    ...{ created_at: created, updated_at: updated },
  }
}

/** 1: a video. */
function categoryOf(name: string): number {
  return /\.(?:mp4|mkv|avi|mov)$/i.test(name) ? 1 : 5
}

function escapeHtml(name: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return name.replace(/[&<>"']/g, (sign) => entities[sign] ?? sign)
}

/** `sort`: `file_type:asc,<field>:<direction>`, or empty. */
function sorted(nodes: readonly QuarkNode[], sort: string): readonly QuarkNode[] {
  if (sort === '') return nodes
  const [, by, direction] = /^file_type:asc,(file_type|file_name|updated_at):(asc|desc)$/.exec(sort) ?? []
  if (by === undefined) throw refusals.invalid('_sort')
  const keys: Readonly<Record<string, (node: QuarkNode) => string | number>> = {
    file_type: ({ content }) => (content ? 1 : 0),
    file_name: ({ name }) => name,
    updated_at: ({ updated }) => updated,
  }
  const key = keys[by] ?? (() => 0)
  const sign = direction === 'desc' ? -1 : 1
  const compare = (one: QuarkNode, other: QuarkNode) =>
    key(one) < key(other) ? -sign : key(one) > key(other) ? sign : 0
  return [...nodes].sort(
    (one, other) => Number(one.content !== undefined) - Number(other.content !== undefined) || compare(one, other),
  )
}

function parsed(body: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(body) as Readonly<Record<string, unknown>>
  } catch {
    throw refusals.invalid('not JSON')
  }
}

function textIn(fields: Readonly<Record<string, unknown>>, name: string): string {
  const value = fields[name]
  if (typeof value !== 'string' || value === '') throw refusals.invalid(name)
  return value
}

function numberIn(fields: Readonly<Record<string, unknown>>, name: string): number {
  const value = fields[name]
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) throw refusals.invalid(name)
  return value
}

function textsIn(fields: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const value = fields[name]
  const isTexts = Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string')
  if (!isTexts) throw refusals.invalid(name)
  return value
}

/** The entries of a move or a deletion. */
function entriesOf(fields: Readonly<Record<string, unknown>>): readonly string[] {
  const { action_type: type, exclude_fids: excluded } = fields
  if (type !== 1 || !Array.isArray(excluded) || excluded.length > 0) throw refusals.invalid('action_type')
  const entries = textsIn(fields, 'filelist')
  if (entries.includes(rootId)) throw refusals.invalid('the root')
  return entries
}

function seconds(): number {
  return Math.floor(Date.now() / 1000)
}
