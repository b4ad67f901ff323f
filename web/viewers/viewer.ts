/** Which part of the console shows a file. */
import type { ShownFile } from './file-page.tsx'

export type Viewer = 'image' | 'video' | 'audio' | 'pdf' | 'markdown' | 'text' | 'none'

/** By `type` of the API. */
const byType: Readonly<Record<number, Viewer>> = { 2: 'video', 3: 'audio', 4: 'text', 5: 'image' }

/** Extensions that say more than the type. */
const byExtension: Readonly<Record<string, Viewer>> = { pdf: 'pdf', md: 'markdown', markdown: 'markdown' }

/** Texts up to this size are shown, in bytes. */
const largestText = 4 * 2 ** 20

export function viewerOf({ name, type, size }: Pick<ShownFile, 'name' | 'type' | 'size'>): Viewer {
  // Files of unknown types are often texts: the viewer of texts finds out.
  const viewer = byExtension[name.slice(name.lastIndexOf('.') + 1).toLowerCase()] ?? byType[type] ?? 'text'
  return (viewer === 'text' || viewer === 'markdown') && size > largestText ? 'none' : viewer
}
