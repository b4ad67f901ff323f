/** What the server has to know of a built web client: its placeholders, its files, and the headers that it needs. */
import { forAttribute, forScript, forText } from '../api/escape.js'
import type { Placeholder, PageValues } from './page-template.js'

export interface WebBuild {
  /** The placeholders of its index page. */
  readonly placeholders: readonly Placeholder[]
  /** Matches the targets of its files, relative to the site. All others are pages, for which the index page is sent. */
  readonly fileTarget: RegExp
  /** The headers of its pages that restrict what they may do. */
  readonly pagePolicy: Readonly<Record<string, string>>
  /** The headers of the file of this name that restrict what it may do. */
  readonly filePolicy: (name: string) => Readonly<Record<string, string>>
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

/**
 * A web client of the AList / OpenList family. The placeholders do not depend on the name of the page's global
 * variable, so builds of all versions work.
 */
export const externalClient: WebBuild = {
  placeholders: [
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
  ],
  fileTarget: /^\/(?:assets|images|streamer|static)\/(?!manifest\.json(?:\?|$))/,
  // Prevents clickjacking. The pages have inline scripts, and load what the admin has configured.
  pagePolicy: { 'Content-Security-Policy': "frame-ancestors 'self'" },
  filePolicy: () => ({}),
}
