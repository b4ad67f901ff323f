/** A page with literal placeholders. The server replaces the first occurrence of each. */

export interface PageValues {
  /** The base URL of the page's files, without a trailing slash. Empty: the root of the server. */
  readonly cdn: string
  /** The path of the site, without a trailing slash; empty for the root. */
  readonly site: string
  readonly title: string
  readonly mainColor: string
  /** URLs of images. Empty: none. */
  readonly favicon: string
  readonly logo: string
  /** HTML of the admin, inserted without escaping. */
  readonly head: string
  readonly body: string
}

export interface Placeholder {
  readonly text: string
  readonly value: (values: PageValues) => string
}

/** A page split at its placeholders, so that placeholders within values are not replaced. */
export class PageTemplate {
  readonly #parts: readonly (string | Placeholder)[]

  constructor(page: string, placeholders: readonly Placeholder[]) {
    const found = placeholders
      .map((placeholder) => ({ placeholder, start: page.indexOf(placeholder.text) }))
      .filter(({ start }) => start >= 0)
      .sort((one, other) => one.start - other.start)
    const parts: (string | Placeholder)[] = []
    let end = 0
    for (const { placeholder, start } of found) {
      parts.push(page.slice(end, start), placeholder)
      end = start + placeholder.text.length
    }
    this.#parts = [...parts, page.slice(end)]
  }

  /** The page with its placeholders replaced. */
  render(values: PageValues): string {
    return this.#parts.map((part) => (typeof part === 'string' ? part : part.value(values))).join('')
  }
}
