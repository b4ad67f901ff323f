/** The name of the cookie with the session of the console, at the server of this URL. */
export function sessionCookieAt(url: string): string {
  const { port } = new URL(url)
  return port === '' ? 'tidegate_session' : `tidegate_session_${port}`
}
