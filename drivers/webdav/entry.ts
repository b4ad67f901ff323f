/** What the server tells of a resource as an entry. */
import type { Entry, HashName } from '../../src/driver.js'
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

/** A weak one becomes strong as time goes by (as Apache has it); the content is the same. */
export function revisionOf(etag: string | undefined): string | undefined {
  return etag?.replace(/^(?:W\/)?"(.*)"$/, '$1')
}

const hashNames: Readonly<Record<string, { readonly name: HashName; readonly digits: number }>> = {
  MD5: { name: 'md5', digits: 32 },
  SHA1: { name: 'sha1', digits: 40 },
  SHA256: { name: 'sha256', digits: 64 },
}

/** Characters. */
const checksumsLimit = 1024

function hashesOf(checksums: string): Partial<Record<HashName, string>> | undefined {
  const hashes: Partial<Record<HashName, string>> = {}
  // The few that there are; more text is none of them.
  for (const checksum of checksums.slice(0, checksumsLimit).split(/[\s,]+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\da-f]+)$/i.exec(checksum) ?? []
    const known = hashNames[word.toUpperCase()]
    if (known?.digits === digest.length) hashes[known.name] = digest.toLowerCase()
  }
  return Object.keys(hashes).length > 0 ? hashes : undefined
}
