/** URLs of PostgreSQL databases. */

/** Whether a location of the store is a URL of PostgreSQL. */
export function isPostgresUrl(location: string): boolean {
  return /^postgres(ql)?:\/\//i.test(location)
}

/** The URL without its password, for messages. */
export function withoutPassword(url: string): string {
  return url.replace(/^(\w+:\/\/[^/?#]*?):[^/?#]*@/, '$1@').replace(/([?&]password=)[^&#]*/i, '$1…')
}
