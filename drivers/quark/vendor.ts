/** The differences between the two services of this vendor, which have one API. */

export interface QuarkVendor {
  /** Name of the driver. */
  readonly name: string
  /** Name of the server in error reasons. */
  readonly server: string
  /** The URL of the API, with a trailing slash. */
  readonly api: URL
  /** The domain of all its hosts: of the API, of uploads and of downloads. */
  readonly domain: string
  /** Parameter `pr` of every call. */
  readonly product: string
  readonly referer: string
  readonly userAgent: string
  /** Clients may be sent to the URLs of transcoded videos. */
  readonly redirects: boolean
  /** Milliseconds for which a listing may not show a change. */
  readonly listingLag: number
}

/** The vendor asks its own clients to wait a second; other users have seen several. */
const listingLag = 5000

export const quark: QuarkVendor = {
  name: 'Quark',
  server: 'Quark server',
  api: new URL('https://drive.quark.cn/1/clouddrive/'),
  domain: 'quark.cn',
  product: 'ucpro',
  referer: 'https://pan.quark.cn',
  userAgent: userAgent('quark-cloud-drive'),
  redirects: true,
  listingLag,
}

export const uc: QuarkVendor = {
  name: 'UC',
  server: 'UC server',
  api: new URL('https://pc-api.uc.cn/1/clouddrive/'),
  domain: 'uc.cn',
  product: 'UCBrowser',
  referer: 'https://drive.uc.cn',
  userAgent: userAgent('uc-cloud-drive'),
  redirects: false,
  listingLag,
}

/** The desktop client of the service. */
function userAgent(client: string): string {
  return (
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) ' +
    `${client}/2.5.20 Chrome/100.0.4896.160 Electron/18.3.5.4-b478491100 Safari/537.36 Channel/pckk_other_ch`
  )
}
