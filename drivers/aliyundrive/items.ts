/** Files and folders as Aliyundrive lists them. */
import type { Entry } from '../../src/contract/entry.js'
import { bytesOf, field, textOf, timeOf } from '../lib/json-api/lenient.js'
import type { IdItem } from '../lib/cloud/shown-names.js'

export interface AliyundriveItem extends IdItem {
  /** The size in bytes; 0 for a folder. */
  readonly size: number
  /** When it was created or changed, whichever is later: of two with one name, the newer one has it. */
  readonly modified: Date
  readonly updated: Date | undefined
  readonly created: Date | undefined
  /** The SHA-1 in lower-case hexadecimal. */
  readonly sha1: string | undefined
  readonly thumbnailUrl: string | undefined
}

/** Reads an item of an answer. Undefined if it has no id. */
export function itemOf(value: unknown): AliyundriveItem | undefined {
  const id = textOf(field(value, 'file_id'))
  if (id === '') return undefined
  const kind = textOf(field(value, 'type')) === 'folder' ? 'folder' : 'file'
  const [updated, created] = [timeOf(field(value, 'updated_at')), timeOf(field(value, 'created_at'))]
  const sha1 = textOf(field(value, 'content_hash')).toLowerCase()
  const thumbnailUrl = textOf(field(value, 'thumbnail'))
  return {
    id,
    // `complete` and `create` name it otherwise.
    name: textOf(field(value, 'name')) || textOf(field(value, 'file_name')),
    kind,
    size: kind === 'folder' ? 0 : bytesOf(field(value, 'size')),
    modified: new Date(Math.max(updated?.getTime() ?? 0, created?.getTime() ?? 0)),
    updated,
    created,
    sha1: /^[0-9a-f]{40}$/.test(sha1) ? sha1 : undefined,
    thumbnailUrl: /^https?:\/\//.test(thumbnailUrl) ? thumbnailUrl : undefined,
  }
}

/** Whether it has everything that a listing shows of a file. */
export function isComplete({ name, updated, created, sha1 }: AliyundriveItem): boolean {
  return name !== '' && updated !== undefined && created !== undefined && sha1 !== undefined
}

/**
 * A file with other content is another one, so its content is as old as the file. `updated_at` also changes when it is
 * renamed or moved.
 */
export function entryOf(name: string, item: AliyundriveItem): Entry {
  const { id, kind, size, updated, created, sha1, thumbnailUrl } = item
  const common = { name, kind, size, modified: created ?? updated ?? new Date(0) }
  if (kind === 'folder') return common
  return {
    ...common,
    revision: sha1 ?? `${id}-${updated?.getTime() ?? 0}`,
    ...(sha1 !== undefined && { hashes: { sha1 } }),
    ...(thumbnailUrl !== undefined && { thumbnailUrl }),
  }
}
