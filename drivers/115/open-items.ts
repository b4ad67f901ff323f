/** Files and folders as 115's official API reports them, in listings and one by one. */
import type { Entry } from '../../src/contract/entry.js'
import { bytesOf, field, listOf, textOf, timeOf } from '../lib/api/lenient.js'
import type { AccountItem } from './account-driver.js'

export interface Open115Item extends AccountItem {
  readonly created: Date | undefined
  readonly thumbnailUrl: string | undefined
}

/** An entry of a listing; undefined for a file that another client is still uploading. */
export function listedItem(value: unknown): Open115Item | undefined {
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
export function describedItem(value: unknown): Open115Item | undefined {
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
export function entryOf(name: string, item: Open115Item): Entry {
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
