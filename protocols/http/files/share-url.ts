/** The URLs of what shares have: /sd/ID and those below it. */
import type { IncomingMessage } from 'node:http'
import { resolvePath, root } from '../../../src/base/path.js'
import { sharedFiles, type PathInShare } from '../../../src/shares/path-in-share.js'
import { folderPassword } from '../api/access-options.js'
import { splitDownloadUrl } from './download-url.js'

export function isShareUrl(url: string): boolean {
  return url.startsWith(sharedFiles)
}

/** The path has its dot segments resolved within the share. Throws `invalid`. */
export function parseShareUrl(url: string): PathInShare & { readonly query: string } {
  const { rest, query } = splitDownloadUrl(url, sharedFiles.length)
  const [id = '', ...names] = rest.split('/')
  return { id, path: resolvePath(root, `/${names.join('/')}`), query }
}

/** The code of the share as a request for such a URL has it: in its query, or in its headers as a folder password. */
export function codeOf({ headers: { password, cookie } }: IncomingMessage, query: URLSearchParams): string {
  const inHeaders = { password: typeof password === 'string' ? password : undefined, cookie }
  return (query.get('pwd') || folderPassword(inHeaders)) ?? ''
}
