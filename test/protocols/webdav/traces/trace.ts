/** The requests of a WebDAV client, and what it expects of the responses. */

export interface Trace {
  readonly client: string
  readonly userAgent: string
  /** A folder below `/dav/`, which exists and is empty before the first step. */
  readonly folder: string
  /** Settings during the trace. */
  readonly settings?: Readonly<Record<string, string>>
  readonly steps: readonly Step[]
}

/**
 * `{dav}` in a header is replaced by the URL of `/dav`, `{name}` by the value that an earlier step has saved as `name`.
 */
export interface Step {
  /** Method and target, as sent. */
  readonly request: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Sent without credentials. */
  readonly anonymous?: boolean
  readonly answer: Expected
  /** Headers of the response to save for later steps, by the name that they use. */
  readonly keep?: Readonly<Record<string, string>>
}

export interface Expected {
  readonly status: number
  /** undefined: the header is missing. */
  readonly headers?: Readonly<Record<string, string | RegExp | undefined>>
  readonly body?: string | RegExp
  /** All hrefs of a multistatus, in any order. */
  readonly hrefs?: readonly string[]
  /** The content of properties with status 200, by href and local name; undefined: no such property. */
  readonly properties?: Readonly<Record<string, Readonly<Record<string, string | RegExp | undefined>>>>
}

/** A response of which only the status matters. */
export function status(code: number): Expected {
  return { status: code }
}

export const xml = { 'content-type': 'text/xml; charset="utf-8"' }
export const depth0 = { depth: '0' }
export const depth1 = { depth: '1' }

export function lockinfo(owner: string, scope: 'exclusive' | 'shared' = 'exclusive'): string {
  return (
    '<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:">' +
    `<D:lockscope><D:${scope}/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>${owner}</D:owner></D:lockinfo>`
  )
}

/** A PROPFIND body for properties of `DAV:`, and for others that are given as elements. */
export function propfind(names: string, others = ''): string {
  const elements = names.split(' ').map((name) => `<D:${name}/>`)
  return `<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>${elements.join('')}${others}</D:prop></D:propfind>`
}
