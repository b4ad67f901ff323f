/** Files and folders as the API shows them. */
import type { Entry } from '../../src/driver.js'
import type { Gateway } from '../../src/gateway.js'
import { childOf, under, type Path } from '../../src/path.js'
import type { FolderView, VirtualFs } from '../../src/virtual-fs.js'
import type { Door } from './context.js'
import { folderType } from './file-types.js'

export interface FileObject {
  readonly name: string
  readonly size: number
  readonly is_dir: boolean
  readonly modified: string
  readonly created: string
  /** Empty where links need none. */
  readonly sign: string
  readonly thumb: string
  readonly type: number
  /** `hash_info` as JSON text. */
  readonly hashinfo: string
  readonly hash_info: Readonly<Record<string, string>> | null
}

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
