/** The calls of 115's official API, and what it reports of files and folders, which are named by their ids. */
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { Usage } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import type { ApiCall, ApiClient } from '../lib/json-api/api-client.js'
import type { VendorOptions } from '../lib/cloud/id-vendor.js'
import { field, flagOf, listOf, numberOf, textOf, bytesOf, timeOf } from '../lib/json-api/lenient.js'
import { Members } from '../lib/cloud/members.js'
import type { AccountApi, AccountItem } from './account-driver.js'
import { protocolViolation } from './errors.js'
import { linkById, type Link } from './links.js'
import { errorOf, Open115Answer } from './open-errors.js'

/** An access token, and the refresh token for the next one. */
export interface TokenPair115 {
  readonly access: string
  readonly refresh: string
}

export interface PagedOrder {
  /** A field of the API; empty: as the account sorts. */
  readonly orderBy: string
  readonly isAscending: boolean
  /** Entries of one call. */
  readonly pageSize: number
}

/** The fields of a call; those without a value are left out. */
type CallFields = Readonly<Record<string, string | number | undefined>>

const apiAddress = 'https://proapi.115.com'
const signInAddress = 'https://passportapi.115.com'
/** Milliseconds for a change that the server makes while the request waits. */
const changeTimeout = 5 * 60_000
/** Maximum number of times that a listing begins anew because entries were added or removed meanwhile. */
const maxRestarts = 2

export class Open115Api implements AccountApi<Open115Item> {
  constructor(
    private readonly client: ApiClient<TokenPair115>,
    private readonly listing: PagedOrder,
  ) {}

  // Account

  async usage(options: VendorOptions): Promise<Usage> {
    const { data } = await this.get('/open/user/info', {}, options)
    const sizeOf = (name: string) => numberOf(field(data, 'rt_space_info', name, 'size'))
    const [total, used, free] = [sizeOf('all_total'), sizeOf('all_use'), sizeOf('all_remain')]
    if (total === undefined || used === undefined) throw new GatewayError('unsupported')
    return { total, used, free: free ?? Math.max(0, total - used) }
  }

  // Files and folders

  async *list(folder: string, { signal }: VendorOptions): AsyncGenerator<readonly Open115Item[]> {
    // The pages are collected first: entries shift between them if another client changes the folder meanwhile.
    for (let restarts = 0; ; restarts++) {
      const listed = await this.#listedAtOnce(folder, signal, restarts === maxRestarts)
      if (!listed) continue
      yield listed
      return
    }
  }

  async assertFolder(id: string, signal: AbortSignal | undefined): Promise<void> {
    const { whole, data } = await this.get('/open/ufile/files', { ...this.#listFields(id, 0), limit: 1 }, { signal })
    await this.#assertListed(id, whole, listOf(data), signal)
  }

  async info(id: string, options: VendorOptions): Promise<Open115Item> {
    const { data } = await this.get('/open/folder/get_info', { file_id: id }, options)
    const item = describedItem(data)
    if (!item) throw new GatewayError('not_found')
    return item
  }

  async makeFolder(parent: string, name: string, options: VendorOptions): Promise<string> {
    const { data } = await this.change('/open/folder/add', { pid: parent, file_name: name }, options)
    const id = textOf(field(data, 'file_id'))
    if (id === '') throw protocolViolation('sent no id of the new folder')
    return id
  }

  async rename({ id }: Pick<Open115Item, 'id'>, name: string): Promise<void> {
    await this.change('/open/ufile/update', { file_id: id, file_name: name }, { repeatable: true })
  }

  async move({ id }: Pick<Open115Item, 'id'>, folder: string): Promise<void> {
    await this.change('/open/ufile/move', { file_ids: id, to_cid: folder }, { repeatable: true })
  }

  async remove({ id, parent }: Pick<Open115Item, 'id' | 'parent'>, options: VendorOptions): Promise<void> {
    await this.change('/open/ufile/delete', { file_ids: id, parent_id: parent }, options)
  }

  entryOf(name: string, item: Open115Item) {
    return entryOf(name, item)
  }

  async link(pickCode: string, userAgent: string, { signal }: VendorOptions): Promise<Link | undefined> {
    const url = new URL('/open/ufile/downurl', apiAddress)
    const call = { url, form: { pick_code: pickCode }, headers: { 'user-agent': userAgent }, repeatable: true, signal }
    const { data, headers } = await this.client.call(call)
    return linkById(field(data, 'data'), headers['set-cookie'])
  }

  // Calls

  /** A call that changes nothing. */
  async get(path: string, fields: CallFields, { signal }: VendorOptions): Promise<Answer> {
    const url = new URL(path, apiAddress)
    for (const [name, value] of Object.entries(presentFields(fields))) url.searchParams.set(name, String(value))
    return this.#call({ url, signal })
  }

  /** A call that changes something. `repeatable`: it may be sent again after the connection was lost. */
  async change(
    path: string,
    fields: CallFields,
    { signal, repeatable = false }: VendorOptions & { readonly repeatable?: boolean },
  ): Promise<Answer> {
    const url = new URL(path, apiAddress)
    return this.#call({ url, form: presentFields(fields), repeatable, timeout: changeTimeout, signal })
  }

  async #call(call: ApiCall): Promise<Answer> {
    const { data } = await this.client.call(call)
    return { whole: data, data: field(data, 'data') }
  }

  /** The members of a folder; undefined if their number has changed between two pages. `isLast`: then as they are. */
  async #listedAtOnce(
    folder: string,
    signal: AbortSignal | undefined,
    isLast: boolean,
  ): Promise<readonly Open115Item[] | undefined> {
    const items = new Members<Open115Item>()
    let first: number | undefined
    for (;;) {
      const { whole, data } = await this.get('/open/ufile/files', this.#listFields(folder, items.received), { signal })
      // It must not look like an empty folder.
      if (!Array.isArray(data)) throw protocolViolation('sent no list of the folder')
      const members = listOf(data)
      if (items.received === 0) await this.#assertListed(folder, whole, members, signal)
      const count = numberOf(field(whole, 'count'))
      if (first !== undefined && first !== count && !isLast) return undefined
      first = count
      // The server may send fewer than were asked for.
      items.add(
        members.flatMap((member) => listedItem(member) ?? []),
        members.length,
      )
      if (members.length === 0 || (count !== undefined && items.received >= count)) return items.all
    }
  }

  #listFields(folder: string, offset: number): CallFields {
    const { orderBy, isAscending, pageSize } = this.listing
    const order = orderBy === '' ? {} : { o: orderBy, asc: isAscending ? 1 : 0, custom_order: 1 }
    return { cid: folder, offset, limit: pageSize, show_dir: 1, cur: 1, ...order }
  }

  /** Rejects with `not_found` if the folder does not exist: the server may list the root then, or nothing. */
  async #assertListed(
    folder: string,
    answer: unknown,
    members: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const listed = textOf(field(answer, 'cid'))
    const parents = members.map((member) => textOf(field(member, 'pid')))
    if ((listed !== '' && listed !== folder) || parents.some((parent) => parent !== '' && parent !== folder)) {
      throw new GatewayError('not_found')
    }
    if (members.length > 0 || folder === '0') return
    const { kind } = await this.info(folder, { signal })
    if (kind !== 'folder') throw new GatewayError('not_found')
  }
}

interface Answer {
  /** The whole answer. */
  readonly whole: unknown
  readonly data: unknown
}

/** Requests new tokens. Both old ones are void afterwards. Rejects with `denied` if the refresh token is refused. */
export async function refreshTokens(client: ApiClient<TokenPair115>, refresh: string): Promise<TokenPair115> {
  const url = new URL('/open/refreshToken', signInAddress)
  const form = { refresh_token: refresh }
  const { data } = await client.call({ url, form, isAnonymous: true }).catch((error: unknown) => {
    const cause = isGatewayError(error) && error.cause instanceof Open115Answer ? error.cause : undefined
    // Whatever the server has against it, it does not take this refresh token.
    throw cause ? errorOf(cause, true) : error
  })
  const tokens = {
    access: textOf(field(data, 'data', 'access_token')),
    refresh: textOf(field(data, 'data', 'refresh_token')),
  }
  if (tokens.access === '' || tokens.refresh === '') throw protocolViolation('issued no tokens')
  return tokens
}

/** Whether an answer about one of several things reports success. Throws the error that it reports. */
export function assertDone(value: unknown): void {
  if (flagOf(field(value, 'state'))) return
  throw errorOf(new Open115Answer(textOf(field(value, 'code')), textOf(field(value, 'message'))))
}

function presentFields(fields: CallFields): Readonly<Record<string, string | number>> {
  const present = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value] as const],
  )
  return Object.fromEntries(present)
}

export interface Open115Item extends AccountItem {
  readonly created: Date | undefined
  readonly thumbnailUrl: string | undefined
}

/** An entry of a listing; undefined for a file that another client is still uploading. */
function listedItem(value: unknown): Open115Item | undefined {
  const isFolder = textOf(field(value, 'fc')) === '0'
  const uploadState = textOf(field(value, 'fta'))
  if (!isFolder && uploadState !== '' && uploadState !== '1') return undefined
  const thumbnailUrl = textOf(field(value, 'thumb'))
  return {
    id: textOf(field(value, 'fid')),
    parent: textOf(field(value, 'pid')),
    name: textOf(field(value, 'fn')),
    modified: timeOf(field(value, 'upt'), 'seconds') ?? new Date(0),
    created: timeOf(field(value, 'uppt'), 'seconds'),
    pickCode: textOf(field(value, 'pc')),
    thumbnailUrl: /^https?:\/\//.test(thumbnailUrl) ? thumbnailUrl : undefined,
    ...contentFacts(isFolder, field(value, 'fs'), field(value, 'sha1')),
  }
}

/** The answer about one file or folder; undefined if there is none. */
function describedItem(value: unknown): Open115Item | undefined {
  const id = textOf(field(value, 'file_id'))
  if (id === '') return undefined
  return {
    id,
    parent: textOf(field(listOf(field(value, 'paths')).at(-1), 'file_id')),
    name: textOf(field(value, 'file_name')),
    modified: timeOf(field(value, 'utime'), 'seconds') ?? new Date(0),
    created: timeOf(field(value, 'ptime'), 'seconds'),
    pickCode: textOf(field(value, 'pick_code')),
    thumbnailUrl: undefined,
    ...contentFacts(textOf(field(value, 'file_category')) === '0', field(value, 'size_byte'), field(value, 'sha1')),
  }
}

function contentFacts(isFolder: boolean, size: unknown, sha1: unknown) {
  if (isFolder) return { kind: 'folder', size: 0, sha1: undefined } as const
  const digest = textOf(sha1).toLowerCase()
  return {
    kind: 'file',
    size: bytesOf(size),
    sha1: /^[0-9a-f]{40}$/.test(digest) ? digest : undefined,
  } as const
}

/** The entry that is shown by this name. */
function entryOf(name: string, item: Open115Item): Entry {
  const { kind, size, modified, created, sha1, id, thumbnailUrl } = item
  const times = { modified, ...(created && { created }) }
  if (kind === 'folder') return { name, kind, size, ...times }
  return {
    name,
    kind,
    size,
    ...times,
    revision: sha1 ?? id,
    ...(sha1 !== undefined && { hashes: { sha1 } }),
    ...(thumbnailUrl !== undefined && { thumbnailUrl }),
  }
}
