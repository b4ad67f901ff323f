/**
 * The index page of a web client of the AList / OpenList family. The page contains literal placeholders. The server
 * replaces the first occurrence of each. They do not depend on the name of the page's global variable, so builds of all
 * versions work.
 */
import { forAttribute, forScript, forText } from '../escape.js'

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

interface Placeholder {
  readonly text: string
  readonly value: (values: PageValues) => string
}

/** Image URLs in builds of different versions. They are replaced, so that browsers do not contact third parties. */
const thirdPartyImages = [
  'https://res.oplist.org/logo/logo',
  'https://cdn.oplist.org/gh/OpenListTeam/Logo@main/logo',
  'https://cdn.jsdelivr.net/gh/alist-org/logo@main/logo',
  'https://jsd.nn.ci/gh/alist-org/logo@main/logo',
]

/** The URL of a missing image. Browsers send no request for it. */
const noImage = 'data:,'

const placeholders: readonly Placeholder[] = [
  { text: 'cdn: undefined', value: ({ cdn }) => `cdn: ${forScript(cdn)}` },
  { text: 'base_path: undefined', value: ({ site }) => `base_path: ${forScript(site || '/')}` },
  { text: 'main_color: undefined', value: ({ mainColor }) => `main_color: ${forScript(mainColor)}` },
  // Older builds expect the manifest below /static.
  ...['/manifest.json', '/static/manifest.json'].map((path) => ({
    text: `href="${path}"`,
    value: ({ site }: PageValues) => `href="${forAttribute(site + path)}"`,
  })),
  ...thirdPartyImages.flatMap((address) => [
    { text: `${address}.svg`, value: ({ favicon }: PageValues) => forAttribute(favicon || noImage) },
    { text: `${address}.png`, value: ({ logo }: PageValues) => forAttribute(logo || noImage) },
  ]),
  { text: 'Loading...', value: ({ title }) => forText(title) },
  { text: '<!-- customize head -->', value: ({ head }) => head },
  { text: '<!-- customize body -->', value: ({ body }) => body },
]

/** A page split at its placeholders, so that placeholders within values are not replaced. */
export class PageTemplate {
  readonly #parts: readonly (string | Placeholder)[]

  constructor(page: string) {
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
