/**
 * The options of calls to the tree that a request determines: the password of a folder, and the signal of its client.
 */
import { z } from 'zod'
import { headerText, percentDecoded } from '../../../src/base/utf8.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import { signalOf, type Exchange } from './http-api.js'

export const passwordHeaders = {
  password: z.string().optional().describe('The password of a folder that has one.'),
  cookie: z
    .string()
    .optional()
    .meta({ cookie: 'browser-password' })
    .describe('The same, percent-encoded. Used if the header `Password` is missing.'),
}

/** Headers of requests to the tree. */
export const treeHeaders = z.object(passwordHeaders).transform((headers) => ({ password: folderPassword(headers) }))

/**
 * The folder password of the header `Password`, else of the cookie `browser-password`. Undefined if both are missing.
 */
export function folderPassword(headers: {
  readonly password?: string | undefined
  readonly cookie?: string | undefined
}): string | undefined {
  if (headers.password !== undefined && headers.password !== '') return headerText(headers.password)
  const cookie = /(?:^|;\s*)browser-password=([^;]*)/.exec(headers.cookie ?? '')?.[1]
  if (cookie === undefined || cookie === '') return undefined
  const text = headerText(cookie)
  return percentDecoded(text) ?? text
}

/**
 * The options of a call to the tree: it is aborted if the client disconnects, and has the folder password of the
 * request.
 */
export function accessOptions(context: Exchange, password: string | undefined): AccessOptions {
  return { signal: signalOf(context.res), password }
}
