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

interface Look {
  readonly Symbol: LucideIcon
  /** The class that colors it. */
  readonly name: string
}

const byType: Readonly<Record<FileType, Look>> = {
  [FileType.unknown]: { Symbol: File, name: 'icon-file' },
  [FileType.folder]: { Symbol: Folder, name: 'icon-folder' },
  [FileType.video]: { Symbol: FileVideo, name: 'icon-video' },
  [FileType.audio]: { Symbol: FileAudio, name: 'icon-audio' },
  [FileType.text]: { Symbol: FileText, name: 'icon-text' },
  [FileType.image]: { Symbol: FileImage, name: 'icon-picture' },
}

/** The kinds that the server does not tell apart, with the extensions of their files. */
const kinds: readonly (readonly [Look, extensions: string])[] = [
  [{ Symbol: FileText, name: 'icon-pdf' }, 'pdf'],
  [{ Symbol: FileText, name: 'icon-text' }, 'doc docx epub odt rtf'],
  [{ Symbol: FileSpreadsheet, name: 'icon-table' }, 'csv ods tsv xls xlsx'],
  [{ Symbol: FileArchive, name: 'icon-archive' }, '7z bz2 gz iso rar tar tgz xz zip zst'],
  [{ Symbol: FileCode, name: 'icon-code' }, 'c cpp css go h html java js json php py rb rs sh sql ts tsx xml yaml yml'],
]
const byExtension = new Map(kinds.flatMap(([look, all]) => all.split(' ').map((extension) => [extension, look])))

function lookOf({ type, name }: Pick<Entry, 'type' | 'name'>): Look {
  const extension = name.slice(name.lastIndexOf('.') + 1).toLowerCase()
  return (type === FileType.folder ? undefined : byExtension.get(extension)) ?? byType[type]
}

export function EntryIcon({
  entry,
  size = 20,
}: {
  readonly entry: Pick<Entry, 'name' | 'type' | 'unreadable'>
  readonly size?: number
}) {
  if (entry.unreadable === true) return <FileLock aria-hidden size={size} class="icon-file" />
  const { Symbol, name } = lookOf(entry)
  return <Symbol aria-hidden size={size} class={name} />
}
