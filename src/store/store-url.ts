/** Where a PostgreSQL database is, and how many connections a process has to it. */

/** The fewest and the usual number of connections of a process. */
export const connectionLimits = { min: 14, default: 33 } as const

/** Whether a location of the store is a URL of PostgreSQL. */
export function isPostgresUrl(location: string): boolean {
  return /^postgres(ql)?:\/\//i.test(location)
}

/** The URL without its password, for messages. */
export function withoutPassword(url: string): string {
  return url.replace(/^(\w+:\/\/[^/?#]*?):[^/?#]*@/, '$1@').replace(/([?&]password=)[^&#]*/i, '$1…')
}
