/**
 * The index page of a web client of the AList / OpenList family. Its build leaves literal marks in the page for the server to
 * replace, the first occurrence of each: the same marks whatever the page calls its global, so pages of all ages fit.
 */
import { forAttribute, forScript, forText } from '../escape.js'

export interface PageValues {
  /** Where the page loads its files from, without a trailing slash; empty: from the root of the server. */
  readonly cdn: string
  /** The path of the site, without a trailing slash; empty for the root. */
  readonly site: string
  readonly title: string
  readonly mainColor: string
  /** Addresses of pictures; empty: none. */
  readonly favicon: string
  readonly logo: string
  /** HTML of the admin's, put in as it is. */
  readonly head: string
  readonly body: string
}

interface Mark {
  readonly text: string
  readonly value: (values: PageValues) => string
}

/** Where builds of different ages expect the pictures of their own projects; no visitor is sent there. */
const foreignPictures = [
  'https://res.oplist.org/logo/logo',
  'https://cdn.oplist.org/gh/OpenListTeam/Logo@main/logo',
  'https://cdn.jsdelivr.net/gh/alist-org/logo@main/logo',
  'https://jsd.nn.ci/gh/alist-org/logo@main/logo',
]

/** What stands for a picture where there is none: browsers ask nobody for it. */
const noPicture = 'data:,'

const marks: readonly Mark[] = [
  { text: 'cdn: undefined', value: ({ cdn }) => `cdn: ${forScript(cdn)}` },
  { text: 'base_path: undefined', value: ({ site }) => `base_path: ${forScript(site || '/')}` },
  { text: 'main_color: undefined', value: ({ mainColor }) => `main_color: ${forScript(mainColor)}` },
  // The older of them holds for pages from before the manifest moved.
  ...['/manifest.json', '/static/manifest.json'].map((path) => ({
    text: `href="${path}"`,
    value: ({ site }: PageValues) => `href="${forAttribute(site + path)}"`,
  })),
  ...foreignPictures.flatMap((address) => [
    { text: `${address}.svg`, value: ({ favicon }: PageValues) => forAttribute(favicon || noPicture) },
    { text: `${address}.png`, value: ({ logo }: PageValues) => forAttribute(logo || noPicture) },
  ]),
  { text: 'Loading...', value: ({ title }) => forText(title) },
  { text: '<!-- customize head -->', value: ({ head }) => head },
  { text: '<!-- customize body -->', value: ({ body }) => body },
]

/**
 * The page is taken apart once, so that a value which holds a mark itself is never searched for marks.
 */
export class PageTemplate {
  readonly #parts: readonly (string | Mark)[]

  constructor(page: string) {
    const found = marks
      .map((mark) => ({ mark, at: page.indexOf(mark.text) }))
      .filter(({ at }) => at >= 0)
      .sort((one, other) => one.at - other.at)
    const parts: (string | Mark)[] = []
    let end = 0
    for (const { mark, at } of found) {
      parts.push(page.slice(end, at), mark)
      end = at + mark.text.length
    }
    this.#parts = [...parts, page.slice(end)]
  }

  render(values: PageValues): string {
    return this.#parts.map((part) => (typeof part === 'string' ? part : part.value(values))).join('')
  }
}
