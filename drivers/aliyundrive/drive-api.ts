/** The calls of Aliyundrive's open API about one drive. */
import type { Usage } from '../../src/contract/capabilities.js'
import { GatewayError } from '../../src/base/errors.js'
import type { ApiAnswer, ApiClient } from '../lib/json-api/api-client.js'
import { otherCalls, type CallRates } from '../lib/json-api/rate-gate.js'
import { field, flagOf, listOf, numberOf, textOf } from '../lib/json-api/lenient.js'
import type { StoredPart } from '../lib/streams/parts.js'
import { protocolViolation } from './errors.js'
import { itemOf, type AliyundriveItem } from './items.js'
import type { TokenPair } from './tokens.js'

export const apiAddress = new URL('https://openapi.alipan.com/')

/** Calls of an account per second, by their class: a little less than the vendor allows. */
export const accountLimits: CallRates = { list: 3.9, link: 0.9, [otherCalls]: 14.9 }

/** Seconds for which a download URL is valid. */
const linkLifetime = 14_400
/** Entries of one page of a listing. */
const pageLimit = 200
/** Maximum number of pages of a listing, whose entries are held in memory. */
const maxPages = 5000

interface DriveApiOptions {
  readonly client: ApiClient<TokenPair>
  readonly driveId: string
  /** The order of listings; empty: the default of the server. */
  readonly orderBy: string
  readonly orderDirection: string
  /** Whether removed entries go to the recycle bin. */
  readonly hasRecycleBin: boolean
}

export interface FilePlace {
  /** The id of the folder. */
  readonly folder: string
  readonly name: string
}

export interface NewFile extends FilePlace {
  readonly size: number
  /** The number of parts of the file. */
  readonly parts: number
  readonly modified: Date
  /** SHA-1 of its first KiB, to ask whether the server may know the file. */
  readonly preHash?: string
  /** SHA-1 of the file and the proof that we have it, to get it without sending it. */
  readonly known?: { readonly sha1: string; readonly proof: string }
}

/** An upload that was begun. */
export interface BegunUpload {
  /** The id that the file will have. */
  readonly fileId: string
  /** Empty: the file is there already. */
  readonly uploadId: string
  /** The server has the content, so that nothing has to be sent. */
  readonly isKnown: boolean
  /** Upload URLs by the numbers of their parts. */
  readonly links: ReadonlyMap<number, string>
}

/** URLs of the content of a file. */
export interface DownloadLinks {
  /** The URL of the whole content; empty if there is none. */
  readonly url: string
  /** URLs of the parts of a live photo, by their format. */
  readonly streams: Readonly<Record<string, string>>
}

/** The drive of this type of the account that the client is signed in to. Rejects with `invalid` if it has none. */
export async function findDrive(client: ApiClient<TokenPair>, type: string, signal?: AbortSignal): Promise<string> {
  const url = new URL('adrive/v1.0/user/getDriveInfo', apiAddress)
  const { data } = await client.call({ url, json: {}, repeatable: true, signal })
  const id = textOf(field(data, `${type}_drive_id`))
  if (id === '') throw new GatewayError('invalid', { reason: `the account has no drive of the type ${type}` })
  return id
}

export class DriveApi {
  constructor(private readonly options: DriveApiOptions) {}

  /** Pages of a folder's entries. Rejects with `not_found` if no folder has this id. */
  async *list(folder: string, signal?: AbortSignal, limit = pageLimit): AsyncGenerator<readonly AliyundriveItem[]> {
    const { orderBy, orderDirection } = this.options
    const order = orderBy === '' ? {} : { order_by: orderBy, order_direction: orderDirection || 'ASC' }
    let marker = ''
    for (let page = 1; page <= maxPages; page++) {
      const fields = { parent_file_id: folder, limit, marker, ...order }
      const { data } = await this.#read('openFile/list', fields, signal, 'list')
      const items = field(data, 'items')
      // It must not look like an empty folder.
      if (!Array.isArray(items)) throw protocolViolation('sent no list of the folder')
      yield items.flatMap((each) => itemOf(each) ?? [])
      const next = textOf(field(data, 'next_marker'))
      if (next === '') return
      if (next === marker) throw protocolViolation('repeats a page of a listing')
      marker = next
    }
    throw protocolViolation('lists a folder without an end')
  }

  /** Rejects with `not_found` or `invalid` if no folder has this id. */
  async assertFolder(id: string, signal?: AbortSignal): Promise<void> {
    for await (const _page of this.list(id, signal, 1)) return
  }

  /** What `resultOf` returns for the first item of a folder for which it returns anything. */
  async find<T>(
    folder: string,
    resultOf: (item: AliyundriveItem) => T | undefined,
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    for await (const items of this.list(folder, signal)) {
      for (const item of items) {
        const result = resultOf(item)
        if (result !== undefined) return result
      }
    }
    return undefined
  }

  /** Whether a folder has an entry with this id. */
  async has(folder: string, id: string, signal?: AbortSignal): Promise<boolean> {
    return (await this.find(folder, (item) => (item.id === id ? true : undefined), signal)) === true
  }

  async downloadLinks(id: string, signal?: AbortSignal): Promise<DownloadLinks> {
    const fields = { file_id: id, expire_sec: linkLifetime }
    const { data } = await this.#read('openFile/getDownloadUrl', fields, signal, 'link')
    const streams = field(data, 'streamsUrl')
    return {
      url: textOf(field(data, 'url')),
      streams: { jpeg: textOf(field(streams, 'jpeg')), mov: textOf(field(streams, 'mov')) },
    }
  }

  async usage(signal?: AbortSignal): Promise<Usage> {
    const { data } = await this.#read('user/getSpaceInfo', {}, signal)
    const [total, used] = ['total_size', 'used_size'].map((name) => numberOf(field(data, 'personal_space_info', name)))
    if (total === undefined || used === undefined) throw protocolViolation('does not report its space')
    return { total, used, free: Math.max(0, total - used) }
  }

  /** The id of the new folder. Rejects with `exists` if an entry has its name. */
  async makeFolder({ folder, name }: FilePlace, signal?: AbortSignal): Promise<string> {
    const fields = { parent_file_id: folder, name, type: 'folder', check_name_mode: 'refuse' }
    const { data } = await this.#change('openFile/create', fields, signal)
    if (flagOf(field(data, 'exist'))) throw new GatewayError('exists')
    return idOf(data)
  }

  /** Renames an entry. Other entries may have the name. Resolves to the id. */
  async rename(id: string, name: string, signal?: AbortSignal): Promise<string> {
    const { data } = await this.#change('openFile/update', { file_id: id, name, check_name_mode: 'ignore' }, signal)
    return idOf(data)
  }

  /** Moves an entry. Other entries there may have its name. Resolves to the id. */
  async move(id: string, folder: string, signal?: AbortSignal): Promise<string> {
    const fields = { file_id: id, to_parent_file_id: folder, check_name_mode: 'ignore' }
    const { data } = await this.#change('openFile/move', fields, signal)
    return idOf(data)
  }

  /** Copies a file under its name; others there may have it. The id of the copy. */
  async copy(id: string, folder: string, signal?: AbortSignal): Promise<string> {
    const fields = { file_id: id, to_parent_file_id: folder, auto_rename: false }
    const { data } = await this.#change('openFile/copy', fields, signal)
    return idOf(data)
  }

  /** Removes a file, or a folder with everything in it. */
  async remove(id: string, signal?: AbortSignal): Promise<void> {
    const call = this.options.hasRecycleBin ? 'openFile/recyclebin/trash' : 'openFile/delete'
    await this.#change(call, { file_id: id }, signal)
  }

  // Uploads

  /** Begins an upload. Rejects with the code `PreHashMatched` if the server may know the file. */
  async beginUpload(file: NewFile, signal?: AbortSignal): Promise<BegunUpload> {
    const { folder, name, size, parts, modified, preHash, known } = file
    const fields = {
      parent_file_id: folder,
      name,
      type: 'file',
      check_name_mode: 'ignore',
      part_info_list: Array.from({ length: parts }, (_, index) => ({ part_number: index + 1 })),
      local_modified_at: modified.toISOString(),
      local_created_at: modified.toISOString(),
      size,
      ...(preHash !== undefined && { pre_hash: preHash }),
      ...(known && {
        proof_version: 'v1',
        proof_code: known.proof,
        content_hash_name: 'sha1',
        content_hash: known.sha1,
      }),
    }
    // An upload that is begun twice does no harm. With a proof, the answer may be the file.
    const { data } = await this.#change('openFile/create', fields, signal, known === undefined)
    const uploadId = textOf(field(data, 'upload_id'))
    const isKnown = flagOf(field(data, 'rapid_upload'))
    if (uploadId === '' && !isKnown) throw protocolViolation('began no upload')
    return { fileId: idOf(data), uploadId, isKnown, links: linksOf(data) }
  }

  async uploadLinks(
    { fileId, uploadId }: Pick<BegunUpload, 'fileId' | 'uploadId'>,
    parts: readonly number[],
  ): Promise<ReadonlyMap<number, string>> {
    const list = parts.map((part) => ({ part_number: part }))
    const fields = { file_id: fileId, upload_id: uploadId, part_info_list: list }
    const { data } = await this.#read('openFile/getUploadUrl', fields, undefined)
    return linksOf(data)
  }

  /** The parts that the server has, by ascending number. Rejects with `not_found` if there is no such upload. */
  async *uploadedParts(
    { fileId, uploadId }: Pick<BegunUpload, 'fileId' | 'uploadId'>,
    signal?: AbortSignal,
  ): AsyncGenerator<StoredPart> {
    let marker = ''
    do {
      const fields = { file_id: fileId, upload_id: uploadId, ...(marker !== '' && { part_number_marker: marker }) }
      const { data } = await this.#read('openFile/listUploadedParts', fields, signal)
      const parts = listOf(field(data, 'uploaded_parts'))
      for (const part of parts) {
        const [number, size] = [numberOf(field(part, 'part_number')), numberOf(field(part, 'part_size'))]
        if (number !== undefined && size !== undefined) yield { number, size }
      }
      const next = textOf(field(data, 'next_part_number_marker'))
      if (next === marker || parts.length === 0) return
      marker = next
    } while (marker !== '' && marker !== '0')
  }

  /**
   * Makes the file of its parts, or of the content that the server has. Resolves to the file as the answer describes
   * it, if anything. If an answer is lost, the call is made again, and may reject although the file is there.
   */
  async completeUpload(
    { fileId, uploadId }: Pick<BegunUpload, 'fileId' | 'uploadId'>,
    signal?: AbortSignal,
  ): Promise<AliyundriveItem | undefined> {
    const { data } = await this.#change('openFile/complete', { file_id: fileId, upload_id: uploadId }, signal, true)
    return itemOf(data)
  }

  // Calls

  /** A call that changes nothing. */
  #read(path: string, fields: object, signal: AbortSignal | undefined, rateClass = otherCalls): Promise<ApiAnswer> {
    const { client, driveId } = this.options
    const json = { drive_id: driveId, ...fields }
    return client.call({ url: urlOf(path), json, repeatable: true, signal, rateClass })
  }

  #change(path: string, fields: object, signal: AbortSignal | undefined, repeatable = false): Promise<ApiAnswer> {
    const { client, driveId } = this.options
    const json = { drive_id: driveId, ...fields }
    return client.call({ url: urlOf(path), json, repeatable, signal })
  }
}

function urlOf(path: string): URL {
  return new URL(`adrive/v1.0/${path}`, apiAddress)
}

function idOf(data: unknown): string {
  const id = textOf(field(data, 'file_id'))
  if (id === '') throw protocolViolation('sent no id of what it has made')
  return id
}

function linksOf(data: unknown): ReadonlyMap<number, string> {
  return new Map(
    listOf(field(data, 'part_info_list')).flatMap((part) => {
      const [number, url] = [numberOf(field(part, 'part_number')), textOf(field(part, 'upload_url'))]
      return number === undefined || url === '' ? [] : [[number, url] as const]
    }),
  )
}
