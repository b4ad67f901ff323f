/**
 * The API of Quark and UC, and what its answers mean. Entries have ids; every method rejects with `not_found` for an id
 * that does not exist.
 */
import type { Usage } from '../../src/contract/capabilities.js'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { ApiAnswer, ApiClient, AnswerMeaning } from '../lib/json-api/api-client.js'
import { bytesOf, field, flagOf, listOf, numberOf, textOf } from '../lib/json-api/lenient.js'
import { Members } from '../lib/cloud/members.js'
import { RecentChanges } from '../lib/cloud/recent-changes.js'
import { itemOf, type QuarkItem } from './items.js'
import type { QuarkVendor } from './vendor.js'

interface Call {
  readonly query?: Readonly<Record<string, string>>
  /** The body, which is sent as JSON. The method is POST then. */
  readonly json?: object
  /** Whether a POST may be sent again if its answer is lost. */
  readonly repeatable?: boolean
  readonly signal?: AbortSignal | undefined
}

/** How listings are ordered: options of the storage. */
export interface ListingOrder {
  readonly by: string
  readonly direction: string
}

/** A file that is about to be uploaded. */
export interface FileToUpload {
  readonly parentId: string
  readonly name: string
  /** The size in bytes. */
  readonly size: number
  readonly mime: string
  readonly modified: Date | undefined
}

/** An upload that was begun. Stored as JSON, so the names of its fields must not change. */
export interface UploadTask {
  readonly taskId: string
  readonly authInfo: string
  /** The id that the file will have. */
  readonly fileId: string
  readonly mime: string
  /** Bytes of each part but the last. */
  readonly partSize: number
  // In the object store.
  readonly uploadId: string
  readonly bucket: string
  readonly key: string
  readonly endpoint: string
  /** JSON of what the object store has to call back with. */
  readonly callback: string
}

export interface FileHashes {
  readonly md5: string
  readonly sha1: string
}

const itemsPerPage = 100
/** Maximum bytes of a part: each is held in memory. */
const maxPartSize = 1024 ** 3
/** Maximum number of listings of a folder until one has the same number of entries on its first and its last page. */
const maxListings = 3
/** Qualities of transcoded videos, from the lowest. */
const resolutions = ['low', 'normal', 'high', 'super', '2k', '4k']

export class QuarkApi {
  readonly #recent: RecentChanges

  constructor(
    private readonly client: ApiClient<string>,
    private readonly vendor: QuarkVendor,
    /** The order of listings. Absent: as the service likes. */
    private readonly order?: ListingOrder,
  ) {
    this.#recent = new RecentChanges(vendor.listingLag)
  }

  /** Rejects with `denied` if the cookie is not accepted. */
  async assertSignedIn(signal: AbortSignal | undefined): Promise<void> {
    await this.#call('config', { signal })
  }

  /** Rejects with `not_found` if no folder has this id. */
  async assertFolder(id: string, signal: AbortSignal | undefined): Promise<void> {
    await this.#call('file/sort', { query: this.#listQuery(id, 1), signal })
  }

  // Listings

  /**
   * All members of a folder. A folder that changes while it is listed is listed again, since pages shift then. Own
   * changes of names and folders are shown at once, but new members may be missing for a while.
   */
  async members(folderId: string, signal: AbortSignal | undefined): Promise<readonly QuarkItem[]> {
    for (let listing = 1; ; listing++) {
      const { items, isConsistent } = await this.#listed(folderId, signal)
      if (isConsistent || listing === maxListings) return this.#recent.applyTo(items, folderId)
    }
  }

  async #listed(folderId: string, signal: AbortSignal | undefined) {
    const items = new Members<QuarkItem>()
    const totals = new Set<number>()
    for (let page = 1; ; page++) {
      const { data } = await this.#call('file/sort', { query: this.#listQuery(folderId, page), signal })
      const list = listOf(field(data, 'data', 'list')).map(itemOf)
      const total = numberOf(field(data, 'metadata', '_total'))
      items.add(
        list.filter(({ id }) => id !== ''),
        list.length,
      )
      if (total !== undefined) totals.add(total)
      if (list.length === 0 || (total !== undefined && items.received >= total)) break
    }
    return { items: items.all, isConsistent: totals.size <= 1 && items.size === items.received }
  }

  #listQuery(folderId: string, page: number): Readonly<Record<string, string>> {
    const { order } = this
    return {
      pdir_fid: folderId,
      _page: String(page),
      _size: String(itemsPerPage),
      _fetch_total: '1',
      fetch_all_file: '1',
      fetch_risk_file_name: '1',
      ...(order && { _sort: `file_type:asc,${order.by}:${order.direction}` }),
    }
  }

  // Changes

  /** Resolves to the id of the new folder. Rejects with `exists` if the name is taken. */
  async makeFolder(parentId: string, name: string, signal: AbortSignal | undefined): Promise<string> {
    const json = { dir_init_lock: false, dir_path: '', file_name: name, pdir_fid: parentId }
    const { data } = await this.#call('file', { json, signal })
    return this.#text(data, 'fid')
  }

  async rename(id: string, name: string, signal?: AbortSignal): Promise<void> {
    await this.#call('file/rename', { json: { fid: id, file_name: name }, repeatable: true, signal })
    this.#recent.add(id, { name })
  }

  async move(id: string, folderId: string, signal?: AbortSignal): Promise<void> {
    const json = { ...entries(id), to_pdir_fid: folderId }
    await this.#call('file/move', { json, repeatable: true, signal })
    this.#recent.add(id, { folderId })
  }

  /** Removes a file, or a folder with everything in it. */
  async remove(id: string, signal?: AbortSignal): Promise<void> {
    await this.#call('file/delete', { json: entries(id), signal })
    this.#recent.add(id, { isRemoved: true })
  }

  // Downloads

  /** A URL that is bound to the cookie and to the `User-Agent` of the vendor's client. */
  async downloadUrl(id: string): Promise<URL> {
    const { data } = await this.#call('file/download', { json: { fids: [id] }, repeatable: true })
    return this.#url(field(listOf(field(data, 'data'))[0], 'download_url'))
  }

  /** A URL of a transcoded version of a video in the best quality, for any client; undefined if there is none. */
  async transcodedUrl(id: string, signal: AbortSignal | undefined): Promise<URL | undefined> {
    const json = { fid: id, resolutions: resolutions.join(','), supports: 'fmp4_av,m3u8,dolby_vision' }
    const { data } = await this.#call('file/v2/play/project', { json, repeatable: true, signal })
    const rank = (video: unknown) => resolutions.indexOf(textOf(field(video, 'resolution')))
    const [best] = listOf(field(data, 'data', 'video_list'))
      .filter((video) => textOf(field(video, 'video_info', 'url')) !== '')
      .sort((one, other) => rank(other) - rank(one))
    return best === undefined ? undefined : this.#url(field(best, 'video_info', 'url'))
  }

  async usage(signal: AbortSignal | undefined): Promise<Usage> {
    const query = { fetch_subscribe: 'false', _ch: 'home', fetch_identity: 'false' }
    const { data } = await this.#call('member', { query, signal })
    const total = numberOf(field(data, 'data', 'total_capacity'))
    const used = numberOf(field(data, 'data', 'use_capacity'))
    if (total === undefined || used === undefined) throw this.#unexpected()
    return { total, used, free: Math.max(0, total - used) }
  }

  // Uploads

  async beginUpload(file: FileToUpload, signal: AbortSignal | undefined): Promise<UploadTask> {
    const now = Date.now()
    const json = {
      ccp_hash_update: true,
      dir_name: '',
      file_name: file.name,
      format_type: file.mime,
      l_created_at: now,
      l_updated_at: file.modified?.getTime() ?? now,
      pdir_fid: file.parentId,
      size: file.size,
    }
    const { data } = await this.#call('file/upload/pre', { json, repeatable: true, signal })
    const partSize = bytesOf(field(data, 'metadata', 'part_size'))
    if (partSize === 0 || partSize > maxPartSize) throw this.#unexpected()
    return {
      taskId: this.#text(data, 'task_id'),
      authInfo: this.#text(data, 'auth_info'),
      fileId: this.#text(data, 'fid'),
      mime: file.mime,
      partSize,
      uploadId: this.#text(data, 'upload_id'),
      bucket: this.#text(data, 'bucket'),
      key: this.#text(data, 'obj_key'),
      endpoint: this.#text(data, 'upload_url'),
      callback: JSON.stringify(field(data, 'data', 'callback') ?? {}),
    }
  }

  /** Resolves to whether the service has the content, so that the file exists now. */
  async setHashes({ taskId }: UploadTask, hashes: FileHashes, signal: AbortSignal | undefined): Promise<boolean> {
    const json = { md5: hashes.md5, sha1: hashes.sha1, task_id: taskId }
    const { data } = await this.#call('file/update/hash', { json, signal })
    return flagOf(field(data, 'data', 'finish'))
  }

  /** The `Authorization` header of a request to the object store. `text`: what is to be signed. */
  async signature({ taskId, authInfo }: UploadTask, text: string, signal: AbortSignal | undefined): Promise<string> {
    const json = { auth_info: authInfo, auth_meta: text, task_id: taskId }
    const { data } = await this.#call('file/upload/auth', { json, repeatable: true, signal })
    return this.#text(data, 'auth_key')
  }

  /** The file exists when this resolves. */
  async finishUpload({ taskId, key }: UploadTask): Promise<void> {
    await this.#call('file/upload/finish', { json: { obj_key: key, task_id: taskId }, repeatable: true })
  }

  #call(path: string, { query = {}, json, repeatable, signal }: Call): Promise<ApiAnswer> {
    const { api, product, referer, userAgent } = this.vendor
    const url = new URL(path, api)
    const parameters = { pr: product, fr: 'pc', ...query }
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
    return this.client.call({
      url,
      headers: { accept: 'application/json, text/plain, */*', referer, 'user-agent': userAgent },
      signal,
      ...(json && { json }),
      ...(repeatable !== undefined && { repeatable }),
    })
  }

  /** A field of `data` that an answer must have. */
  #text(answer: unknown, name: string): string {
    const text = textOf(field(answer, 'data', name))
    if (text === '') throw this.#unexpected()
    return text
  }

  #url(value: unknown): URL {
    const text = textOf(value)
    if (!URL.canParse(text)) throw this.#unexpected()
    const url = new URL(text)
    const isUsable = /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
    if (!isUsable) throw this.#unexpected()
    return url
  }

  #unexpected(): GatewayError {
    return new GatewayError('unavailable', { reason: `the ${this.vendor.server} sent an answer that lacks a field` })
  }
}

function entries(id: string): object {
  return { action_type: 1, exclude_fids: [], filelist: [id] }
}

/** The cause of every error that an answer has led to. */
class QuarkRefusal extends Error {
  constructor(status: number, code: number, message: string) {
    super(`status ${status}, code ${code}: ${message.slice(0, 500)}`)
  }
}

/** Errors by what the text of an answer contains. The service does not publish its codes. */
const texts: readonly (readonly [RegExp, ErrorCode])[] = [
  [/同名冲突/, 'exists'],
  [/not (?:found|exist)|不存在/i, 'not_found'],
  [/capacity|空间不足|容量/i, 'no_space'],
]

/** Errors by the status of an answer. */
const statuses: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid',
  403: 'denied',
  404: 'not_found',
  413: 'too_large',
}

/** `server` names the server in error reasons. */
export function meaningOf({ status: httpStatus, data }: ApiAnswer, server: string): AnswerMeaning {
  const code = numberOf(field(data, 'code'))
  if (code === undefined) {
    return new GatewayError('unavailable', { reason: `the ${server} sent an answer of another API` })
  }
  const status = Math.max(httpStatus, numberOf(field(data, 'status')) ?? 0)
  if (status < 400 && code === 0) return 'ok'
  const message = textOf(field(data, 'message'))
  if (status === 401 || /require login/i.test(message)) return 'expired'
  if (status === 429) return 'slow down'
  const error = texts.find(([pattern]) => pattern.test(message))?.[1] ?? statuses[status] ?? 'unavailable'
  const cause = new QuarkRefusal(status, code, message)
  const isKnown = error === 'exists' || error === 'not_found' || error === 'no_space'
  return new GatewayError(error, {
    cause,
    ...(!isKnown && { reason: `the ${server} refuses this (status ${status}, code ${code})` }),
  })
}
