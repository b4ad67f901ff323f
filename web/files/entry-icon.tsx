/** Pictures of entries: their thumbnail if there is one, else a symbol of their kind. */
import { File, FileAudio, FileImage, FileText, FileVideo, Folder } from 'lucide-preact'
import { useState } from 'preact/hooks'
import { previewUrl } from '../look/preview-url.ts'
import { joined } from '../parts/places.ts'
import type { Entry } from './folder.ts'

/** By `type` of the API: 0 unknown, 1 folder, 2 video, 3 audio, 4 text, 5 image. */
const symbols = [File, Folder, FileVideo, FileAudio, FileText, FileImage] as const
const image = 5

/** Images up to this size are their own thumbnail, in bytes. */
const smallImage = 2 ** 20

export function EntryIcon({ entry, size = 20 }: { readonly entry: Pick<Entry, 'type' | 'is_dir'>; readonly size?: number }) {
  const Symbol = symbols[entry.type]
  return <Symbol aria-hidden size={size} class={entry.is_dir ? 'icon-folder' : 'icon-file'} />
}

export function Thumbnail({ entry, path }: { readonly entry: Entry; readonly path: string }) {
  const [failed, setFailed] = useState(false)
  const own = entry.type === image && entry.size <= smallImage ? previewUrl(joined(path, entry.name), entry.sign) : ''
  const source = entry.thumb === '' ? own : new URL(entry.thumb, document.baseURI).pathname + new URL(entry.thumb).search
  if (source === '' || failed) return <EntryIcon entry={entry} size={64} />
  return <img src={source} alt="" loading="lazy" decoding="async" onError={() => setFailed(true)} />
}
