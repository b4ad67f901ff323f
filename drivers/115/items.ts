/** Files and folders as 115's web API reports them: in an account, and in a share. */
import type { Entry } from '../../src/contract/entry.js'
import { bytesOf, field, textOf, timeOf } from '../lib/json-api/lenient.js'
import type { AccountItem } from './account-driver.js'

export interface Item115 extends AccountItem {
  readonly created: Date | undefined
  readonly thumbnailUrl: string
}

/** An entry of an account; undefined if it has no id. A folder has no `fid`. */
export function listedItem(value: unknown): Item115 | undefined {
  return itemOf(value, textOf(field(value, 'fid')) === '')
}

/** An entry of a share; undefined if it has no id. */
export function sharedItem(value: unknown): Item115 | undefined {
  const category = textOf(field(value, 'fc'))
  return itemOf(value, category === '0' || (category === '' && textOf(field(value, 'fid')) === ''))
}

function itemOf(value: unknown, isFolder: boolean): Item115 | undefined {
  const textAt = (key: string) => textOf(field(value, key))
  const id = textAt(isFolder ? 'cid' : 'fid')
  if (id === '') return undefined
  const sha1 = textAt('sha').toLowerCase()
  return {
    id,
    // The `cid` of a file is that of its folder.
    parent: textAt(isFolder ? 'pid' : 'cid'),
    name: textAt('n'),
    kind: isFolder ? 'folder' : 'file',
    size: isFolder ? 0 : bytesOf(field(value, 's')),
    sha1: !isFolder && /^[0-9a-f]{40}$/.test(sha1) ? sha1 : undefined,
    pickCode: textAt('pc'),
    modified: timeOf(field(value, 'te'), 'seconds') ?? minuteOf(textAt('t')) ?? new Date(0),
    created: timeOf(field(value, 'tp'), 'seconds'),
    thumbnailUrl: textAt('u'),
  }
}

/** A time in seconds since 1970, or in China by the minute, such as `2024-05-17 16:05`. */
function minuteOf(text: string): Date | undefined {
  return timeOf(/^\d+$/.test(text) ? text : `${text.replace(' ', 'T')}:00+08:00`, 'seconds')
}

/** `name`: by which the item is shown. */
export function entryOf(name: string, { kind, modified, created, size, sha1, thumbnailUrl }: Item115): Entry {
  const times = { modified, ...(created && +created !== +modified && { created }) }
  if (kind === 'folder') return { name, kind, size: 0, ...times }
  return {
    name,
    kind,
    size,
    ...times,
    ...(sha1 !== undefined && { revision: sha1, hashes: { sha1 } }),
    ...(/^https?:\/\//.test(thumbnailUrl) && { thumbnailUrl }),
  }
}
