/** The symbol of the kind of an entry. */
import {
  File,
  FileArchive,
  FileAudio,
  FileCode,
  FileImage,
  FileLock,
  FileSpreadsheet,
  FileText,
  FileVideo,
  Folder,
  type LucideIcon,
} from 'lucide-preact'
import { FileType } from '../api/schema.ts'
import type { Entry } from './folder.ts'
import './entry-icon.css'

const symbols = {
  file: File,
  folder: Folder,
  video: FileVideo,
  audio: FileAudio,
  picture: FileImage,
  text: FileText,
  pdf: FileText,
  table: FileSpreadsheet,
  archive: FileArchive,
  code: FileCode,
} as const satisfies Readonly<Record<string, LucideIcon>>

type Kind = keyof typeof symbols

/** The classes that color them. */
const classes: Readonly<Record<Kind, string>> = {
  file: 'icon-file',
  folder: 'icon-folder',
  video: 'icon-video',
  audio: 'icon-audio',
  picture: 'icon-picture',
  text: 'icon-text',
  pdf: 'icon-pdf',
  table: 'icon-table',
  archive: 'icon-archive',
  code: 'icon-code',
}

const byType: Readonly<Record<FileType, Kind>> = {
  [FileType.unknown]: 'file',
  [FileType.folder]: 'folder',
  [FileType.video]: 'video',
  [FileType.audio]: 'audio',
  [FileType.text]: 'text',
  [FileType.image]: 'picture',
}

/** The extensions of the kinds that the server does not tell apart. */
const extensions: Readonly<Partial<Record<Kind, string>>> = {
  pdf: 'pdf',
  text: 'doc docx epub odt rtf',
  table: 'csv ods tsv xls xlsx',
  archive: '7z bz2 gz iso rar tar tgz xz zip zst',
  code: 'c cpp css go h html java js json php py rb rs sh sql ts tsx xml yaml yml',
}
const byExtension = new Map(
  (Object.keys(extensions) as Kind[]).flatMap((kind) =>
    (extensions[kind] ?? '').split(' ').map((extension) => [extension, kind]),
  ),
)

function kindOf({ type, name }: Pick<Entry, 'type' | 'name'>): Kind {
  const kind = byType[type]
  if (kind !== 'file' && kind !== 'text') return kind
  return byExtension.get(/\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? '') ?? kind
}

export function EntryIcon({
  entry,
  size = 20,
}: {
  readonly entry: Pick<Entry, 'name' | 'type' | 'unreadable'>
  readonly size?: number
}) {
  if (entry.unreadable === true) return <FileLock aria-hidden size={size} class="icon-file" />
  const kind = kindOf(entry)
  const Symbol = symbols[kind]
  return <Symbol aria-hidden size={size} class={classes[kind]} />
}
