/** URLs from which the console shows the content of files. */
import { basePath } from '../parts/places.ts'

/**
 * The URL of the content of a file. The server sends it itself, also if the storage would redirect, and forbids
 * scripts in it. `path`: in the whole tree. `sign`: the field of the API; empty if no signature is needed.
 */
export function previewUrl(path: string, sign: string): string {
  const query = sign === '' ? '' : `?sign=${encodeURIComponent(sign)}`
  return `${basePath}/p${path.split('/').map(encodeURIComponent).join('/')}${query}`
}
