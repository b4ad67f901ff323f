/** Playlists in the form of M3U: a path in each line, relative to the playlist. */
import { linked } from '../../components/places.ts'

export interface Playlist {
  /** Paths of the tree or share. */
  readonly paths: readonly string[]
  /** The number of entries that are left out: those of other hosts, and those that lead nowhere. */
  readonly skipped: number
}

/** What is read of a file: the most bytes and the most entries. */
export const longestPlaylist = 2 ** 20
const mostEntries = 10_000

/**
 * The entries of a playlist in `folder`; null for one of HTTP Live Streaming (RFC 8216), whose entries are parts of
 * a film. `top`: what an entry begins at that begins with a slash, and above which none leads.
 */
export function playlistIn(text: string, folder: string, top: string): Playlist | null {
  if (/^#EXT-X-(?:TARGETDURATION|STREAM-INF)/m.test(text)) return null
  const lines = text
    .replace(/^\ufeff/, '')
    .split(/\r\n|\r|\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
  const paths = lines.slice(0, mostEntries).map((line) => linked(folder, addressIn(line), top))
  const found = paths.filter((path) => path !== undefined && path !== top)
  return { paths: found as readonly string[], skipped: lines.length - found.length }
}

/** The line as the path of a URL. Most programs write names as they are, some percent-escapes, some as Windows does. */
function addressIn(line: string): string {
  const path = /^[a-z][a-z0-9+.-]*:/i.test(line) ? line : line.replaceAll('\\', '/')
  return /%[0-9a-f]{2}/i.test(path) ? path : path.replaceAll('%', '%25').replaceAll('#', '%23').replaceAll('?', '%3F')
}
