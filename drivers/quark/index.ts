/** Driver types `Quark` and `UC`: the drives of these two services, by the cookie of a browser. */
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { DriverType, Fields, OptionsOf } from '../../src/contract/driver-type.js'
import { quark, uc, type QuarkVendor } from './vendor.js'

export const ucFields = {
  cookie: {
    type: 'string',
    required: true,
    secret: true,
    trimmed: true,
    basic: true,
    help: 'The Cookie header of a signed-in browser, from a request that its developer tools show.',
  },
  root_folder_id: {
    type: 'string',
    default: '0',
    required: true,
    trimmed: true,
    basic: true,
    help: 'Id of the folder that is shown; 0 is the whole drive. It is in the address of the folder in a browser.',
  },
  order_by: {
    type: 'select',
    options: ['none', 'file_type', 'file_name', 'updated_at'],
    default: 'none',
    help: 'The order in which the service lists a folder. It counts if the storage has no order of its own.',
  },
  order_direction: { type: 'select', options: ['asc', 'desc'], default: 'asc' },
  only_list_video_file: { type: 'bool', default: false, help: 'List folders and videos only.' },
} as const satisfies Fields

export const quarkFields = {
  ...ucFields,
  use_transcoding_address: {
    type: 'bool',
    default: false,
    required: true,
    help: 'Send clients to a transcoded version of videos, where the storage may redirect them.',
  },
} as const satisfies Fields

export type QuarkOptions = OptionsOf<typeof ucFields> & Partial<OptionsOf<typeof quarkFields>>

/** Whether the service lists folders in an order that was chosen. */
export function hasOrder({ order_by: by }: Pick<QuarkOptions, 'order_by'>): boolean {
  return by !== 'none' && by !== ''
}

/** The parts of a vendor's driver type other than its fields. */
function kindOf(
  vendor: QuarkVendor,
): Omit<DriverType, 'fields' | 'open'> & { open(options: QuarkOptions, env: DriverEnv): Promise<Driver> } {
  return {
    name: vendor.name,
    ...(vendor.redirects && { facts: { directUrls: 'possible' } }),
    traits: {
      // A file that the service has is not sent.
      writeNeeds: 'reread',
      writeHashes: ['md5', 'sha1'],
      // Files have the time of their upload.
      timeStep: Number.POSITIVE_INFINITY,
      listingLag: vendor.listingLag,
      // Each stream reads several pieces ahead.
      parallel: 8,
      remote: true,
      metered: true,
    },
    async open(options: QuarkOptions, env: DriverEnv) {
      const { openQuark } = await import('./open.js')
      return openQuark(vendor, options, env)
    },
  }
}

export const quarkType: DriverType<typeof quarkFields> = {
  fields: quarkFields,
  ...kindOf(quark),
  qrSignIn: {
    field: 'cookie',
    begin: async (_options, env) => (await import('./qr-sign-in.js')).beginQrSignIn(env),
    ask: async (ticket, env) => (await import('./qr-sign-in.js')).askQrSignIn(ticket, env),
  },
}

export const ucType: DriverType<typeof ucFields> = { fields: ucFields, ...kindOf(uc) }
