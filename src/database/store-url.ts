/** The URL of a PostgreSQL database, and the number of connections that a process has to it. */

/** The fewest and the usual number of connections of a process. */
export const connectionLimits = { min: 14, default: 33 } as const

/** Whether a location of the store is a URL of PostgreSQL. */
export function isPostgresUrl(location: string): boolean {
  return /^postgres(ql)?:\/\//i.test(location)
}

/**
 * The URL without its password, for messages. A password with an unescaped `/`, `?` or `#` ends at the last `@` of a
 * URL of PostgreSQL, although the URL is not valid then.
 */
export function withoutPassword(url: string): string {
  const isMistaken = isPostgresUrl(url) && !/^\w+:\/\/[^/?#]*@/.test(url)
  const password = isMistaken ? /^(\w+:\/\/[^/?#]*?):.*@/s : /^(\w+:\/\/[^/?#]*?):[^/?#]*@/
  return url.replace(password, '$1@').replace(/([?&]password=)[^&#]*/i, '$1…')
}
