/** The calls of the double of AliyundriveOpen that need an access token: POST requests with JSON. */
import { extname } from 'node:path'
import { AliyunError, rootId, type AliyunDrives, type AliyunNode } from './drives.js'
import type { SignedUrls } from './object-store.js'
import { account } from './tokens.js'
import { invalid, type AliyunUpload, type AliyunUploads } from './uploads.js'

export type CallKind = 'list' | 'link' | 'other'

export interface AliyunService {
  readonly drives: AliyunDrives
  readonly uploads: AliyunUploads
  readonly urls: SignedUrls
}

/** A call with the fields of its body, and the access token that it came with. */
interface Call extends AliyunService {
  readonly fields: Fields
  readonly accessToken: string
}

interface CallType {
  readonly kind?: CallKind
  readonly answer: (call: Call) => object | Promise<object>
}

/** Maximum number of items of a page. */
const maxLimit = 200
const maxLinkSeconds = 14_400
const totalSpace = 1024 ** 4

/** The fields of a call: a missing or wrong one is refused. */
export class Fields {
  constructor(private readonly values: Readonly<Record<string, unknown>>) {}

  text(name: string): string {
    return this.optionalText(name) ?? missing(name)
  }

  optionalText(name: string): string | undefined {
    const value = this.values[name]
    return value === undefined || typeof value === 'string' ? value : missing(name)
  }

  number(name: string, otherwise?: number): number {
    const value = this.values[name] ?? otherwise
    return typeof value === 'number' ? value : missing(name)
  }

  /** Must be one of these. */
  choice<Choice extends string>(name: string, choices: readonly Choice[]): Choice {
    const text = this.text(name)
    return choices.find((choice) => choice === text) ?? missing(name)
  }

  /** The part numbers of `part_info_list`. */
  parts(): readonly number[] {
    const list = this.values.part_info_list ?? []
    if (!Array.isArray(list)) return missing('part_info_list')
    return list.map((part) => {
      const { part_number: number } = part as { readonly part_number?: unknown }
      return typeof number === 'number' ? number : missing('part_info_list')
    })
  }
}

function missing(name: string): never {
  throw invalid(name.replace(/(?:^|_)(\w)/g, (_match, letter: string) => letter.toUpperCase()))
}

const checkNameModes = ['ignore', 'auto_rename', 'refuse'] as const
const files = '/adrive/v1.0/openFile'

export const calls: Readonly<Record<string, CallType>> = {
  '/adrive/v1.0/user/getDriveInfo': { answer: driveInfo },
  '/adrive/v1.0/user/getSpaceInfo': { answer: spaceInfo },
  [`${files}/list`]: { kind: 'list', answer: list },
  [`${files}/get`]: { answer: ({ drives, fields }) => itemOf(nodeOf(drives, fields)) },
  [`${files}/getDownloadUrl`]: { kind: 'link', answer: downloadUrl },
  [`${files}/create`]: { answer: create },
  [`${files}/getUploadUrl`]: { answer: uploadUrls },
  [`${files}/listUploadedParts`]: { answer: uploadedParts },
  [`${files}/complete`]: {
    answer: async ({ uploads, fields }) => itemOf(await uploads.complete(uploadOf(uploads, fields))),
  },
  [`${files}/update`]: { answer: rename },
  [`${files}/move`]: { answer: move },
  [`${files}/copy`]: { answer: copy },
  [`${files}/recyclebin/trash`]: { answer: remove },
  [`${files}/delete`]: { answer: remove },
  [`${files}/getVideoPreviewPlayInfo`]: { answer: videoPreview },
}

function driveInfo({ drives: { ids } }: Call): object {
  return {
    user_id: account,
    name: 'ann',
    default_drive_id: ids.default,
    resource_drive_id: ids.resource,
    backup_drive_id: ids.backup,
  }
}

function spaceInfo({ drives }: Call): object {
  return { personal_space_info: { total_size: totalSpace, used_size: drives.usedBytes() } }
}

function list({ drives, fields }: Call): object {
  const limit = fields.number('limit', 50)
  if (limit < 1 || limit > maxLimit) throw invalid('Limit')
  const nodes = sorted(drives.list(fields.text('drive_id'), fields.text('parent_file_id')), fields)
  const marker = fields.optionalText('marker') ?? ''
  const start = marker === '' ? 0 : nodes.findIndex(({ fileId }) => fileId === marker)
  if (start < 0) throw invalid('Marker')
  return { items: nodes.slice(start, start + limit).map(itemOf), next_marker: nodes[start + limit]?.fileId ?? '' }
}

function sorted(nodes: readonly AliyunNode[], fields: Fields): readonly AliyunNode[] {
  const by = fields.optionalText('order_by')
  const values: Readonly<Record<string, (node: AliyunNode) => string | number>> = {
    name: ({ name }) => name,
    size: ({ content }) => content?.size ?? 0,
    updated_at: ({ updatedAt }) => +updatedAt,
    created_at: ({ createdAt }) => +createdAt,
  }
  if (by === undefined) return nodes
  const value = values[by] ?? missing('order_by')
  const sign = fields.choice('order_direction', ['ASC', 'DESC']) === 'ASC' ? 1 : -1
  return [...nodes].sort((one, other) => (value(one) < value(other) ? -sign : value(one) > value(other) ? sign : 0))
}

function downloadUrl({ drives, urls, fields }: Call): object {
  const { content, fileId, name } = nodeOf(drives, fields)
  if (!content) throw new AliyunError(400, 'InvalidResource.FileTypeFolder', 'The resource is a folder.')
  const seconds = fields.number('expire_sec', 900)
  if (seconds < 1 || seconds > maxLinkSeconds) throw invalid('ExpireSec')
  const url = urls.sign(`/file/${fileId}`, 'GET', seconds)
  const expiration = new Date(Date.now() + seconds * 1000).toISOString()
  if (extname(name).toLowerCase() !== '.livp') return { url, expiration, method: 'GET' }
  const streamsUrl = {
    jpeg: urls.sign(`/jpeg/${fileId}`, 'GET', seconds),
    mov: urls.sign(`/mov/${fileId}`, 'GET', seconds),
  }
  return { url, expiration, method: 'GET', streamsUrl }
}

async function create(call: Call): Promise<object> {
  const { drives, fields } = call
  const [driveId, parentId, name] = [fields.text('drive_id'), fields.text('parent_file_id'), fields.text('name')]
  const mode = fields.choice('check_name_mode', checkNameModes)
  const type = fields.choice('type', ['file', 'folder'])
  drives.assertFolder(driveId, parentId)
  const existing = mode === 'refuse' ? drives.named(driveId, parentId, name) : undefined
  if (existing) return { ...locationOf(existing), file_name: name, exist: true, available: true }
  if (type === 'folder') {
    const node = drives.create(driveId, parentId, name)
    return { ...locationOf(node), file_name: name, type }
  }
  return createFile(call, driveId, parentId, name)
}

async function createFile(
  { uploads, fields, accessToken }: Call,
  driveId: string,
  parentId: string,
  name: string,
): Promise<object> {
  const contentHash = fields.optionalText('content_hash')
  if (contentHash !== undefined) fields.choice('content_hash_name', ['sha1'])
  const proof = contentHash === undefined ? undefined : fields.optionalText('proof_code')
  if (proof !== undefined) fields.choice('proof_version', ['v1'])
  const file = { driveId, parentId, name, size: fields.number('size'), contentHash, proof }
  const upload = await uploads.create({ ...file, preHash: fields.optionalText('pre_hash') }, accessToken)
  const isRapid = upload.rapid !== undefined
  return {
    drive_id: driveId,
    parent_file_id: parentId,
    file_id: upload.fileId,
    upload_id: upload.id,
    file_name: name,
    type: 'file',
    rapid_upload: isRapid,
    ...(!isRapid && { part_info_list: partInfo(uploads, upload, fields) }),
  }
}

function partInfo(uploads: AliyunUploads, upload: AliyunUpload, fields: Fields): readonly object[] {
  return fields.parts().map((number) => ({ part_number: number, upload_url: uploads.urlOf(upload, number) }))
}

function uploadUrls({ uploads, fields }: Call): object {
  const upload = uploadOf(uploads, fields)
  return { ...sessionOf(upload), part_info_list: partInfo(uploads, upload, fields) }
}

function uploadedParts({ uploads, fields }: Call): object {
  const upload = uploadOf(uploads, fields)
  const start = Number(fields.optionalText('part_number_marker') ?? '0')
  const all = upload.parts.map(({ md5, size }, index) => ({
    etag: `"${md5}"`,
    part_number: index + 1,
    part_size: size,
  }))
  const end = start + 1000
  const next = end < all.length ? String(end) : ''
  return { ...sessionOf(upload), uploaded_parts: all.slice(start, end), next_part_number_marker: next }
}

function rename({ drives, fields }: Call): object {
  const node = nodeOf(drives, fields)
  const name = fields.text('name')
  const mode = fields.optionalText('check_name_mode') ?? 'ignore'
  const other = mode === 'refuse' ? drives.named(node.driveId, node.parentId, name) : undefined
  if (other && other !== node) throw new AliyunError(409, 'AlreadyExist.File', 'A file of this name exists.')
  drives.change(node, node.parentId, name)
  return itemOf(node)
}

function move({ drives, fields }: Call): object {
  const node = nodeOf(drives, fields)
  const folder = fields.text('to_parent_file_id')
  const mode = fields.choice('check_name_mode', checkNameModes)
  const name = fields.optionalText('new_name') ?? node.name
  const other = mode === 'refuse' ? drives.named(node.driveId, folder, name) : undefined
  if (other) return { ...locationOf(node), exist: true }
  drives.change(node, folder, name)
  return locationOf(node)
}

function copy({ drives, fields }: Call): object {
  const node = nodeOf(drives, fields)
  const folder = fields.text('to_parent_file_id')
  drives.assertFolder(node.driveId, folder)
  return locationOf(drives.copy(node, folder))
}

function remove({ drives, fields }: Call): object {
  const node = nodeOf(drives, fields)
  drives.remove(node)
  return locationOf(node)
}

function videoPreview({ drives, urls, fields }: Call): object {
  const { fileId, driveId } = nodeOf(drives, fields)
  fields.choice('category', ['live_transcoding'])
  const seconds = fields.number('url_expire_sec', 900)
  if (seconds > maxLinkSeconds) throw invalid('UrlExpireSec')
  const task = { template_id: 'HD', status: 'finished', url: urls.sign(`/mov/${fileId}`, 'GET', seconds) }
  return { drive_id: driveId, file_id: fileId, video_preview_play_info: { live_transcoding_task_list: [task] } }
}

/** The node of `drive_id` and `file_id`. */
function nodeOf(drives: AliyunDrives, fields: Fields): AliyunNode {
  const fileId = fields.text('file_id')
  if (fileId === rootId) throw new AliyunError(400, 'InvalidResource.Root', 'The root cannot be changed.')
  return drives.get(fields.text('drive_id'), fileId)
}

function uploadOf(uploads: AliyunUploads, fields: Fields): AliyunUpload {
  return uploads.find(fields.text('drive_id'), fields.text('file_id'), fields.text('upload_id'))
}

function locationOf({ driveId, fileId, parentId }: AliyunNode): object {
  return { drive_id: driveId, file_id: fileId, parent_file_id: parentId }
}

function sessionOf({ id, fileId, file: { driveId } }: AliyunUpload): object {
  return { drive_id: driveId, file_id: fileId, upload_id: id }
}

function itemOf(node: AliyunNode): object {
  const { content, name, createdAt, updatedAt } = node
  const times = { created_at: createdAt.toISOString(), updated_at: updatedAt.toISOString() }
  if (!content) return { ...locationOf(node), name, type: 'folder', ...times }
  return {
    ...locationOf(node),
    name,
    type: 'file',
    size: content.size,
    content_hash: content.sha1,
    content_hash_name: 'sha1',
    file_extension: extname(name).slice(1),
    category: 'others',
    thumbnail: '',
    ...times,
  }
}
