/** The password of a folder in the headers of a request. */
import { z } from 'zod'

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
  try {
    return decodeURIComponent(cookie)
  } catch {
    return cookie
  }
}

/** Decodes a header value as UTF-8. Node decodes headers as Latin-1. */
export function headerText(value: string): string {
  return Buffer.from(value, 'latin1').toString('utf8')
}
