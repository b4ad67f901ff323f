/** Pictures of entries: their thumbnail if there is one, else a symbol of their kind. */
import { File, FileAudio, FileImage, FileLock, FileText, FileVideo, Folder, type LucideIcon } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { FileType } from '../api/schema.ts'
import { basePath, joined } from '../components/places.ts'
import type { Entry } from './folder.ts'
import { useSource, type Source } from './source.ts'
import './entry-icon.css'

const symbols: Readonly<Record<FileType, LucideIcon>> = {
  [FileType.unknown]: File,
  [FileType.folder]: Folder,
  [FileType.video]: FileVideo,
  [FileType.audio]: FileAudio,
  [FileType.text]: FileText,
  [FileType.image]: FileImage,
}

/** The classes that color them. */
const classes: Readonly<Record<FileType, string>> = {
  [FileType.unknown]: 'icon-file',
  [FileType.folder]: 'icon-folder',
  [FileType.video]: 'icon-video',
  [FileType.audio]: 'icon-audio',
  [FileType.text]: 'icon-text',
  [FileType.image]: 'icon-picture',
}

/** Images up to this size are their own thumbnail, in bytes. */
const smallImage = 2 ** 20

export function EntryIcon({
  entry,
  size = 20,
}: {
  readonly entry: Pick<Entry, 'type' | 'unreadable'>
  readonly size?: number
}) {
  if (entry.unreadable === true) return <FileLock aria-hidden size={size} class="icon-file" />
  const Symbol = symbols[entry.type]
  return <Symbol aria-hidden size={size} class={classes[entry.type]} />
}

/** `folder`: the folder of the entry. */
export function Thumbnail({ entry, folder }: { readonly entry: Entry; readonly folder: string }) {
  const source = useSource()
  const [failed, setFailed] = useState(false)
  const url = thumbnailOf(entry, folder, source)
  if (url === undefined || failed) return <EntryIcon entry={entry} size={64} />
  return <img src={url} alt="" loading="lazy" decoding="async" onError={() => setFailed(true)} />
}

/** A picture from this server: others must not learn what is looked at. */
function thumbnailOf(entry: Entry, folder: string, source: Source): string | undefined {
  const { name, sign, size, thumb, type, unreadable } = entry
  if (unreadable === true) return undefined
  if (thumb !== '') {
    const { pathname, search, searchParams } = new URL(thumb, document.baseURI)
    const isOurs = ['d', 'sd'].some((first) => pathname.startsWith(`${basePath}/${first}/`))
    if (isOurs && searchParams.get('type') === 'thumb') return pathname + search
  }
  return type === FileType.image && size <= smallImage ? source.previewUrl(joined(folder, name), sign) : undefined
}
