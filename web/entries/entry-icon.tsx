/** Pictures of entries: their thumbnail if there is one, else a symbol of their kind. */
import { File, FileAudio, FileImage, FileLock, FileText, FileVideo, Folder, type LucideIcon } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { FileType } from '../api/schema.ts'
import { previewUrl } from './preview-url.ts'
import { basePath, joined } from '../components/places.ts'
import type { Entry } from './folder.ts'

const symbols: Readonly<Record<FileType, LucideIcon>> = {
  [FileType.unknown]: File,
  [FileType.folder]: Folder,
  [FileType.video]: FileVideo,
  [FileType.audio]: FileAudio,
  [FileType.text]: FileText,
  [FileType.image]: FileImage,
}

/** Images up to this size are their own thumbnail, in bytes. */
const smallImage = 2 ** 20

export function EntryIcon({
  entry,
  size = 20,
}: {
  readonly entry: Pick<Entry, 'type' | 'is_dir' | 'unreadable'>
  readonly size?: number
}) {
  const Symbol = entry.unreadable === true ? FileLock : symbols[entry.type]
  return <Symbol aria-hidden size={size} class={entry.is_dir ? 'icon-folder' : 'icon-file'} />
}

/** `treePath`: the folder of the entry in the whole tree. */
export function Thumbnail({ entry, treePath }: { readonly entry: Entry; readonly treePath: string }) {
  const [failed, setFailed] = useState(false)
  const source = thumbnailOf(entry, treePath)
  if (source === undefined || failed) return <EntryIcon entry={entry} size={64} />
  return <img src={source} alt="" loading="lazy" decoding="async" onError={() => setFailed(true)} />
}

/** A picture from this server: others must not learn what is looked at. */
function thumbnailOf(entry: Entry, treePath: string): string | undefined {
  const { name, sign, size, thumb, type, unreadable } = entry
  if (unreadable === true) return undefined
  if (thumb !== '') {
    const { pathname, search, searchParams } = new URL(thumb, document.baseURI)
    if (pathname.startsWith(`${basePath}/d/`) && searchParams.get('type') === 'thumb') return pathname + search
  }
  return type === FileType.image && size <= smallImage ? previewUrl(joined(treePath, name), sign) : undefined
}
