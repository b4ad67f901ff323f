/** Files and folders as the API lists them. */
import { bytesOf, field, flagOf, numberOf, textOf, timeOf } from '../lib/json-api/lenient.js'
import type { IdItem } from '../lib/cloud/shown-names.js'

export interface QuarkItem extends IdItem {
  /** The size in bytes; 0 for a folder. */
  readonly size: number
  readonly isVideo: boolean
}

/** The category of videos. */
const videoCategory = 1

export function itemOf(value: unknown): QuarkItem {
  const isFile = flagOf(field(value, 'file'))
  return {
    id: textOf(field(value, 'fid')),
    name: unescapeHtml(textOf(field(value, 'file_name'))),
    kind: isFile ? 'file' : 'folder',
    size: isFile ? bytesOf(field(value, 'size')) : 0,
    modified: timeOf(field(value, 'updated_at')) ?? new Date(0),
    isVideo: isFile && numberOf(field(value, 'category')) === videoCategory,
  }
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

/** Listings have names in the form that HTML needs. Anything that is not such an entity stays as it is. */
export function unescapeHtml(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi,
    (all, decimal?: string, hex?: string, name?: string) => {
      if (decimal === undefined && hex === undefined) return entities[name ?? ''] ?? all
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
      return code <= 0x10ffff ? String.fromCodePoint(code) : all
    },
  )
}
