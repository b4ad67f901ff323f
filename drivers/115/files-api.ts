/** The calls of 115's web API that list and change files and folders. */
import type { Usage } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import type { ApiCall } from '../lib/json-api/api-client.js'
import type { VendorOptions } from '../lib/cloud/id-vendor.js'
import { field, flagOf, listOf, numberOf, textOf } from '../lib/json-api/lenient.js'
import { Members } from '../lib/cloud/members.js'
import type { AccountApi } from './account-driver.js'
import { codeOf, protocolViolation } from './errors.js'
import { entryOf, listedItem, type Item115 } from './items.js'
import { linkById, type Link } from './links.js'
import type { WebSession } from './web-session.js'

/** Maximum number of entries in one answer. */
export const maxPageSize = 1150
/** Maximum number of listings of a folder that changes meanwhile. */
const maxListings = 2
/** The code of a listing that cannot be sorted as it was asked for. */
const wrongOrderCode = 20130827

interface Order {
  readonly by: string
  readonly ascending: boolean
}

/** New entries come last, so that none is missed between two pages. */
const byCreation: Order = { by: 'user_ptime', ascending: true }

interface Page {
  readonly items: readonly Item115[]
  /** Number of entries that the server sent; `items` leaves out those of unknown kinds. */
  readonly received: number
  /** Number of entries of the whole folder; undefined if the server does not say. */
  readonly count: number | undefined
}

export class FilesApi implements AccountApi<Item115> {
  /** `pageSize`: entries of one answer. */
  constructor(
    private readonly session: WebSession,
    private readonly pageSize: number,
  ) {}

  /** See `IdVendor`. */
  async *list(folderId: string, { signal }: VendorOptions = {}): AsyncGenerator<readonly Item115[]> {
    yield await this.#all(folderId, signal)
  }

  async #all(folderId: string, signal: AbortSignal | undefined): Promise<readonly Item115[]> {
    for (let attempt = 1; ; attempt++) {
      const found = new Members<Item115>()
      let [pages, unknown, order, isChanged] = [0, 0, byCreation, false]
      let count: number | undefined
      do {
        const answer = await this.#page(folderId, found.received, order, signal)
        if ('by' in answer) {
          if (order !== byCreation) throw protocolViolation('cannot sort this folder')
          order = answer
          continue
        }
        isChanged ||= pages > 0 && answer.count !== count
        found.add(answer.items, answer.received)
        unknown += answer.received - answer.items.length
        count = answer.count
        pages++
        if (answer.received === 0) break
      } while (count === undefined || found.received < count)
      // What was removed meanwhile has moved other entries to a page that was already read.
      const isWhole = pages === 1 || (!isChanged && found.size + unknown >= (count ?? 0))
      if (isWhole || attempt === maxListings) return found.all
    }
  }

  /** Rejects with `not_found` if there is no folder with this id. */
  async assertFolder(folderId: string, signal?: AbortSignal): Promise<void> {
    await this.#page(folderId, 0, byCreation, signal, 1)
  }

  info(id: string, { signal }: VendorOptions = {}): Promise<Item115> {
    return this.#item('file_id', id, signal)
  }

  /** The file with this pick code. Rejects with `not_found`. */
  withPickCode(pickCode: string, signal?: AbortSignal): Promise<Item115> {
    return this.#item('pick_code', pickCode, signal)
  }

  async #item(key: string, value: string, signal: AbortSignal | undefined): Promise<Item115> {
    const url = new URL('https://webapi.115.com/files/get_info')
    url.searchParams.set(key, value)
    const { data } = await this.session.call({ url, signal })
    const [item] = listOf(field(data, 'data')).flatMap((each) => listedItem(each) ?? [])
    if (!item) throw new GatewayError('not_found')
    return item
  }

  async makeFolder(parent: string, name: string, { signal }: VendorOptions = {}): Promise<string> {
    const { data } = await this.#change('files/add', { pid: parent, cname: name }, { signal })
    const places = [data, field(data, 'data')].flatMap((at) => [field(at, 'cid'), field(at, 'file_id')])
    const id = places.map(textOf).find((text) => text !== '' && text !== parent)
    if (id === undefined) throw protocolViolation('sent no id of the new folder')
    return id
  }

  async rename({ id }: Pick<Item115, 'id'>, name: string): Promise<void> {
    const form = { fid: id, file_name: name, [`files_new_name[${id}]`]: name }
    await this.#change('files/batch_rename', form, { repeatable: true })
  }

  async move({ id }: Pick<Item115, 'id'>, folder: string): Promise<void> {
    await this.#change('files/move', { pid: folder, 'fid[0]': id }, { repeatable: true })
  }

  /** Moves the item to the recycle bin. */
  async remove({ id }: Pick<Item115, 'id'>, { signal }: VendorOptions = {}): Promise<void> {
    await this.#change('rb/delete', { 'fid[0]': id }, { signal })
  }

  entryOf(name: string, item: Item115): Entry {
    return entryOf(name, item)
  }

  async link(pickCode: string, userAgent: string, { signal }: VendorOptions): Promise<Link | undefined> {
    const address = 'https://proapi.115.com/app/chrome/downurl'
    const options = { userAgent, repeatable: true, signal }
    const { data, headers } = await this.session.sealedCall(address, { pickcode: pickCode }, options)
    return linkById(data, headers['set-cookie'])
  }

  async usage({ signal }: VendorOptions): Promise<Usage> {
    const { data } = await this.session.call({ url: new URL('https://webapi.115.com/files/index_info'), signal })
    const sizeOf = (key: string) => numberOf(field(data, 'data', 'space_info', key, 'size'))
    const [total, used, remaining] = ['all_total', 'all_use', 'all_remain'].map(sizeOf)
    if (total === undefined || used === undefined) throw new GatewayError('unsupported')
    const free = Math.max(0, Math.min(remaining ?? total - used, total - used))
    return { total: Math.round(total), used: Math.round(Math.min(used, total)), free: Math.floor(free) }
  }

  /** A call that changes something. Its answer has to say so: what an earlier change replaces is removed after it. */
  async #change(path: string, form: Readonly<Record<string, string>>, options: Pick<ApiCall, 'repeatable' | 'signal'>) {
    const answer = await this.session.call({ url: new URL(path, 'https://webapi.115.com/'), form, ...options })
    if (!flagOf(field(answer.data, 'state'))) throw protocolViolation('does not say whether it has made a change')
    return answer
  }

  /** One page of a folder, or the order in which the server can sort it. Rejects with `not_found`. */
  async #page(
    folderId: string,
    offset: number,
    { by, ascending }: Order,
    signal: AbortSignal | undefined,
    limit: number = this.pageSize,
  ): Promise<Page | Order> {
    const url = new URL(by === 'file_name' ? 'https://aps.115.com/natsort/files.php' : 'https://webapi.115.com/files')
    const query = {
      aid: 1,
      cid: folderId,
      o: by,
      asc: ascending ? 1 : 0,
      offset,
      limit,
      show_dir: 1,
      snap: 0,
      natsort: 0,
      record_open_time: 1,
      format: 'json',
      fc_mix: 0,
    }
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
    const { data } = await this.session.call({ url, signal, accepts: (answer) => codeOf(answer) === wrongOrderCode })
    if (codeOf(data) === wrongOrderCode) {
      return { by: textOf(field(data, 'order')), ascending: flagOf(field(data, 'is_asc')) }
    }
    // For a folder that does not exist, the server lists the root.
    if (textOf(field(data, 'cid')) !== folderId) throw new GatewayError('not_found')
    const items = field(data, 'data')
    // It must not look like an empty folder.
    if (!Array.isArray(items)) throw protocolViolation('sent no list of the folder')
    return {
      items: items.flatMap((each) => listedItem(each) ?? []),
      received: items.length,
      count: numberOf(field(data, 'count')),
    }
  }
}
