/** What a client of WebDAV sends in the course of its work, and what it relies on in the answers. */

export interface Trace {
  readonly client: string
  readonly userAgent: string
  /** Below `/dav/`; it is there, and empty, before the first step. */
  readonly folder: string
  /** Settings in force meanwhile. */
  readonly settings?: Readonly<Record<string, string>>
  readonly steps: readonly Step[]
}

/** `{dav}` in a header stands for the address of `/dav`, `{name}` for what an earlier step has kept under that name. */
export interface Step {
  /** Method and target, as they stand on the wire. */
  readonly request: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Sent without credentials. */
  readonly anonymous?: boolean
  readonly answer: Expected
  /** Headers of the answer that later steps send, by the name they know them under. */
  readonly keep?: Readonly<Record<string, string>>
}

export interface Expected {
  readonly status: number
  /** undefined: not there. */
  readonly headers?: Readonly<Record<string, string | RegExp | undefined>>
  readonly body?: string | RegExp
  /** The hrefs of a multistatus, all of them, in any order. */
  readonly hrefs?: readonly string[]
  /** By href and local name: the content of properties told with status 200; undefined: not among those. */
  readonly properties?: Readonly<Record<string, Readonly<Record<string, string | RegExp | undefined>>>>
}

/** An answer of which nothing but its status matters. */
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

/** Asks for properties of `DAV:`, and for those that are written out as elements of their own. */
export function propfind(names: string, others = ''): string {
  const elements = names.split(' ').map((name) => `<D:${name}/>`)
  return `<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>${elements.join('')}${others}</D:prop></D:propfind>`
}
