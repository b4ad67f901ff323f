/** Listings and changes of files: `webapi.115.com`, and the listing by name of `aps.115.com`. */
import type { Account } from './account.js'
import { rootId, type Drive, type Item } from './drive.js'
import { LongNumber, Refusal, type Call, type Handler } from './http-routes.js'

const maxPage = 1150
const gone = () => new Refusal(231011, '文件已删除，请勿重复操作。')
const wrongParameters = () => new Refusal(990002, '参数错误。')
/** The parameters that every listing has, besides the folder, the order and the page. */
const fixedParameters: Readonly<Record<string, string>> = { aid: '1', show_dir: '1', format: 'json' }

const orders: Readonly<Record<string, (one: Item, other: Item) => number>> = {
  file_name: (one, other) => (one.name < other.name ? -1 : 1),
  file_size: (one, other) => (one.content?.size ?? 0) - (other.content?.size ?? 0),
  file_type: (one, other) => Number(one.content !== undefined) - Number(other.content !== undefined),
  user_ptime: (one, other) => one.created - other.created,
  user_utime: (one, other) => one.updated - other.updated,
  user_otime: (one, other) => one.updated - other.updated,
}

export class FilesApi {
  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
  ) {}

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    const own =
      (handler: Handler): Handler =>
      (call) => {
        this.account.assertSignedIn(call)
        return handler(call)
      }
    const webapi = {
      'GET /files': own((call) => this.#list(call)),
      'POST /files/add': own(({ form }) => this.#makeFolder(form)),
      'POST /files/batch_rename': own(({ form }) => this.#rename(form)),
      'POST /files/move': own(({ form }) => this.#move(form)),
      'POST /files/copy': own(({ form }) => this.#copy(form)),
      'POST /rb/delete': own(({ form }) => this.#remove(form)),
      'GET /files/get_info': own(({ query }) => this.#info(query)),
      'GET /category/get': own(({ query }) => this.#category(query)),
      'GET /files/getid': own(({ query }) => this.#idOf(query.get('path') ?? '')),
      'GET /files/search': own(({ query }) => this.#search(query)),
      'GET /files/index_info': own(() => this.#space()),
      'GET /rb': own(() => this.#recycled()),
      'POST /rb/revert': own(({ form }) => this.#restore(form)),
      'POST /rb/clean': own(() => {
        this.drive.recycled.length = 0
        return { state: true, error: '', errno: '' }
      }),
    }
    return {
      'webapi.115.com': webapi,
      'web.api.115.com': webapi,
      'aps.115.com': { 'GET /natsort/files.php': own((call) => this.#list(call)) },
    }
  }

  #list({ query, host }: Call): unknown {
    for (const [name, value] of Object.entries(fixedParameters)) if (query.get(name) !== value) throw wrongParameters()
    // A folder that does not exist is answered by the root.
    const asked = query.get('cid') ?? rootId
    const cid = this.drive.isFolder(asked) ? asked : rootId
    const order = query.get('o') ?? 'user_ptime'
    const isAscending = query.get('asc') === '1'
    if (order === 'file_name' && host !== 'aps.115.com') {
      throw new Refusal(20130827, '不支持该排序', { order: 'user_ptime', is_asc: 0 })
    }
    const compare = orders[order]
    if (!compare) throw wrongParameters()
    const items = [...this.drive.listed(cid)].sort((one, other) => compare(one, other) * (isAscending ? 1 : -1))
    const page = this.#page(query, items)
    return { ...page, cid: new LongNumber(cid), order, is_asc: isAscending ? 1 : 0, state: true, error: '', errNo: 0 }
  }

  #page(query: URLSearchParams, items: readonly Item[]) {
    const offset = Number(query.get('offset') ?? 0)
    const limit = Math.min(maxPage, Math.max(1, Number(query.get('limit') ?? 56)))
    const data = items.slice(offset, offset + limit).map(listItem)
    // The count is a number, or a text if it is large.
    const count = items.length > 100 ? String(items.length) : items.length
    return { data, count, offset, limit, page_size: limit }
  }

  #makeFolder(form: URLSearchParams): unknown {
    const [parent, name] = [form.get('pid') ?? '', form.get('cname') ?? '']
    if (!this.drive.isFolder(parent) || name === '') throw wrongParameters()
    const isTaken = this.drive.members(parent).some((item) => !item.content && item.name === name)
    if (isTaken) throw new Refusal(20004, '该目录名称已存在。')
    const { id } = this.drive.add(parent, name)
    return { state: true, error: '', errno: '', aid: 1, cid: id, cname: name, file_id: id, file_name: name }
  }

  #rename(form: URLSearchParams): unknown {
    const renamed: Record<string, string> = {}
    for (const [key, name] of form) {
      const [, id] = /^files_new_name\[(\d+)\]$/.exec(key) ?? []
      if (id === undefined) continue
      if (name === '') throw wrongParameters()
      this.drive.change(this.#existing(id), { name })
      renamed[id] = name
    }
    if (Object.keys(renamed).length === 0) throw wrongParameters()
    return { state: true, error: '', errno: 0, data: renamed }
  }

  #move(form: URLSearchParams): unknown {
    const { items, target } = this.#itemsAndTarget(form, 800006)
    for (const item of items) this.drive.change(item, { parent: target })
    return { state: true, error: '', errno: '' }
  }

  #copy(form: URLSearchParams): unknown {
    const { items, target } = this.#itemsAndTarget(form, 91002)
    for (const item of items) this.drive.copy(item, target)
    return { state: true, error: '', errno: '' }
  }

  #remove(form: URLSearchParams): unknown {
    for (const item of this.#items(form)) this.drive.remove(item)
    return { state: true, error: '', errno: '' }
  }

  #itemsAndTarget(form: URLSearchParams, intoItself: number) {
    const target = form.get('pid') ?? ''
    if (!this.drive.isFolder(target)) throw wrongParameters()
    const items = this.#items(form)
    if (items.some((item) => !item.content && this.drive.isWithin(target, item.id))) {
      throw new Refusal(intoItself, '不能将文件移动或复制到自身或其子目录下。')
    }
    return { items, target }
  }

  #items(form: URLSearchParams): readonly Item[] {
    const ids = [...form].filter(([name]) => /^fid\[\d+\]$/.test(name)).map(([, id]) => id)
    if (ids.length === 0) throw wrongParameters()
    return ids.map((id) => this.#existing(id))
  }

  #existing(id: string): Item {
    const item = this.drive.get(id)
    if (!item) throw gone()
    return item
  }

  #info(query: URLSearchParams): unknown {
    const [id, pickCode] = [query.get('file_id'), query.get('pick_code')]
    const item = id === null ? this.drive.withPickCode(pickCode ?? '') : this.drive.get(id)
    if (!item) throw gone()
    return { state: true, error: '', code: 0, data: [listItem(item)] }
  }

  #category(query: URLSearchParams): unknown {
    const id = query.get('cid') ?? ''
    const item = this.drive.get(id)
    if (!item) throw wrongParameters()
    const members = this.drive.members(id)
    return {
      count: String(members.filter(({ content }) => content).length),
      size: `${item.content?.size ?? 0}B`,
      folder_count: members.filter(({ content }) => !content).length,
      ptime: String(seconds(item.created)),
      utime: String(seconds(item.updated)),
      file_name: item.name,
      pick_code: item.pickCode,
      sha1: item.content?.sha1 ?? '',
      file_category: item.content ? '1' : '0',
      paths: [
        { file_id: 0, file_name: '根目录' },
        ...this.drive.ancestors(id).map((above) => ({ file_id: above.id, file_name: above.name })),
      ],
    }
  }

  #idOf(path: string): unknown {
    let id = rootId
    for (const name of path.split('/').filter((segment) => segment !== '')) {
      const found = this.drive.members(id).find((item) => !item.content && item.name === name)
      if (!found) return { state: true, id: 0, is_private: '0', error: '', errno: 0 }
      id = found.id
    }
    return { state: true, id, is_private: '0', error: '', errno: 0 }
  }

  #search(query: URLSearchParams): unknown {
    const folder = query.get('cid') ?? rootId
    const wanted = (query.get('search_value') ?? '').toLowerCase()
    const below = (id: string): readonly Item[] =>
      this.drive.listed(id).flatMap((item) => (item.content ? [item] : [item, ...below(item.id)]))
    const found = below(folder).filter(({ name }) => name.toLowerCase().includes(wanted))
    return { ...this.#page(query, found), folder: {}, state: true, error: '', errNo: 0 }
  }

  #space(): unknown {
    const sizeOf = (id: string): number =>
      this.drive.members(id).reduce((sum, item) => sum + (item.content?.size ?? sizeOf(item.id)), 0)
    const [total, used] = [1024 ** 4, sizeOf(rootId)]
    const space = {
      all_total: { size: '1.099511627776E+12', size_format: '1TB' },
      all_use: { size: used, size_format: `${used}B` },
      all_remain: { size: String(total - used), size_format: '1TB' },
    }
    return { state: true, error: '', code: 0, data: { space_info: space } }
  }

  #recycled(): unknown {
    const data = this.drive.recycled.map((item) => ({ id: item.id, cid: item.parent, file_name: item.name }))
    return { state: true, error: '', errno: 0, data, count: data.length }
  }

  #restore(form: URLSearchParams): unknown {
    for (const [name, id] of form) {
      const item = /^rid\[\d+\]$/.test(name) ? this.drive.recycled.find((each) => each.id === id) : undefined
      if (item) this.drive.restore(item)
    }
    return { state: true, error: '', errno: 0 }
  }
}

/** An entry of a listing. Numbers are texts or numbers, as it comes. */
export function listItem(item: Item): unknown {
  const { id, parent, name, content, pickCode, created, updated } = item
  const isOdd = BigInt(id) % 2n === 1n
  const common = {
    n: name,
    pc: pickCode,
    te: either(seconds(updated), isOdd),
    tp: either(seconds(created), !isOdd),
    m: 0,
    fl: [],
  }
  if (!content) return { ...common, cid: id, pid: parent, aid: '1', t: String(seconds(updated)), ns: name }
  return {
    ...common,
    fid: id,
    cid: isOdd ? parent : new LongNumber(parent),
    aid: '1',
    uid: 123456,
    s: either(content.size, isOdd),
    sha: content.sha1,
    ico: name.includes('.') ? name.slice(name.lastIndexOf('.') + 1) : '',
    t: minuteInChina(updated),
    ...(name.endsWith('.jpg') && { u: `https://thumb.115.com/thumb/${content.sha1}_100?s=signature` }),
  }
}

function either(value: number, isText: boolean): string | number {
  return isText ? String(value) : value
}

export function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000)
}

function minuteInChina(milliseconds: number): string {
  return new Date(milliseconds + 8 * 3_600_000).toISOString().slice(0, 16).replace('T', ' ')
}
