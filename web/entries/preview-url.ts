/** URLs of the content of files, for previews and downloads. */
import { basePath, encodedPath } from '../components/places.ts'

/**
 * The URL of the content of a file. The server sends it itself, also if the storage would redirect, and forbids
 * scripts in it. `path`: in the whole tree. `sign`: the field of the API; empty if no signature is needed.
 */
export function previewUrl(path: string, sign: string): string {
  return signedUrl('p', path, sign)
}

/** The URL from which the browser saves a file, perhaps straight from its backend. As `previewUrl`. */
export function downloadUrl(path: string, sign: string): string {
  return signedUrl('d', path, sign)
}

function signedUrl(kind: 'd' | 'p', path: string, sign: string): string {
  const query = sign === '' ? '' : `?sign=${encodeURIComponent(sign)}`
  return `${basePath}/${kind}${encodedPath(path)}${query}`
}
