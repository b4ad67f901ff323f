/** Converts the properties of a WebDAV resource to an `Entry`. */
import type { Entry, HashName } from '../../src/contract/entry.js'
import type { Properties } from './multistatus.js'

export function entryOf(name: string, { isFolder, size = 0, modified = new Date(0), ...more }: Properties): Entry {
  if (isFolder === true)
    return { name, kind: 'folder', size: 0, modified, ...(more.created && { created: more.created }) }
  const revision = revisionOf(more.etag)
  const hashes = hashesOf(more.checksums ?? '')
  return {
    name,
    kind: 'file',
    size,
    modified,
    ...(revision !== undefined && { revision }),
    ...(hashes && { hashes }),
    ...(more.created && { created: more.created }),
  }
}

/**
 * The ETag without quotes and without `W/`: Apache turns the weak tag of a new file into a strong one although the
 * content is unchanged (Apache httpd: server/util_etag.c). An empty one, which all files of a server may have, is none.
 */
export function revisionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^(?:W\/)?"(.*)"$/, '$1') || undefined
}

const hashNames: Readonly<Record<string, { readonly name: HashName; readonly digits: number }>> = {
  MD5: { name: 'md5', digits: 32 },
  SHA1: { name: 'sha1', digits: 40 },
  SHA256: { name: 'sha256', digits: 64 },
}

/** Maximum length of the property that is parsed. */
const maxChecksumsLength = 1024

function hashesOf(checksums: string): Partial<Record<HashName, string>> | undefined {
  const hashes: Partial<Record<HashName, string>> = {}
  for (const checksum of checksums.slice(0, maxChecksumsLength).split(/[\s,]+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\da-f]+)$/i.exec(checksum) ?? []
    const known = hashNames[word.toUpperCase()]
    if (known?.digits === digest.length) hashes[known.name] = digest.toLowerCase()
  }
  return Object.keys(hashes).length > 0 ? hashes : undefined
}
