/** API representation of files and folders. */
import { z } from 'zod'
import { childOf, encodePath, type Path } from '../../../src/base/path.js'
import type { ProtocolGateway } from '../../../src/gateway/protocol-gateway.js'
import { sharedFileUrl } from '../../../src/shares/path-in-share.js'
import type { FolderView, SeenEntry } from '../../../src/tree/virtual-fs.js'
import type { Usage } from '../../../src/contract/capabilities.js'
import type { HttpApi } from '../api/http-api.js'
import { fileType, fileTypeNumbers, thumbnailKind } from './file-types.js'
import { timestamp } from '../api/schemas.js'

/** The space usage of a storage, in bytes. */
export const mountDetailsData = z
  .object({ total_space: z.number(), used_space: z.number(), free_space: z.number() })
  .meta({ id: 'MountDetails' })

export function mountDetails({ total, used, free }: Usage): z.input<typeof mountDetailsData> {
  return { total_space: total, used_space: used, free_space: free }
}

export const fileData = z
  .object({
    name: z.string(),
    size: z.int().describe('Bytes; 0 for a folder.'),
    is_dir: z.boolean(),
    modified: timestamp,
    created: timestamp.describe('The same as `modified` if the storage does not provide it.'),
    sign: z
      .string()
      .describe(
        'The signature of a signed URL of the file; empty if none is needed, or the user may not read the file.',
      ),
    thumb: z.string().describe('The URL of the thumbnail, or empty.'),
    type: fileType,
    hashinfo: z.string().describe('`hash_info` as JSON text.'),
    hash_info: z.record(z.string(), z.string()).nullable().describe('Hexadecimal digests by name of the algorithm.'),
    unreadable: z
      .literal(true)
      .optional()
      .describe('Only of a file that the user sees and may not read. An extension of this gateway.'),
    mount_details: mountDetailsData
      .optional()
      .describe('In bytes. Only for mount points, not for guests, and unless settings hide it.'),
  })
  .meta({ id: 'File' })

export type FileObject = Readonly<z.input<typeof fileData>>

/** A time in RFC 3339 format. `0001-01-01T00:00:00Z` if it is unknown or its year does not have four digits. */
export function wireTime(date: Date | undefined): string {
  const time = date?.getTime() ?? NaN
  if (!(time > -62135596800000 && time < 253402300800000)) return '0001-01-01T00:00:00Z'
  const day = Math.floor(time / dayLength)
  if (day !== lastDay.number) lastDay = { number: day, text: new Date(time).toISOString().slice(0, 11) }
  const milliseconds = time - day * dayLength
  const seconds = Math.floor(milliseconds / 1000)
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  const clock = `${twoDigits[hours]}:${twoDigits[minutes % 60]}:${twoDigits[seconds % 60]}`
  return `${lastDay.text}${clock}.${threeDigits[milliseconds % 1000]}Z`
}

const dayLength = 86_400_000
const twoDigits = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'))
const threeDigits = Array.from({ length: 1000 }, (_, number) => String(number).padStart(3, '0'))
/** The last formatted date. Consecutive times are often of the same day, and formatting a date is slow. */
let lastDay = { number: NaN, text: '' }

/** All that the objects of a folder depend on besides its entries and the settings. */
interface FolderForm {
  /** The folder in the whole tree, as the client named it. */
  readonly at: Path
  /** The prefix of absolute URLs. */
  readonly baseUrl: string
  readonly signed: boolean
  readonly thumbnails: FolderView['thumbnails']
}

export function folderForm({ gateway }: HttpApi, at: Path, view: FolderView, baseUrl: string): FolderForm {
  return { at, baseUrl, signed: areUrlsSigned(gateway, view), thumbnails: view.thumbnails }
}

/** Returns a function that converts entries of a folder. */
export function fileObjectConverter(
  { gateway, fileTypes }: HttpApi,
  { at, baseUrl, signed, thumbnails }: FolderForm,
): (entry: SeenEntry) => FileObject {
  /** The backend's URL of the thumbnail, else a signed URL of this server. Empty if there is none. */
  const thumbnailUrlOf = ({ name, thumbnailUrl }: SeenEntry, type: number): string => {
    if (thumbnailUrl !== undefined) return absoluteUrl(baseUrl, thumbnailUrl)
    const kind = thumbnailKind(type)
    if (kind === undefined || !thumbnails.includes(kind)) return ''
    const path = childOf(at, name)
    return `${baseUrl}/d${encodePath(path)}?type=thumb&sign=${gateway.signedUrls.sign(path)}`
  }
  const signOf = ({ name }: SeenEntry) => (signed ? gateway.signedUrls.sign(childOf(at, name)) : '')
  return converter(fileTypes, { signOf, thumbnailUrlOf })
}

/** The path of a URL below which a share is served. */
export function shareUrl(baseUrl: string, id: string, path: Path, query: Readonly<Record<string, string>>): string {
  const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString()
  return `${baseUrl}${sharedFileUrl(id, path)}${parameters === '' ? '' : `?${parameters}`}`
}

/** The place of a folder in a share, and how its files are requested. */
export interface SharedForm {
  readonly baseUrl: string
  readonly id: string
  /** The code of the visitor; empty if none is needed. */
  readonly code: string
  readonly thumbnails: FolderView['thumbnails']
}

/**
 * Returns a function that converts entries of a share: they have no signature and no URL but those of the share.
 * `pathOf`: the path of an entry within the share.
 */
export function sharedObjectConverter(
  { fileTypes }: HttpApi,
  { baseUrl, id, code, thumbnails }: SharedForm,
  pathOf: (entry: SeenEntry) => Path,
): (entry: SeenEntry) => FileObject {
  const thumbnailUrlOf = (entry: SeenEntry, type: number): string => {
    const kind = thumbnailKind(type)
    if (kind === undefined || !thumbnails.includes(kind)) return ''
    return shareUrl(baseUrl, id, pathOf(entry), { type: 'thumb', pwd: code })
  }
  return converter(fileTypes, { signOf: () => '', thumbnailUrlOf })
}

interface UrlsOfFiles {
  readonly signOf: (entry: SeenEntry) => string
  /** The URL of the thumbnail; empty if there is none. */
  readonly thumbnailUrlOf: (entry: SeenEntry, type: number) => string
}

function converter(fileTypes: HttpApi['fileTypes'], { signOf, thumbnailUrlOf }: UrlsOfFiles) {
  const typeOf = fileTypes.classifier()
  return (entry: SeenEntry): FileObject => {
    const isFolder = entry.kind === 'folder'
    // Whoever has a signature can read the file. A symlink is one that the principal cannot follow: its signature could
    // read what is outside the principal's base.
    const hasUrls = entry.kind === 'file' && entry.unreadable !== true
    const type = isFolder ? fileTypeNumbers.folder : typeOf(entry.name)
    const modified = wireTime(entry.modified)
    const { created, hashes } = entry
    const object = {
      name: entry.name,
      size: entry.size,
      is_dir: isFolder,
      modified,
      created: created === undefined || +created === +entry.modified ? modified : wireTime(created),
      sign: hasUrls ? signOf(entry) : '',
      thumb: hasUrls ? thumbnailUrlOf(entry, type) : '',
      type,
      hashinfo: hashes === undefined ? 'null' : JSON.stringify(hashes),
      hash_info: hashes ?? null,
    }
    return entry.kind === 'file' && entry.unreadable === true ? { ...object, unreadable: true } : object
  }
}

/**
 * The key under which the objects of a folder are cached. Undefined if they cannot be cached, because they contain
 * signatures that expire.
 */
export function cacheKeyOf({ gateway, fileTypes }: HttpApi, form: FolderForm): string | undefined {
  const { settings } = gateway
  if ((form.signed || form.thumbnails.length > 0) && settings.number('link_expiration') > 0) return undefined
  return JSON.stringify([form, settings.get('token'), fileTypes.settingValues])
}

/** Whether URLs of files in the folder are signed. */
export function areUrlsSigned(gateway: ProtocolGateway, view: FolderView): boolean {
  return view.signed || gateway.settings.bool('sign_all')
}

/** Prefixes a path-absolute URL, which refers to this server, with `baseUrl`. Returns other URLs unchanged. */
export function absoluteUrl(baseUrl: string, url: string): string {
  return url.startsWith('/') ? baseUrl + url : url
}
