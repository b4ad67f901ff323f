/** A browser as far as signing in needs it: it keeps cookies, and follows redirects from one site to another. */

interface Visited {
  /** The last address that was asked for. */
  readonly url: URL
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

export class Browser {
  /** Cookies by origin and name. */
  readonly cookies = new Map<string, Map<string, string>>()

  constructor(readonly headers: Readonly<Record<string, string>> = { accept: 'text/html' }) {}

  /** `stop`: the redirect that is not followed. Default: one that leads to `/@`. */
  async go(
    address: string,
    init: RequestInit = {},
    stop: (to: URL) => boolean = (to) => to.pathname.startsWith('/@'),
  ): Promise<Visited> {
    let url = new URL(address)
    let request: RequestInit = init
    for (let hop = 0; hop < 15; hop++) {
      const jar = this.cookies.get(url.origin) ?? new Map<string, string>()
      this.cookies.set(url.origin, jar)
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const headers = { ...this.headers, ...(request.headers as Record<string, string>), ...(cookie && { cookie }) }
      const response = await fetch(url, { ...request, headers, redirect: 'manual' })
      for (const line of response.headers.getSetCookie()) {
        const [name = '', value = ''] = (line.split(';')[0] ?? '').split(/=(.*)/s)
        if (value === '' || /max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(name)
        else jar.set(name, value)
      }
      const location = response.headers.get('location')
      if (response.status < 300 || response.status > 399 || location === null) {
        return { url, status: response.status, headers: response.headers, body: await response.text() }
      }
      await response.body?.cancel()
      url = new URL(location, url)
      request = {}
      if (stop(url)) return { url, status: response.status, headers: response.headers, body: '' }
    }
    throw new Error(`too many redirects, the last one to ${url.href}`)
  }

  cookie(origin: string, name: string): string | undefined {
    return this.cookies.get(new URL(origin).origin)?.get(name)
  }
}

/** The value that a page posts to its opener. */
export function posted(body: string, field: 'token' | 'sso_id'): string {
  const script = new RegExp(`opener\\.postMessage\\(\\{ '${field}': '([^']*)' \\}, location\\.origin\\)`).exec(body)
  if (script?.[1] === undefined) throw new Error(`the page posts no ${field}: ${body}`)
  return script[1].replace(/\\u([0-9a-f]{4})/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
}
