/** URLs of the content of files, for previews and downloads. */
import { queryClient } from '../api/queries.ts'
import { basePath } from '../parts/places.ts'
import type { Me } from '../session/me.ts'

/**
 * The URL of the content of a file. The server sends it itself, also if the storage would redirect, and forbids
 * scripts in it. `path`: as the user sees it. `sign`: the field of the API; empty if no signature is needed.
 */
export function previewUrl(path: string, sign: string): string {
  return signedUrl('p', path, sign)
}

/** The URL from which the browser downloads a file, perhaps straight from its backend. */
export function downloadUrl(path: string, sign: string): string {
  return signedUrl('d', path, sign)
}

function signedUrl(kind: 'd' | 'p', path: string, sign: string): string {
  const query = sign === '' ? '' : `?sign=${encodeURIComponent(sign)}`
  return `${basePath}/${kind}${treePath(path).split('/').map(encodeURIComponent).join('/')}${query}`
}

/** The path in the whole tree, of which the user sees the part below the base folder. */
function treePath(path: string): string {
  const base = queryClient.getQueryData<Me>(['me'])?.base_path ?? '/'
  return base === '/' ? path : base + path
}
