/** The addresses of the preview documents: one for each kind of file, with all that it needs in it. */
import csv from './csv.tsx?document'
import docx from './docx.tsx?document'
import epub from './epub.tsx?document'
import xlsx from './xlsx.tsx?document'
import type { PreviewKind } from './messages.ts'

const names: Readonly<Record<PreviewKind, string>> = { csv, docx, epub, xlsx }

export function documentFor(kind: PreviewKind): string {
  return new URL(names[kind], import.meta.url).href
}
