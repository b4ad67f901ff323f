/** What differs between Quark and UC, and what both demand of every request. */

export interface QuarkVendor {
  /** Host of the API. */
  readonly api: string
  /** Query parameter `pr` of every call. */
  readonly product: string
  readonly referer: string
  readonly userAgent: string
  /** The domain of cookies. */
  readonly domain: string
  /** Domain of the object store and of downloads, whose hosts have one more label. */
  readonly store: string
}

const userAgent = (product: string) =>
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) ' +
  `${product}/2.5.20 Chrome/100.0.4896.160 Electron/18.3.5.4-b478491100 Safari/537.36 Channel/pckk_other_ch`

export const quark: QuarkVendor = {
  api: 'drive.quark.cn',
  product: 'ucpro',
  referer: 'https://pan.quark.cn',
  userAgent: userAgent('quark-cloud-drive'),
  domain: 'quark.cn',
  store: 'pds.quark.cn',
}

export const uc: QuarkVendor = {
  api: 'pc-api.uc.cn',
  product: 'UCBrowser',
  referer: 'https://drive.uc.cn',
  userAgent: userAgent('uc-cloud-drive'),
  domain: 'uc.cn',
  store: 'pds.uc.cn',
}

/** A host that does not belong to the vendor, to which downloads may be redirected. */
export const foreignHost = 'cache.delivery.example'

/** What the API answers instead of data. */
export class QuarkRefusal extends Error {
  constructor(
    readonly status: number,
    readonly code: number,
    message: string,
  ) {
    super(message)
  }
}

export const refusals = {
  notSignedIn: () => new QuarkRefusal(401, 31001, 'require login [guest]'),
  invalid: (what: string) => new QuarkRefusal(400, 31002, `bad parameter: ${what}`),
  sameName: () => new QuarkRefusal(400, 23008, 'file is doloading[同名冲突]'),
  missing: () => new QuarkRefusal(404, 23018, 'file not found'),
} as const
