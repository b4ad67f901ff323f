/**
 * Driver types `115 Cloud` and `115 Open`, an account of 115 by two APIs, and `115 Share`, a folder that somebody
 * shares there.
 */
import type { DriverType, Fields, OptionsOf, QrSignIn } from '../../src/contract/driver-type.js'

const signInFields = {
  cookie: {
    type: 'text',
    secret: true,
    trimmed: true,
    basic: true,
    help: 'Cookie of a signed-in account with UID, CID, SEID and KID. Empty: sign in by qrcode_token.',
  },
  qrcode_token: {
    type: 'text',
    secret: true,
    trimmed: true,
    singleUse: true,
    help: 'The uid of a QR code that was scanned and confirmed. It is exchanged once for a cookie.',
  },
  qrcode_source: {
    type: 'select',
    default: 'web',
    // 115 has withdrawn the last three. Older configurations have them.
    options: ['web', 'android', 'ios', 'tv', 'alipaymini', 'wechatmini', 'qandroid', 'linux', 'mac', 'windows'],
    help: 'Kind of device that signs in by the QR code. An earlier sign-in of the same kind ends.',
  },
} as const satisfies Fields

/** The kinds of devices that may sign in by a QR code. */
export const qrDevices: readonly string[] = signInFields.qrcode_source.options

const qrSignIn: QrSignIn = {
  field: 'cookie',
  begin: async (options, env) => (await import('./qr-sign-in.js')).beginQrSignIn(options, env),
  ask: async (ticket, env) => (await import('./qr-sign-in.js')).askQrSignIn(ticket, env),
}

const limitFields = {
  limit_rate: {
    type: 'float',
    default: 2,
    help: 'Maximum number of calls per second. 115 blocks accounts that make many.',
  },
} as const satisfies Fields

export const cloud115Fields = {
  ...signInFields,
  page_size: { type: 'number', default: 1000, help: 'Entries of one call of a listing, at most 1150.' },
  ...limitFields,
  root_folder_id: {
    type: 'string',
    default: '0',
    required: true,
    trimmed: true,
    basic: true,
    help: 'Id of the folder that is shown: the cid in its address. 0: all folders.',
  },
} as const satisfies Fields

export const share115Fields = {
  ...signInFields,
  page_size: {
    type: 'number',
    default: 100,
    help: 'Entries of one call of a listing, at most 200: 115 blocks larger ones.',
  },
  ...limitFields,
  share_code: { type: 'text', required: true, trimmed: true, basic: true, help: 'The id in the link of the share.' },
  receive_code: {
    type: 'text',
    required: true,
    secret: true,
    trimmed: true,
    basic: true,
    help: 'The extraction code of the share.',
  },
  root_folder_id: { type: 'string', trimmed: true, help: 'Id of a folder of the share. Empty: the whole share.' },
} as const satisfies Fields

export type Cloud115Options = OptionsOf<typeof cloud115Fields>
export type Share115Options = OptionsOf<typeof share115Fields>

export const cloud115Type: DriverType<typeof cloud115Fields> = {
  name: '115 Cloud',
  fields: cloud115Fields,
  qrSignIn,
  facts: { directUrls: 'preferred', downloadTool: { name: '115 Cloud', folderSetting: '115_temp_dir' } },
  traits: {
    writeNeeds: 'reread',
    writeHashes: ['sha1'],
    timeStep: Number.POSITIVE_INFINITY,
    parallel: 16,
    urlsBoundTo: ['userAgent'],
    remote: true,
    metered: true,
  },
  open: async (options, env) => (await import('./cloud.js')).openCloud115(options, env),
}

export const share115Type: DriverType<typeof share115Fields> = {
  name: '115 Share',
  fields: share115Fields,
  qrSignIn,
  facts: { directUrls: 'preferred', readOnly: true },
  traits: { timeStep: Number.POSITIVE_INFINITY, parallel: 16, urlsBoundTo: ['userAgent'], remote: true, metered: true },
  open: async (options, env) => (await import('./share.js')).openShare115(options, env),
}

export const open115Fields = {
  root_folder_id: {
    type: 'string',
    default: '0',
    required: true,
    trimmed: true,
    basic: true,
    help: 'Id of the folder that is shown: the number after cid= in its web address. 0: the whole drive.',
  },
  order_by: {
    type: 'select',
    options: ['file_name', 'file_size', 'user_utime', 'file_type'],
    help: 'Order in which 115 lists a folder. It counts if the storage has no order of its own.',
  },
  order_direction: { type: 'select', options: ['asc', 'desc'] },
  limit_rate: { type: 'float', default: 1, help: 'Calls per second at most. 0: no limit, which 115 does not like.' },
  page_size: { type: 'number', default: 200, help: 'Entries of a folder that one call lists; 1150 at most.' },
  access_token: { type: 'string', required: true, secret: true, trimmed: true, basic: true },
  refresh_token: {
    type: 'string',
    required: true,
    secret: true,
    trimmed: true,
    basic: true,
    singleUse: true,
    help: 'Valid once: the storage keeps the tokens that replace it. No other program may use it.',
  },
} as const satisfies Fields

export type Open115Options = OptionsOf<typeof open115Fields>

export const open115Type: DriverType<typeof open115Fields> = {
  name: '115 Open',
  fields: open115Fields,
  facts: {
    directUrls: 'preferred',
    downloadTool: { name: '115 Open', folderSetting: '115_open_temp_dir' },
  },
  traits: {
    writeNeeds: 'reread',
    writeHashes: ['sha1'],
    timeStep: Number.POSITIVE_INFINITY,
    urlsBoundTo: ['userAgent'],
    // Each upload holds a part of 20 MiB in memory.
    parallel: 8,
    remote: true,
    metered: true,
  },
  async open(options, env) {
    const { openOpen115 } = await import('./open-driver.js')
    return openOpen115(options, env)
  },
}
