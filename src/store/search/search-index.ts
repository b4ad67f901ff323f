/** The index of names: what writes it, and what reads it. */
import { openIndexFile } from './index-file.js'
import { NamesReader } from './names-reader.js'
import { NamesWriter } from './names-writer.js'

export interface SearchIndex {
  readonly writer: NamesWriter
  readonly reader: NamesReader
  close(): Promise<void>
}

/** Opens the file; what is broken or of another version is begun anew. Rejects with `unavailable`. */
export async function openSearchIndex(file: string): Promise<SearchIndex> {
  const opened = await openIndexFile(file)
  return {
    writer: new NamesWriter(opened.writing),
    reader: new NamesReader(opened.reading),
    close: () => opened.close(),
  }
}
