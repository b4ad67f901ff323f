/** Which part of the console shows a file. */
import { FileType } from '../api/schema.ts'
import type { PreviewKind } from '../preview/messages.ts'
import type { ShownFile } from './file-page.tsx'

/** 'longText': it is read part by part. 'unreadable': a grant does not let the user read the file. */
export type Viewer =
  | ('image' | 'video' | 'audio' | 'playlist' | 'pdf' | 'markdown' | 'text' | 'longText' | 'none' | 'unreadable')
  | PreviewKind

const byType: Readonly<Record<FileType, Viewer | undefined>> = {
  [FileType.unknown]: undefined,
  [FileType.folder]: undefined,
  [FileType.video]: 'video',
  [FileType.audio]: 'audio',
  [FileType.text]: 'text',
  [FileType.image]: 'image',
}

/** Extensions that say more than the type. */
const byExtension: Readonly<Record<string, Viewer>> = {
  pdf: 'pdf',
  md: 'markdown',
  markdown: 'markdown',
  m3u: 'playlist',
  m3u8: 'playlist',
  docx: 'docx',
  docm: 'docx',
  dotx: 'docx',
  xlsx: 'xlsx',
  xlsm: 'xlsx',
  xltx: 'xlsx',
  epub: 'epub',
  csv: 'csv',
  tsv: 'csv',
}

/** Texts up to this size are shown whole and can be edited, in bytes. */
export const largestText = 4 * 2 ** 20

export function viewerOf(file: Pick<ShownFile, 'name' | 'type' | 'size' | 'unreadable'>): Viewer {
  const { name, type, size, unreadable } = file
  if (unreadable === true) return 'unreadable'
  // Files of unknown types are often texts: the viewer of texts finds out.
  const viewer = byExtension[name.slice(name.lastIndexOf('.') + 1).toLowerCase()] ?? byType[type] ?? 'text'
  return (viewer === 'text' || viewer === 'markdown') && size > largestText ? 'longText' : viewer
}
