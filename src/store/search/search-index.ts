/** The search index: its writer and its reader. */
import { openIndexFile } from './index-file.js'
import { NamesReader } from './names-reader.js'
import { NamesWriter } from './names-writer.js'

export interface SearchIndex {
  readonly writer: NamesWriter
  readonly reader: NamesReader
  close(): Promise<void>
}

/** Opens the index file; recreates it if it is corrupt or of another version. Rejects with `unavailable`. */
export async function openSearchIndex(file: string): Promise<SearchIndex> {
  const opened = await openIndexFile(file)
  return {
    writer: new NamesWriter(opened.writing),
    reader: new NamesReader(opened.reading),
    close: () => opened.close(),
  }
}
