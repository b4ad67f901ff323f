/** The password of a folder, where a request has no field for it. */
import { z } from 'zod'

export const passwordHeaders = {
  password: z.string().optional().describe('The password of a folder that has one.'),
  cookie: z
    .string()
    .optional()
    .meta({ cookie: 'browser-password' })
    .describe('The same, percent-encoded, where there is no such header.'),
}

/** Of requests about the tree: the password that they bring along. */
export const treeHeaders = z.object(passwordHeaders).transform((headers) => ({ password: folderPassword(headers) }))

/** From the header `Password`, else the cookie `browser-password`, where browser clients keep it. */
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

/** Node gives header bytes as Latin-1; clients that do not escape them mean UTF-8. */
export function headerText(value: string): string {
  return Buffer.from(value, 'latin1').toString('utf8')
}
