/** The password of a folder, where a request has no field for it. */
import type { IncomingMessage } from 'node:http'

/** From the header `Password`, else the cookie `browser-password`, where browser clients keep it. */
export function folderPassword(request: IncomingMessage): string | undefined {
  const header = request.headers.password
  if (typeof header === 'string' && header !== '') return headerText(header)
  const cookie = /(?:^|;\s*)browser-password=([^;]*)/.exec(request.headers.cookie ?? '')?.[1]
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
