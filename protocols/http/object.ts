/** Files and folders as the API shows them. */
import { z } from 'zod'
import type { Entry } from '../../src/driver.js'
import type { Gateway } from '../../src/gateway.js'
import { childOf, under, type Path } from '../../src/path.js'
import type { FolderView, VirtualFs } from '../../src/virtual-fs.js'
import type { Door } from './context.js'
import { folderType } from './file-types.js'
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
  })
  .meta({ id: 'File' })

export type FileObject = Readonly<z.input<typeof fileData>>

/** RFC 3339. A time that is not known, or that has no place in four digits of a year, is the wire's zero. */
export function wireTime(date: Date | undefined): string {
  const time = date?.getTime() ?? NaN
  return time > -62135596800000 && time < 253402300800000 ? new Date(time).toISOString() : '0001-01-01T00:00:00Z'
}

/** Builds objects of entries of one folder: what is the same for all of them is asked once. */
export function objectsIn(
  { gateway, fileTypes }: Door,
  fs: VirtualFs,
  folder: Path,
  view: FolderView,
): (entry: Entry) => FileObject {
  const typeOf = fileTypes.reader()
  const absolute = under(fs.principal.base, folder)
  const signed = isSigned(gateway, view)
  return (entry) => {
    const isFolder = entry.kind === 'folder'
    const modified = wireTime(entry.modified)
    const { hashes } = entry
    return {
      name: entry.name,
      size: entry.size,
      is_dir: isFolder,
      modified,
      created: entry.created === undefined ? modified : wireTime(entry.created),
      sign: signed && !isFolder ? gateway.links.sign(childOf(absolute, entry.name)) : '',
      thumb: entry.thumb ?? '',
      type: isFolder ? folderType : typeOf(entry.name),
      hashinfo: hashes === undefined ? 'null' : JSON.stringify(hashes),
      hash_info: hashes ?? null,
    }
  }
}

/** Whether links to files here carry a signature. */
export function isSigned(gateway: Gateway, view: FolderView): boolean {
  return view.signed || gateway.settings.bool('sign_all')
}

/** A path of the whole tree as part of a link: each segment percent-encoded. */
export function encodePath(path: Path): string {
  return path.split('/').map(encodeURIComponent).join('/')
}
