/** Headers of all responses to visitors of shares: nothing leads others to a share. */
export const visitorHeaders = { 'Referrer-Policy': 'no-referrer', 'X-Robots-Tag': 'noindex' } as const

/** The Cache-Control of what visitors get of a share. `code`: that of the share. */
export function visitorCaching(code: string): string {
  return code === '' ? 'private, no-cache' : 'private, no-store'
}
