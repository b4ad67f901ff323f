/** The symbol of the kind of an entry. */
import { File, FileAudio, FileImage, FileLock, FileText, FileVideo, Folder, type LucideIcon } from 'lucide-preact'
import { FileType } from '../api/schema.ts'
import type { Entry } from './folder.ts'
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
