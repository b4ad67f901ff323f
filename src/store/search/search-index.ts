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
  const { writing, reading, close } = await openIndexFile(file)
  return { writer: new NamesWriter(writing), reader: new NamesReader(reading), close }
}
