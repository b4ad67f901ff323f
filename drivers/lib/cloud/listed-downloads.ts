/** Finds one download in the list of those that a backend makes by itself; see `Driver.findDownload`. */
import type { RemoteDownload, RemoteDownloadQuery } from '../../../src/contract/capabilities.js'

/** A download as the backend lists it. */
export interface ListedDownload extends RemoteDownload {
  /** The address as the backend shows it: a magnet link may lack parameters. */
  readonly address: string
  /** The id of its target folder; undefined if the backend does not say. */
  readonly folderId: string | undefined
}

/**
 * Reads pages until one has the download that is asked for. `folderId`: a download into another folder is not the one.
 * Pages may overlap or shift while they are read. Resolves to undefined if no page has it.
 */
export async function findInPages(
  pages: AsyncIterable<readonly ListedDownload[]>,
  folderId: string,
  { id, address }: RemoteDownloadQuery,
): Promise<RemoteDownload | undefined> {
  for await (const page of pages) {
    const found = page.find(
      (listed) =>
        (listed.folderId === undefined || listed.folderId === folderId) &&
        (id === undefined ? isSameAddress(listed.address, address) : listed.id === id),
    )
    if (found) return found
  }
  return undefined
}

function isSameAddress(one: string, other: string): boolean {
  if (one.trim() === other.trim()) return true
  const topic = topicOf(one)
  return topic !== undefined && topic === topicOf(other)
}

/** The info hash of a magnet link (BEP 9) in lower case; undefined for any other address. */
function topicOf(address: string): string | undefined {
  return /^magnet:\?(?:.*&)?xt(?:\.\d+)?=urn:btih:([0-9a-z]+)/i.exec(address.trim())?.[1]?.toLowerCase()
}
