/** The calls of the 115 Open double that list and change files and folders. */
import type { Drive, DriveNode } from './drive.js'
import { rootFolder } from './drive.js'
import { asNumberOrText, jsonNumber, Refusal, refusals } from './answers.js'

/** The result of a call: the data, and keys beside it. */
export interface Done {
  readonly data: unknown
  readonly beside?: object
}

export type Call = (fields: URLSearchParams) => Done | Promise<Done>

/** The value of a required field. */
export function required(fields: URLSearchParams, name: string): string {
  const value = fields.get(name)
  if (value === null) throw refusals.parameters()
  return value
}

/** Maximum number of entries of one answer of a listing: more are not sent, whatever is asked for. */
const maxPage = 1150
const maxName = 255
const orders = ['file_name', 'file_size', 'user_utime', 'file_type']

export class FileCalls {
  /** A listing of a folder that does not exist is that of the root; otherwise it is empty. */
  listsRootForMissing = true

  constructor(private readonly drive: Drive) {}

  readonly calls: Readonly<Record<string, Call>> = {
    'GET /open/ufile/files': (fields) => this.#list(fields),
    'POST /open/folder/get_info': (fields) => this.#infoByPath(required(fields, 'path')),
    'GET /open/folder/get_info': (fields) => this.#infoById(required(fields, 'file_id')),
    'POST /open/folder/add': (fields) => this.#makeFolder(fields),
    'POST /open/ufile/update': (fields) => this.#rename(fields),
    'POST /open/ufile/move': (fields) => this.#move(fields),
    'POST /open/ufile/copy': (fields) => this.#copy(fields),
    'POST /open/ufile/delete': (fields) => this.#remove(fields),
  }

  #list(fields: URLSearchParams): Done {
    const asked = required(fields, 'cid')
    const isFound = this.drive.isFolder(asked)
    const folder = isFound || !this.listsRootForMissing ? asked : rootFolder
    const [offset, limit] = [Number(fields.get('offset') ?? 0), Number(fields.get('limit') ?? 20)]
    const order = fields.get('o') ?? 'user_utime'
    if (!Number.isInteger(offset) || !Number.isInteger(limit) || limit < 1 || !orders.includes(order)) {
      throw refusals.parameters()
    }
    const shown = this.drive
      .listing(folder)
      .filter(({ content }) => content !== undefined || fields.get('show_dir') === '1')
      .toSorted(comparison(order, fields.get('asc') !== '0'))
    const page = shown.slice(offset, offset + Math.min(limit, maxPage))
    const beside = {
      count: asNumberOrText(shown.length),
      offset,
      limit: asNumberOrText(Math.min(limit, maxPage)),
      cid: folder === rootFolder ? 0 : jsonNumber(folder),
    }
    return { data: page.map(itemOf), beside }
  }

  /** The vendor refuses a path that does not exist. */
  #infoByPath(path: string): Done {
    const node = this.drive.byPath(path)
    if (!node) throw refusals.missing()
    return { data: this.#infoOf(node) }
  }

  /** The vendor answers with an empty list for an id that does not exist. */
  #infoById(id: string): Done {
    const node = this.drive.get(id)
    return { data: node ? this.#infoOf(node) : [] }
  }

  #infoOf({ id, name, content, pickCode, created, modified }: DriveNode): object {
    return {
      file_id: id,
      file_name: name,
      file_category: content ? '1' : '0',
      size: content ? `${content.size}B` : '0B',
      size_byte: asNumberOrText(content?.size ?? 0),
      sha1: content?.sha1 ?? '',
      pick_code: pickCode,
      ptime: String(created),
      utime: String(modified),
      paths: this.drive.ancestors(id).map((each) => ({ file_id: each.id, file_name: each.name })),
    }
  }

  #makeFolder(fields: URLSearchParams): Done {
    const [parent, name] = [required(fields, 'pid'), required(fields, 'file_name')]
    this.#assertFolder(parent)
    assertName(name)
    const isTaken = this.drive.members(parent).some((node) => node.name === name && node.content === undefined)
    if (isTaken) throw refusals.exists()
    return { data: { file_id: this.drive.create(parent, name).id, file_name: name } }
  }

  #rename(fields: URLSearchParams): Done {
    const [id, name] = [required(fields, 'file_id'), required(fields, 'file_name')]
    if (!this.drive.get(id)) throw refusals.missing()
    assertName(name)
    this.drive.rename(id, name)
    return { data: { file_name: name, star: '0' } }
  }

  #move(fields: URLSearchParams): Done {
    const target = required(fields, 'to_cid')
    this.#assertFolder(target)
    const ids = this.#idsOf(required(fields, 'file_ids'))
    if (ids.some((id) => this.drive.isWithin(id, target))) throw refusals.intoItself()
    for (const id of ids) this.drive.move(id, target)
    return { data: [] }
  }

  #copy(fields: URLSearchParams): Done {
    const target = required(fields, 'pid')
    this.#assertFolder(target)
    const ids = this.#idsOf(required(fields, 'file_id'))
    if (ids.some((id) => this.drive.isWithin(id, target))) throw refusals.copyIntoItself()
    const names = ids.map((id) => this.drive.get(id)?.name)
    const isTaken = this.drive.members(target).some(({ name }) => names.includes(name))
    if (fields.get('no_dupli') === '1' && isTaken) throw refusals.exists()
    for (const id of ids) this.drive.copy(id, target)
    return { data: [] }
  }

  #remove(fields: URLSearchParams): Done {
    const ids = this.#idsOf(required(fields, 'file_ids'))
    const parent = fields.get('parent_id')
    if (parent !== null && ids.some((id) => this.drive.get(id)?.parent !== parent)) throw refusals.parameters()
    for (const id of ids) this.drive.remove(id)
    return { data: ids }
  }

  #assertFolder(id: string): void {
    if (!this.drive.isFolder(id)) throw refusals.missing()
  }

  #idsOf(list: string): readonly string[] {
    const ids = list.split(',')
    if (ids.some((id) => !this.drive.get(id))) throw refusals.missing()
    return ids
  }
}

/** Names that the vendor refuses. The reference does not list them: these are what every service has to refuse. */
function assertName(name: string): void {
  if (Buffer.byteLength(name) > maxName || /[\0\r\n]/.test(name)) throw new Refusal(20003, '名称不合法')
}

function comparison(order: string, isAscending: boolean): (one: DriveNode, other: DriveNode) => number {
  const key = ({ name, content, modified }: DriveNode) =>
    order === 'file_size' ? (content?.size ?? 0) : order === 'user_utime' ? modified : name
  return (one, other) => {
    const [first, second] = [key(one), key(other)]
    const sign = first < second ? -1 : first > second ? 1 : 0
    return isAscending ? sign : -sign
  }
}

function itemOf({ id, parent, name, content, pickCode, created, modified }: DriveNode): object {
  return {
    fid: id,
    pid: parent,
    fc: content ? '1' : '0',
    fn: name,
    fs: content ? asNumberOrText(content.size) : 0,
    sha1: content?.sha1 ?? '',
    pc: pickCode,
    upt: asNumberOrText(modified),
    uppt: asNumberOrText(created),
    thumb: /\.(?:jpe?g|png)$/i.test(name) && content ? `https://thumb.115cdn.net/${content.sha1}` : '',
    fta: content ? '1' : '',
  }
}
