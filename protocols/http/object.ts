/** Files and folders as the API shows them. */
import { z } from 'zod'
import type { Entry } from '../../src/driver.js'
import type { Gateway } from '../../src/gateway.js'
import { childOf, encodePath, under, type Path } from '../../src/path.js'
import type { FolderView, VirtualFs } from '../../src/virtual-fs.js'
import type { Door } from './context.js'
import { folderType, thumbnailKind } from './file-types.js'
import { mountDetailsData } from './mount-details.js'
import { moment } from './schemas.js'

export const fileData = z
  .object({
    name: z.string(),
    size: z.int().describe('Bytes; 0 for a folder.'),
    is_dir: z.boolean(),
    modified: moment,
    created: moment.describe('Where the storage does not know it, the same as `modified`.'),
    sign: z.string().describe('The signature for links to it; empty where they need none.'),
    thumb: z.string().describe('The address of a small picture, or empty.'),
    type: z.literal([0, 1, 2, 3, 4, 5]).describe('0: unknown, 1: folder, 2: video, 3: audio, 4: text, 5: image.'),
    hashinfo: z.string().describe('`hash_info` as JSON text.'),
    hash_info: z.record(z.string(), z.string()).nullable().describe('Digests by the name of the algorithm.'),
    mount_details: mountDetailsData
      .optional()
      .describe('Bytes; only of mount points, not for guests, and where settings do not hide it.'),
  })
  .meta({ id: 'File' })

export type FileObject = Readonly<z.input<typeof fileData>>

/** RFC 3339. A time that is not known, or that has no place in four digits of a year, is the wire's zero. */
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
/** Times that are asked for one after the other are often of one day, and a date costs more than a time of the day. */
let lastDay = { number: NaN, text: '' }

/**
 * Builds objects of entries of one folder: what is the same for all of them is asked once. `baseUrl` is what absolute links
 * start with.
 */
export function objectsIn(
  { gateway, fileTypes }: Door,
  fs: VirtualFs,
  folder: Path,
  view: FolderView,
  baseUrl: string,
): (entry: Entry) => FileObject {
  const typeOf = fileTypes.reader()
  const absolute = under(fs.principal.base, folder)
  const signed = isSigned(gateway, view)
  /** A picture of the backend's, else of ours: its link is signed always. */
  const thumbOf = ({ name, thumb }: Entry, type: number): string => {
    if (thumb !== undefined) return absoluteUrl(baseUrl, thumb)
    const kind = thumbnailKind(type)
    if (kind === undefined || !view.thumbnails.includes(kind)) return ''
    const path = childOf(absolute, name)
    return `${baseUrl}/d${encodePath(path)}?type=thumb&sign=${gateway.links.sign(path)}`
  }
  return (entry) => {
    const isFolder = entry.kind === 'folder'
    const type = isFolder ? folderType : typeOf(entry.name)
    const modified = wireTime(entry.modified)
    const { created, hashes } = entry
    return {
      name: entry.name,
      size: entry.size,
      is_dir: isFolder,
      modified,
      created: created === undefined || +created === +entry.modified ? modified : wireTime(created),
      sign: signed && !isFolder ? gateway.links.sign(childOf(absolute, entry.name)) : '',
      thumb: isFolder ? '' : thumbOf(entry, type),
      type,
      hashinfo: hashes === undefined ? 'null' : JSON.stringify(hashes),
      hash_info: hashes ?? null,
    }
  }
}

/**
 * All that the objects of the files in a folder depend on beside the folder and its entries; undefined where they are others each
 * time.
 */
export function circumstancesOf({ gateway, fileTypes }: Door, view: FolderView, baseUrl: string): string | undefined {
  const { settings } = gateway
  const signed = isSigned(gateway, view)
  if ((signed || view.thumbnails.length > 0) && settings.number('link_expiration') > 0) return undefined
  return JSON.stringify([baseUrl, signed, view.thumbnails, settings.get('token'), fileTypes.lists])
}

/** Whether links to files here carry a signature. */
export function isSigned(gateway: Gateway, view: FolderView): boolean {
  return view.signed || gateway.settings.bool('sign_all')
}

/** An address of a backend may be one of this gateway, without the base that clients know it by. */
export function absoluteUrl(baseUrl: string, url: string): string {
  return url.startsWith('/') ? baseUrl + url : url
}
